package server

import (
	queue "container/list"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// connectionCost is the memory, in bytes, of an idle connection: its buffers, its goroutine, its request.
	connectionCost = 32 << 10
	// acceptPause is the time that the listener waits after a temporary error, such as a lack of descriptors. It
	// doubles up to maxAcceptPause.
	acceptPause, maxAcceptPause = 5 * time.Millisecond, time.Second
)

// defaultConnections returns the number of connections for which an eighth of the process's memory suffices.
func defaultConnections() int {
	const most = 1 << 17 // fasthttp's own limit is twice that
	return int(min(most, max(16, debug.SetMemoryLimit(-1)/8/connectionCost)))
}

// connections tracks the open connections of a server. If there are too many, a new connection replaces one that
// waits for its client: the one that has waited longest, from the address with the most connections. No address may
// hold more than 7/8 of all.
type connections struct {
	log    *slog.Logger
	max    int
	taking time.Duration // the time a client has to read its response before its connection may be closed to free capacity

	mu        sync.Mutex
	open      int
	shed      int // the number of connections closed to free capacity
	addresses map[netip.Prefix]*address
}

// address is the origin of connections: an IPv4 address, or an IPv6 network, which usually belongs to one customer.
type address struct {
	name netip.Prefix
	open int
	// waiting lists the connections (*conn) that wait for their client, longest first: those between two requests or
	// in a request's headers, those in a body, and those whose response is being read.
	waiting [3]queue.List
}

// The lists of an address, and the state of a connection that is in none.
const (
	idle = iota
	receiving
	sending
	working
)

func addressOf(c net.Conn) netip.Prefix {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := at.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	network, _ := ip.Prefix(bits)
	return network
}

// conn is a connection that the server tracks.
type conn struct {
	net.Conn
	of      *connections
	address *address
	doing   int
	since   time.Time      // when its current state began
	line    *queue.Element // its element in the list of that state
	closed  bool
	held    lease         // the memory held by the response that is being sent
	lost    func()        // called if the connection closes before a stream takes it; nil: no stream is waiting
	free    chan struct{} // closed when fasthttp has released the connection for a stream; nil: already released, or no stream takes it
	ahead   []byte        // bytes of the next request that were already read
	// overflows says that fasthttp is about to write a full buffer and then more; begun is that buffer.
	overflows bool
	begun     *[responseBuffer]byte
}

// admit registers a new connection, and closes another one if there are too many. It returns nil if none can be
// closed.
func (cs *connections) admit(c net.Conn) *conn {
	name := addressOf(c)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	from := cs.addresses[name]
	if from == nil {
		from = &address{name: name}
	}
	if from.open >= max(1, cs.max-cs.max/8) && !from.shedOne() || cs.open >= cs.max && !cs.shedOne() {
		return nil
	}
	cs.addresses[name] = from // set again, because its last connection may just have been shed
	cs.open++
	from.open++
	counted := &conn{Conn: c, of: cs, address: from, doing: working}
	counted.move(idle)
	return counted
}

// resize sets the maximum number of connections, and closes waiting ones that exceed it.
func (cs *connections) resize(most int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for cs.max = most; cs.open > cs.max && cs.shedOne(); {
	}
}

// shedOne closes a waiting connection of the address that has the most connections, among the addresses that have a
// waiting one.
func (cs *connections) shedOne() bool {
	for kind := range working {
		var most *address
		for _, a := range cs.addresses {
			if a.longest(kind) != nil && (most == nil || a.open > most.open) {
				most = a
			}
		}
		if most != nil {
			return most.shedOne()
		}
	}
	return false
}

func (a *address) shedOne() bool {
	for kind := range a.waiting {
		if c := a.longest(kind); c != nil {
			c.of.shed++
			_ = c.end()
			return true
		}
	}
	return false
}

// longest returns the connection that has waited longest in the given state. A client gets some time to read its
// response.
func (a *address) longest(doing int) *conn {
	first := a.waiting[doing].Front()
	if first == nil {
		return nil
	}
	c := first.Value.(*conn)
	if doing == sending && time.Since(c.since) < c.of.taking {
		return nil
	}
	return c
}

// move sets the state of a connection. The caller must hold the lock of all connections.
func (c *conn) move(doing int) {
	if c.line != nil {
		c.address.waiting[c.doing].Remove(c.line)
		c.line = nil
	}
	c.doing = doing
	if doing != working && !c.closed {
		c.since = time.Now()
		c.line = c.address.waiting[doing].PushBack(c)
	}
}

// is sets the state of the connection.
func (c *conn) is(doing int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.move(doing)
}

// end closes the connection and stops tracking it. The caller must hold the lock.
func (c *conn) end() error {
	if !c.closed {
		c.closed = true
		c.move(working)
		c.of.open--
		if c.address.open--; c.address.open == 0 {
			delete(c.of.addresses, c.address.name)
		}
		c.held.release()
		c.breakPromise()
	}
	return c.Conn.Close()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.end()
}

// CloseWrite tells the client that no more data follows.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// changed is called by fasthttp when a response has been written or a connection has been released.
func (cs *connections) changed(of net.Conn, state fasthttp.ConnState) {
	c, ok := of.(*conn)
	if !ok {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case state == fasthttp.StateIdle:
		c.held.release()
		c.move(idle)
	case state == fasthttp.StateHijacked && c.free != nil:
		close(c.free)
		c.free = nil
	}
}

// keep holds a lease until the response on the connection is written or the connection is closed.
func (c *conn) keep(l lease) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.held.release()
	if c.closed {
		l.release()
		return
	}
	c.held = l
}

// figures returns the number of open connections and of shed ones.
func (cs *connections) figures() (open, shed int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open, cs.shed
}

// listener accepts connections until the underlying listener closes.
type listener struct {
	net.Listener
	connections *connections
}

// Accept waits for a connection. It retries after temporary errors, such as a lack of file descriptors, because
// fasthttp would stop the server on them.
func (l listener) Accept() (net.Conn, error) {
	var pause time.Duration
	for {
		c, err := l.Listener.Accept()
		switch {
		case err == nil:
			if counted := l.connections.admit(c); counted != nil {
				return counted, nil
			}
			_ = c.Close()
		case !passes(err):
			return nil, err
		default:
			if pause == 0 {
				l.connections.log.Warn("a connection could not be accepted; retrying", "error", err)
			}
			pause = min(max(acceptPause, 2*pause), maxAcceptPause)
			l.connections.mu.Lock()
			l.connections.shedOne()
			l.connections.mu.Unlock()
			time.Sleep(pause)
		}
	}
}

// passes reports whether an error of Accept is temporary.
func passes(err error) bool {
	for _, e := range [...]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
