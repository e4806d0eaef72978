package server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine/access"
)

const ndjsonType = "application/x-ndjson"

// streamed is a response that is written while it is being made. close, where it is not nil, frees what the response
// holds. It is called once, even if run never is.
type streamed struct {
	contentType string
	run         func(out *stream) error
	close       func()
}

// stream is what a streamed response is written to. It outlives the exchange that began it.
type stream struct {
	*bufio.Writer
	ctx          context.Context // ends when the server begins to stop
	conn         net.Conn
	stall, drain time.Duration
}

// written is a response that write produces piece by piece. It may take as long as its reader goes on reading. A
// response that fails, or that the stopping server cuts short, ends with a broken connection, so that it never looks
// whole.
func (s *Server) written(contentType string, write func(ctx context.Context, w io.Writer) error) streamed {
	return streamed{contentType: contentType, run: func(out *stream) error {
		defer context.AfterFunc(s.streams, out.hurry)()
		if err := write(s.streams, patient{out}); err != nil {
			return err
		}
		return out.Flush()
	}}
}

// patient extends the reader's time with each piece. It must not implement io.StringWriter, because WriteString would
// then bypass it.
type patient struct{ out *stream }

func (p patient) Write(b []byte) (int, error) {
	if err := cmp.Or(p.out.ctx.Err(), p.out.extend()); err != nil {
		return 0, err
	}
	return p.out.Write(b)
}

// extend gives the reader a bounded time from now on to take what is written. A reader who does not take it is cut off:
// the server keeps nothing for later.
func (s *stream) extend() error {
	err := s.conn.SetWriteDeadline(time.Now().Add(s.stall))
	if s.ctx.Err() != nil { // the server is stopping, and the deadline above has undone hurry's
		s.hurry()
	}
	return err
}

// hurry shortens the time of a stuck reader when the server stops, so that the stream ends within the server's drain.
func (s *stream) hurry() { _ = s.conn.SetWriteDeadline(time.Now().Add(s.drain / 4)) }

// Flush hands what was written to the reader.
func (s *stream) Flush() error {
	if err := s.extend(); err != nil {
		return err
	}
	return s.Writer.Flush()
}

// startStream begins a streamed response. Its writer must not touch the exchange, which ends before the writer does.
func (x *exchange) startStream(resp streamed) error {
	r := x.c.Response()
	r.Header.SetContentType(resp.contentType)
	r.Header.Set(fiber.HeaderCacheControl, "no-cache")
	r.Header.Set("X-Accel-Buffering", "no") // a proxy is to pass on what comes as it comes
	if resp.close == nil {
		resp.close = func() {}
	}
	if x.unread || x.c.Method() == http.MethodHead {
		resp.close()
		if x.unread {
			return refuse(http.StatusBadRequest, "body_unexpected", "this route takes no body")
		}
		return nil
	}
	s, conn := x.s, x.c.Context().Conn()
	id, path := x.id, strings.Clone(x.c.Path())
	s.metrics.streams.Add(1)
	r.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer s.metrics.streams.Add(-1)
		defer resp.close()
		out := &stream{w, s.streams, conn, s.limits.stall, s.limits.drain}
		if err := guard(func() error { return resp.run(out) }); err != nil {
			level := slog.LevelError
			if errors.Is(err, context.Canceled) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) {
				level = slog.LevelInfo // the reader went, or the server stops
			}
			s.log.Log(s.base, level, "a stream broke off", "request_id", id, "path", path, "error", err)
			// Only this tells the reader that the end is missing.
			_ = conn.Close()
		}
	})
	return nil
}

// guard turns a panic into an error: a stream runs where nothing else would catch it.
func guard(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run()
}

// still tells whether the key of a stream is as good as when it began.
func (s *Server) still(key, tenant string, r *route) bool {
	ctx, cancel := context.WithTimeout(s.streams, s.limits.request)
	defer cancel()
	caller, err := s.engine.Tenants.Authenticate(ctx, key)
	if err != nil || caller.Role < r.role {
		return false
	}
	if caller.Role < access.RoleRoot {
		return true
	}
	exists, err := s.engine.Tenants.Exists(ctx, tenant)
	return err == nil && exists
}
