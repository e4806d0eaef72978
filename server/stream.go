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
	"github.com/seed-0906e6bc/mneme/engine/fair"
)

const ndjsonType = "application/x-ndjson"

// streamed is a response that is written while it is being made. begin, which may be nil, sets its status and headers
// before run starts, because run may change what they say. close frees what the response holds; it may be nil, and is
// called once, even where run is not.
type streamed struct {
	contentType string
	begin       func()
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

// written is a response that write produces piece by piece, for as long as its reader keeps reading. Where write fails
// or the server stops, the connection is broken, so that a response that was cut short never looks complete.
//
// It is made in a place of its sender, like any other answer, except while the reader is waited for.
func (x *exchange) written(contentType string, write func(ctx context.Context, w io.Writer) error) streamed {
	s, sender := x.s, x.sender()
	return streamed{contentType: contentType, run: func(out *stream) error {
		defer context.AfterFunc(s.streams, out.hurry)()
		place, err := s.places.Hold(s.streams, sender)
		if err != nil {
			return err
		}
		defer place.Leave()
		if err := write(place.With(s.streams), patient{out, place}); err != nil {
			return err
		}
		defer place.Pause()()
		return out.Flush()
	}}
}

// patient gives the reader new time before each piece. It must not implement io.StringWriter, because WriteString would
// then bypass Write.
type patient struct {
	out   *stream
	place *fair.Place
}

func (p patient) Write(b []byte) (int, error) {
	if err := cmp.Or(p.out.ctx.Err(), p.out.extend()); err != nil {
		return 0, err
	}
	if len(b) > p.out.Available() {
		defer p.place.Pause()()
	}
	return p.out.Write(b)
}

// extend gives the reader limits.stall from now on to take what is written. A reader that is slower is cut off, because
// the server keeps nothing for later.
func (s *stream) extend() error {
	err := s.conn.SetWriteDeadline(time.Now().Add(s.stall))
	if s.ctx.Err() != nil { // the server is stopping, and the deadline above replaced the one that hurry set
		s.hurry()
	}
	return err
}

// hurry is called when the server stops: it shortens the reader's time, so that the stream ends within limits.drain.
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
	if resp.close == nil {
		resp.close = func() {}
	}
	if x.unread {
		resp.close()
		return refuse(http.StatusBadRequest, "body_unexpected", "this route takes no body")
	}
	open := lease{of: x.s.following, tenant: x.sender()}
	if !open.grow(1) {
		resp.close()
		return busy("too many streams are open")
	}
	r := x.c.Response()
	r.Header.SetContentType(resp.contentType)
	r.Header.Set(fiber.HeaderCacheControl, "no-cache")
	r.Header.Set("X-Accel-Buffering", "no") // asks a proxy to pass each piece on at once
	if resp.begin != nil {
		resp.begin()
	}
	if x.c.Method() == http.MethodHead {
		open.release()
		resp.close()
		return nil
	}
	s, conn := x.s, x.c.Context().Conn()
	id, path := x.id, strings.Clone(x.c.Path())
	s.metrics.streams.Add(1)
	r.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer s.metrics.streams.Add(-1)
		defer open.release()
		defer resp.close()
		out := &stream{w, s.streams, conn, s.limits.stall, s.limits.drain}
		if err := guard(func() error { return resp.run(out) }); err != nil {
			level := slog.LevelError
			// A bufio.Writer keeps the error of its first write that failed.
			if _, lost := w.Write(nil); lost != nil || errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) {
				level = slog.LevelInfo // the reader left or the server is stopping
			}
			s.log.Log(s.base, level, "a stream broke off", "request_id", id, "path", path, "error", err)
			// Nothing else can tell the reader that the response is incomplete.
			_ = conn.Close()
		}
	})
	return nil
}

// guard turns a panic into an error. A stream runs in a goroutine of Fiber's, where a panic would end the program.
func guard(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run()
}

// still reports whether the credential of a stream still has the route's role and its tenant still exists.
func (s *Server) still(cr credential, tenant string, r *route) bool {
	place, err := s.feeds.Hold(s.streams, tenant)
	if err != nil {
		return false
	}
	defer place.Leave()
	ctx, cancel := context.WithTimeout(place.With(s.streams), s.limits.request)
	defer cancel()
	caller, err := s.authenticate(ctx, cr, false)
	if err != nil || caller.Role < r.role {
		return false
	}
	if caller.Role < access.RoleRoot {
		return true
	}
	exists, err := s.engine.Tenants.Exists(ctx, tenant)
	return err == nil && exists
}
