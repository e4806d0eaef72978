package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// errNoSockets means that all sockets for upstreams are in use.
var errNoSockets = errors.New("all connections to providers are in use")

// sockets limits the open connections to upstreams, idle ones included.
type sockets struct {
	max, open atomic.Int64
	closeIdle func()
}

// take counts a connection that is about to be opened. If there are too many, it closes the idle ones.
func (s *sockets) take() bool {
	if s.open.Add(1) <= s.max.Load() {
		return true
	}
	s.closeIdle()
	if s.open.Load() <= s.max.Load() {
		return true
	}
	s.open.Add(-1)
	return false
}

// dial opens a connection with a function, and counts it until it is closed. The hold of the call, which ctx contains,
// lasts at least until the connection can be used, because net/http continues connecting after a call has ended.
func (s *sockets) dial(ctx context.Context, open func() (net.Conn, error)) (net.Conn, error) {
	if !s.take() {
		return nil, errNoSockets
	}
	h := holdOf(ctx)
	h.add()
	conn, err := open()
	if err != nil {
		h.release()
		s.open.Add(-1)
		return nil, err
	}
	c := &socket{Conn: conn, of: s, settled: sync.OnceFunc(h.release)}
	time.AfterFunc(connectTime, c.settled) // A TLS handshake takes no longer.
	return c, nil
}

// socket is a connection to an upstream.
type socket struct {
	net.Conn
	of      *sockets
	settled func() // releases the hold of the call that opened it
	closed  atomic.Bool
}

// Close implements net.Conn.
func (c *socket) Close() error {
	err := c.Conn.Close()
	if !c.closed.Swap(true) {
		c.settled()
		c.of.open.Add(-1)
	}
	return err
}

// hold is a call's share of the connections of its tenant. It ends when the answer has been read and no connection is
// being opened for the call. A nil hold does nothing.
type hold struct {
	uses atomic.Int32
	end  func()
}

func (h *hold) add() {
	if h != nil {
		h.uses.Add(1)
	}
}

func (h *hold) release() {
	if h != nil && h.uses.Add(-1) == 0 {
		h.end()
	}
}

type holdKey struct{}

func holdOf(ctx context.Context) *hold {
	h, _ := ctx.Value(holdKey{}).(*hold)
	return h
}

// with returns a context for one request of a call.
func (h *hold) with(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(context.WithValue(ctx, holdKey{}, h), &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			conn := got.Conn
			if encrypted, ok := conn.(*tls.Conn); ok {
				conn = encrypted.NetConn()
			}
			if c, ok := conn.(*socket); ok {
				c.settled()
			}
		}})
}

// heldBody is the body of an answer. Closing it releases the call's hold.
type heldBody struct {
	io.ReadCloser
	release func() // safe to call twice
}

// Close implements io.Closer.
func (b *heldBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
