package server

import (
	"context"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// A stream takes its connection from fasthttp for as long as it lasts. fasthttp would keep a reader of 16 KiB, a
// writer, a pipe, the request with its headers and two goroutines with deep stacks for it, of which an idle stream needs
// nothing. Behind the stream's end fasthttp serves the connection on.

// handOver has a stream run once the handler of its request has returned: out gets the response's head and the
// connection, and run says whether the response is whole. Where the connection breaks before, lost is called instead.
func (x *exchange) handOver(out *stream, run func() (whole bool), lost func()) {
	s, fast, c := x.s, x.c.Context(), x.connection()
	s.streaming.Add(1)
	free := c.promise(func() {
		defer s.streaming.Done()
		lost()
	})
	fast.HijackSetNoResponse(true)
	fast.Hijack(func(rest net.Conn) {
		if !c.kept() {
			return
		}
		ahead := readAhead(c, rest)
		out.begin(c, &fast.Response.Header, fast.Request.Header.IsHTTP11())
		last := fast.Response.Header.ConnectionClose()
		// fasthttp lets go of the request when this function returns, so the stream has a goroutine of its own.
		go func() {
			defer s.streaming.Done()
			if !run() || last {
				_ = c.Close()
				return
			}
			c.ahead = ahead
			<-free // else fasthttp, done with the stream's request, would forget the connection that it serves again
			s.serveOn(c)
		}()
	})
}

// readAhead gives what has been read of a connection's next request, which is usually nothing.
func readAhead(c *conn, rest net.Conn) (ahead []byte) {
	if c.SetReadDeadline(time.Unix(1, 0)) != nil { // so that nothing is waited for
		return nil
	}
	buffer := make([]byte, 512)
	for {
		n, err := rest.Read(buffer)
		ahead = append(ahead, buffer[:n]...)
		if err != nil || n == 0 {
			_ = c.SetReadDeadline(time.Time{}) // A connection that fails here fails where it is read next.
			return ahead
		}
	}
}

// serveOn waits for the next request on a connection whose stream has ended, and has fasthttp serve it.
func (s *Server) serveOn(c *conn) {
	c.is(idle)
	if s.awaitRequest(c) != nil {
		_ = c.Close()
		return
	}
	// Its error says how the connection ended, as it does where fasthttp serves a connection by itself.
	_ = s.app.Server().ServeConn(c)
}

// awaitRequest waits for the first byte of a next request, at most for limits.idle. fasthttp itself would take the
// connection for a new one, and answer 408 where it stays silent.
func (s *Server) awaitRequest(c *conn) error {
	if err := c.SetDeadline(time.Now().Add(s.limits.idle)); err != nil {
		return err
	}
	defer context.AfterFunc(s.streams, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })()
	if len(c.ahead) == 0 {
		first := make([]byte, 1)
		if _, err := c.Conn.Read(first); err != nil {
			return err
		}
		c.ahead = first
	}
	if err := s.streams.Err(); err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

// promise notes what is to be done where the connection is closed before its stream has taken it. Where the stream
// takes it, free is closed once fasthttp has let go of it.
func (c *conn) promise(lost func()) (free <-chan struct{}) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.lost, c.free = lost, make(chan struct{})
	if c.closed {
		c.breakPromise()
	}
	return c.free
}

// kept tells whether the stream may take the connection.
func (c *conn) kept() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	kept := c.lost != nil
	c.lost = nil
	return kept
}

// breakPromise does what was promised. The lock of all connections must be held, so it is done elsewhere.
func (c *conn) breakPromise() {
	if c.lost != nil {
		go c.lost()
		c.lost = nil
	}
}

// Read implements net.Conn. What was read ahead comes first.
func (c *conn) Read(b []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(b, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// begin gives a stream the connection that it writes to, and the head of the response.
func (s *stream) begin(c *conn, h *fasthttp.ResponseHeader, http11 bool) {
	status := h.StatusCode()
	bodyless := status < 200 || status == http.StatusNoContent || status == http.StatusNotModified
	switch {
	case bodyless:
	case http11:
		h.SetContentLength(-1)
		s.chunked = true
	default:
		h.Del(fiber.HeaderConnection) // fasthttp has written keep-alive
		h.SetConnectionClose()        // which ends the body
	}
	s.conn, s.head = c, slices.Clone(h.Header())
}
