package server

import (
	"net"
	"net/http"
	"sync"

	"github.com/valyala/fasthttp"
)

// responseBuffer is how much of a response fasthttp gathers before it writes, in bytes.
const responseBuffer = 4 << 10

// beginnings has buffers for what Write keeps back.
var beginnings = sync.Pool{New: func() any { return new([responseBuffer]byte) }}

// overflows tells whether a response has a body that is longer than fasthttp's buffer, whatever its head is: fasthttp then
// writes a full buffer first, and the rest of the body behind it.
func overflows(ctx *fasthttp.RequestCtx) bool {
	r := &ctx.Response
	bodyless := ctx.IsHead() || r.SkipBody || r.StatusCode() < 200 || r.StatusCode() == http.StatusNoContent ||
		r.StatusCode() == http.StatusNotModified
	return !ctx.Hijacked() && !bodyless && !r.IsBodyStream() && len(r.Body()) >= responseBuffer
}

// Write implements net.Conn. The full buffer that a response begins with where it overflows waits for what follows it,
// so that one system call sends both, and wakes the client once.
func (c *conn) Write(b []byte) (int, error) {
	waits := c.overflows && c.begun == nil && len(b) == responseBuffer
	c.overflows = false
	switch {
	case waits:
		c.begun = beginnings.Get().(*[responseBuffer]byte)
		return copy(c.begun[:], b), nil
	case c.begun == nil:
		return c.Conn.Write(b)
	}
	n, err := (&net.Buffers{c.begun[:], b}).WriteTo(c.Conn)
	beginnings.Put(c.begun)
	c.begun = nil
	return int(max(0, n-responseBuffer)), err
}
