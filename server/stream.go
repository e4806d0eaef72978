package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

const ndjsonType = "application/x-ndjson"

// streamed is a response that is written while it is made. begin, which may be nil, sets its status and headers
// before run starts, because run may change what they say. close, which may be nil, frees the response's resources.
// It is called once, even if run is not.
type streamed struct {
	contentType string
	begin       func()
	run         func(out *stream) error
	close       func()
}

// stream is the writer of a streamed response. It outlives its exchange. Data is buffered until Flush, or until a
// piece is full. A stream that waits for data holds no buffer.
type stream struct {
	ctx          context.Context // ends when the server starts to stop
	stall, drain time.Duration
	pieces       *sync.Pool

	conn    *conn
	chunked bool   // the body is chunked, as in HTTP/1.1
	head    []byte // the response headers, until they are written
	piece   *piece // the data to write; nil: none
	lost    error  // the error of the first write that failed: the reader has gone
	sent    int64  // bytes of the body written so far
}

// piece is the buffer for one write, with space for the framing of a chunk.
type piece struct {
	bytes [pieceFront + pieceSize + pieceBack]byte
	used  int
}

const (
	pieceSize  = 8 << 10
	pieceFront = len("2000\r\n") // the length in hexadecimal digits
	pieceBack  = len("\r\n" + lastChunk)
	lastChunk  = "0\r\n\r\n"
)

// Write implements io.Writer.
func (s *stream) Write(b []byte) (n int, err error) {
	for len(b) > 0 && s.lost == nil {
		if s.piece == nil {
			s.piece = s.pieces.Get().(*piece)
			s.piece.used = 0
		}
		copied := copy(s.piece.bytes[pieceFront+s.piece.used:][:s.Available()], b)
		s.piece.used += copied
		n, b = n+copied, b[copied:]
		if s.Available() == 0 {
			if err := s.Flush(); err != nil {
				return n, err
			}
		}
	}
	return n, s.lost
}

// Available returns the number of bytes that can be buffered before they are sent.
func (s *stream) Available() int {
	if s.piece == nil {
		return pieceSize
	}
	return pieceSize - s.piece.used
}

// Flush sends the buffered data to the reader.
func (s *stream) Flush() error { return s.send(false) }

// finish ends a complete response.
func (s *stream) finish() error { return s.send(true) }

// send writes the headers if they are not written yet, then the piece, then the end of the body if end is set.
func (s *stream) send(end bool) error {
	if s.lost != nil {
		return s.lost
	}
	p := s.piece
	if p == nil {
		if s.head == nil && !(end && s.chunked) {
			return nil
		}
		p = s.pieces.Get().(*piece)
		p.used = 0
	}
	defer func() {
		s.piece = nil
		s.pieces.Put(p)
	}()
	out := p.bytes[pieceFront : pieceFront+p.used]
	if s.chunked {
		from := pieceFront
		if p.used > 0 {
			length := strconv.AppendUint(make([]byte, 0, pieceFront), uint64(p.used), 16)
			length = append(length, "\r\n"...)
			from -= len(length)
			copy(p.bytes[from:], length)
			out = append(p.bytes[from:pieceFront+p.used], "\r\n"...)
		}
		if end {
			out = append(out, lastChunk...)
		}
	}
	if s.head != nil {
		out = append(s.head, out...)
		s.head = nil
	}
	if s.lost = s.extend(); s.lost == nil {
		_, s.lost = s.conn.Write(out)
	}
	if s.lost == nil {
		s.sent += int64(p.used)
	}
	return s.lost
}

// written returns a response that write produces piece by piece, for as long as its reader keeps reading. If write
// fails or the server stops, the connection is broken, so that a truncated response never looks complete.
//
// write runs in a place of its sender, like any other request, except while it waits for the reader.
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

// patient extends the reader's deadline before each piece.
type patient struct {
	out   *stream
	place *admission.Place
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

// extend gives the reader limits.stall from now on to read what is written. A slower reader is disconnected, because
// the server does not queue data.
func (s *stream) extend() error {
	err := s.conn.SetWriteDeadline(time.Now().Add(s.stall))
	if s.ctx.Err() != nil { // the server is stopping, and the deadline above replaced the one that hurry set
		s.hurry()
	}
	return err
}

// hurry shortens the reader's deadline when the server stops, so that the stream ends within limits.drain.
func (s *stream) hurry() { _ = s.conn.SetWriteDeadline(time.Now().Add(s.drain / 4)) }

// startStream starts a streamed response. Its writer must not use the exchange, which ends first.
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
	r.Header.Set("X-Accel-Buffering", "no") // tells reverse proxies not to buffer
	if resp.begin != nil {
		resp.begin()
	}
	if x.c.Method() == http.MethodHead {
		open.release()
		resp.close()
		return nil
	}
	s := x.s
	route := x.route
	began := x.start
	line := x.logLine()
	line.status = r.StatusCode()
	x.streamed = true
	out := &stream{ctx: s.streams, stall: s.limits.stall, drain: s.limits.drain, pieces: &s.pieces}
	s.metrics.streams.Add(1)
	end := func(err error) {
		resp.close()
		open.release()
		line.bytes = out.sent
		line.duration = s.now().Sub(began)
		s.access.logStream(route, &line, out.lost != nil, err)
		s.metrics.streams.Add(-1) // A stream counts as open until it has freed its resources.
	}
	x.handOver(out, func() (whole bool) {
		err := guard(func() error { return resp.run(out) })
		if err == nil {
			err = out.finish()
		}
		end(err)
		// Otherwise the connection is closed, which is the only way to tell the reader that the response is
		// incomplete.
		return err == nil
	}, func() { end(net.ErrClosed) })
	return nil
}

// guard turns a panic into an error. A stream runs in a separate goroutine, where a panic would end the program.
func guard(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run()
}

// still reports whether a stream's credential still has the route's role and its tenant still exists.
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
	if caller.Role < ident.RoleRoot {
		return true
	}
	exists, err := s.engine.Tenants.Exists(ctx, tenant)
	return err == nil && exists
}
