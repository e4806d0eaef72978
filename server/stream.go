package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"time"
)

// streamed is a response that is made while it is sent, however long that takes. Its status is out before anything can
// go wrong, so what is written must tell by itself whether it is whole.
type streamed struct {
	contentType string
	// write makes the body; for a HEAD it is not called. ctx ends with the server, or when the client takes nothing for as long as a response may take.
	write func(ctx context.Context, w io.Writer) error
}

// stream answers while write runs, in a goroutine of its own, after the exchange has ended.
func (x *exchange) stream(r streamed) {
	s, fast, id := x.s, x.c.Context(), x.id
	x.c.Response().Header.SetContentType(r.contentType)
	if fast.IsHead() { // fasthttp would end the body that it does not send, in the midst of the connection
		return
	}
	conn := fast.Conn()
	s.metrics.inFlight.Add(1)
	fast.SetBodyStreamWriter(func(buffered *bufio.Writer) {
		defer s.metrics.inFlight.Add(-1)
		out := progress{w: buffered, conn: conn, patience: s.limits.write, ctx: s.streams}
		err := out.run(r.write)
		if err == nil {
			err = buffered.Flush()
		}
		if err != nil {
			out.cut()
			s.log.Error("a streamed response was cut", "request_id", id, "error", err)
		}
	})
}

// progress is a body on its way to a client. Its connection may live as long as the client takes something of it.
type progress struct {
	w        *bufio.Writer
	conn     net.Conn
	patience time.Duration
	ctx      context.Context
}

func (p progress) run(write func(context.Context, io.Writer) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	defer context.AfterFunc(p.ctx, p.cut)() // a client that takes nothing would hold up the server's end
	return write(p.ctx, p)
}

// Write implements io.Writer. What it took went out, all but what is buffered on the way: the time begins anew.
func (p progress) Write(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	if err := p.conn.SetWriteDeadline(time.Now().Add(p.patience)); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// cut ends the connection without the mark that ends a body, so that nobody takes this one for whole.
func (p progress) cut() { _ = p.conn.SetWriteDeadline(time.Unix(1, 0)) }
