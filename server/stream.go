package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const ndjsonType = "application/x-ndjson"

// stream is a response whose body is written piece by piece, however long it is. Its ctx ends with the server.
type stream struct {
	contentType string
	write       func(ctx context.Context, w io.Writer) error
}

// sendStream has the body written once the handler has returned. Nothing of the exchange is touched then. A body that
// fails ends with a broken connection: never does one that is cut short look whole.
func (x *exchange) sendStream(body stream) {
	x.stream = true
	if x.c.Method() == http.MethodHead {
		return
	}
	s, conn, id := x.s, x.c.Context().Conn(), x.id
	x.c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		err := s.writeStream(body, patientWriter{w, conn, s.limits.write})
		if err == nil {
			err = w.Flush()
		}
		if err == nil {
			return
		}
		level := slog.LevelError
		if errors.Is(err, context.Canceled) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) {
			level = slog.LevelInfo // the client went, or the server stops
		}
		s.log.Log(s.base, level, "a response was cut short", "request_id", id, "error", err)
		_ = conn.Close()
	})
}

// writeStream makes an error of a panic, which would end the process here.
func (s *Server) writeStream(body stream, w io.Writer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return body.write(s.base, w)
}

// patientWriter gives each piece of a response the time that a whole one has elsewhere.
type patientWriter struct {
	w    io.Writer
	conn net.Conn
	time time.Duration
}

func (w patientWriter) Write(b []byte) (int, error) {
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.time)); err != nil {
		return 0, err
	}
	return w.w.Write(b)
}

// bodyStream reads the body of a route that streams it. Each piece has the time that a whole request has elsewhere.
func (x *exchange) bodyStream() io.Reader {
	return &bodyReader{x: x, left: x.c.Request().Header.ContentLength()}
}

type bodyReader struct {
	x    *exchange
	left int // where it is known; else negative
}

func (r *bodyReader) Read(b []byte) (int, error) {
	if err := r.x.c.Context().Conn().SetReadDeadline(time.Now().Add(r.x.s.limits.read)); err != nil {
		return 0, errAwaited(err)
	}
	n, err := r.x.c.Request().BodyStream().Read(b)
	known := r.left >= 0
	r.left -= n
	switch {
	case err == io.EOF && known && r.left > 0:
		return n, errAwaited(io.ErrUnexpectedEOF)
	case err == io.EOF:
		r.x.unread = false
		return n, io.EOF
	case err != nil:
		return n, errAwaited(err)
	}
	return n, nil
}
