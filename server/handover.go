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

// A stream takes its connection from fasthttp until the stream ends. For each connection fasthttp would keep a 16 KiB
// reader, a writer, a pipe, the request with its headers and two goroutines with deep stacks; an idle stream needs
// none of them. After the stream, fasthttp serves the connection again.

// handOver runs a stream after the handler of its request has returned. out gets the response headers and the
// connection; run reports whether the response is complete. If the connection breaks before run starts, lost is
// called instead.
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
		// fasthttp releases the request when this function returns, so the stream runs in another goroutine.
		go func() {
			defer s.streaming.Done()
			if !run() || last {
				_ = c.Close()
				return
			}
			c.ahead = ahead
			<-free // otherwise fasthttp, when done with the stream's request, would drop the connection that it serves again
			s.serveOn(c)
		}()
	})
}

// readAhead returns the bytes of the connection's next request that were already read, usually none.
func readAhead(c *conn, rest net.Conn) (ahead []byte) {
	if c.SetReadDeadline(time.Unix(1, 0)) != nil { // do not wait for more
		return nil
	}
	buffer := make([]byte, 512)
	for {
		n, err := rest.Read(buffer)
		ahead = append(ahead, buffer[:n]...)
		if err != nil || n == 0 {
			_ = c.SetReadDeadline(time.Time{}) // If the connection fails here, the next read fails too.
			return ahead
		}
	}
}

// serveOn waits for the next request on a connection whose stream has ended, and lets fasthttp serve it.
func (s *Server) serveOn(c *conn) {
	c.is(idle)
	if s.awaitRequest(c) != nil {
		_ = c.Close()
		return
	}
	// The error says how the connection ended, as when fasthttp itself accepts a connection.
	_ = s.app.Server().ServeConn(c)
}

// awaitRequest waits for the first byte of the next request, for at most limits.idle. fasthttp would treat the
// connection as a new one, and answer 408 if no request came.
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

// promise sets the function that is called if the connection is closed before its stream has taken it. After the
// stream has taken it, free is closed when fasthttp has released the connection.
func (c *conn) promise(lost func()) (free <-chan struct{}) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.lost, c.free = lost, make(chan struct{})
	if c.closed {
		c.breakPromise()
	}
	return c.free
}

// kept reports whether the stream may take the connection, and takes it.
func (c *conn) kept() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	kept := c.lost != nil
	c.lost = nil
	return kept
}

// breakPromise calls the promised function in a new goroutine, because the caller must hold the lock of all
// connections.
func (c *conn) breakPromise() {
	if c.lost != nil {
		go c.lost()
		c.lost = nil
	}
}

// Read implements net.Conn. It returns the bytes that were read ahead first.
func (c *conn) Read(b []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(b, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// begin gives the stream its connection and the response headers.
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
		h.SetConnectionClose()        // so the end of the connection ends the body
	}
	s.conn, s.head = c, slices.Clone(h.Header())
}
