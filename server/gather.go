package server

import (
	"net"
	"net/http"
	"sync"

	"github.com/valyala/fasthttp"
)

// responseBuffer is the size, in bytes, of the buffer in which fasthttp collects a response before it writes.
const responseBuffer = 4 << 10

// beginnings holds buffers for the data that Write holds back.
var beginnings = sync.Pool{New: func() any { return new([responseBuffer]byte) }}

// overflows reports whether the response body is longer than fasthttp's buffer, whatever the length of its headers.
// fasthttp then writes a full buffer first, and the rest of the body after it.
func overflows(ctx *fasthttp.RequestCtx) bool {
	r := &ctx.Response
	bodyless := ctx.IsHead() || r.SkipBody || r.StatusCode() < 200 || r.StatusCode() == http.StatusNoContent ||
		r.StatusCode() == http.StatusNotModified
	return !ctx.Hijacked() && !bodyless && !r.IsBodyStream() && len(r.Body()) >= responseBuffer
}

// Write implements net.Conn. If the response overflows, Write holds back the first full buffer until the next call,
// so that one system call sends both and wakes the client once.
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
