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
	// minDescriptors is how many file descriptors are left to the store and to the sandbox, at least; a quarter of all
	// is where that is more. Badger keeps one open for each of its files.
	minDescriptors = 256
	// connectionCost is what an idle connection takes of memory, in bytes: its buffers, its goroutine, its request.
	connectionCost = 32 << 10
	// acceptPause is how long the listener waits after an error that passes, such as a lack of descriptors. It doubles
	// up to maxAcceptPause.
	acceptPause, maxAcceptPause = 5 * time.Millisecond, time.Second
)

// defaultConnections is how many connections a server keeps: within three quarters of the file descriptors that the
// process may open, and an eighth of its memory. Go has raised the soft limit of descriptors to the hard one.
func defaultConnections() int {
	n := 1 << 17 // fasthttp serves twice as many
	if open, ok := maxDescriptors(); ok {
		n = max(16, open-max(minDescriptors, open/4))
	}
	return int(min(int64(n), max(16, debug.SetMemoryLimit(-1)/8/connectionCost)))
}

// connections are those that a server has. Where there are too many, one that waits for its client is closed for the
// new one: of the address that has the most, the one that has waited longest. No address may hold more than 7/8 of all.
type connections struct {
	log    *slog.Logger
	max    int
	taking time.Duration // for a client to take its answer, before its connection is closed to make room

	mu        sync.Mutex
	open      int
	shed      int // how many were closed to make room
	addresses map[netip.Prefix]*address
}

// address is where connections come from: an IPv4 address, or a network of IPv6, which one customer gets.
type address struct {
	name netip.Prefix
	open int
	// waiting has the connections whose client is waited for, those first that have waited longest: lists of *conn that
	// are between two requests or in a request's headers, of those in a body, and of those whose answer is being taken.
	waiting [3]queue.List
}

// The lists of an address, and of what a connection that is in none is doing.
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

// conn is a connection that the server counts.
type conn struct {
	net.Conn
	of      *connections
	address *address
	doing   int
	since   time.Time      // when it began to do that
	line    *queue.Element // in the list of doing
	closed  bool
	held    lease         // what the answer on its way holds
	lost    func()        // what a stream is told that was to take the connection; nil: none was
	free    chan struct{} // closed once fasthttp has let go of the connection for a stream; nil: it has, or none takes it
	ahead   []byte        // what was read of the next request
	// overflows says that fasthttp is about to write a full buffer and more behind it, and begun is that buffer.
	overflows bool
	begun     *[responseBuffer]byte
}

// admit counts a new connection, and closes another one where there are too many. It is nil where none can be closed.
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
	cs.addresses[name] = from // again, where its last connection was shed just now
	cs.open++
	from.open++
	counted := &conn{Conn: c, of: cs, address: from, doing: working}
	counted.move(idle)
	return counted
}

// shedOne closes a connection of the address that has the most, among those with one that waits.
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

// longest is the connection that has waited longest for its client, of those that do the same. An answer's client has
// some time to take it.
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

// move notes what a connection is doing. The lock of all connections must be held.
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

// is notes what the connection is doing.
func (c *conn) is(doing int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.move(doing)
}

// end closes the connection and counts it no more. The lock must be held.
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

// CloseWrite says to the client that nothing more comes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// changed is told by fasthttp that an answer has been written, or that it has let go of a connection.
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

// keep holds a lease until the answer on the connection is written, or the connection closed.
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

// figures says how many connections there are, and how many were shed.
func (cs *connections) figures() (open, shed int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open, cs.shed
}

// listener accepts connections for as long as the one beneath is open.
type listener struct {
	net.Listener
	connections *connections
}

// Accept waits for a connection. Errors that pass, such as a lack of file descriptors, do not end it: fasthttp would
// end the server with them.
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
				l.connections.log.Warn("a connection could not be accepted; trying again", "error", err)
			}
			pause = min(max(acceptPause, 2*pause), maxAcceptPause)
			l.connections.mu.Lock()
			l.connections.shedOne()
			l.connections.mu.Unlock()
			time.Sleep(pause)
		}
	}
}

// passes tells whether an error of Accept is one of the moment.
func passes(err error) bool {
	for _, e := range [...]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
