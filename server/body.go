package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
)

const (
	// defaultMaxBody bounds a request's body, in bytes.
	defaultMaxBody = 8 << 20
	// importMaxBody is that of imports: a session that was exported can come back.
	importMaxBody = 64 << 20
	// keptBuffer is the largest body buffer that is kept for the next request.
	keptBuffer = 1 << 20
	// drainable is how much of a body that nobody wanted is read to keep its connection.
	drainable = 64 << 10
	// lingerTime is how long a refused upload is read and thrown away after its answer.
	lingerTime = 5 * time.Second
)

// errAwaited is the io error of a body that did not arrive, worded for its sender.
func errAwaited(err error) *problem {
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return refuse(http.StatusRequestTimeout, "request_timeout", "the body did not arrive in time")
	}
	return refuse(http.StatusBadRequest, "incomplete_body", "the body ended early or is not framed as its headers say")
}

// readBody appends the request's body to dst. Memory follows what really arrives, never what the headers promise.
// A chunked body that is cut off between two chunks looks whole here; JSON tells by itself whether it is.
func (x *exchange) readBody(dst []byte, limit int) ([]byte, error) {
	header := &x.c.Request().Header
	stream, length := x.c.Request().BodyStream(), header.ContentLength()
	if stream == nil || length == 0 {
		return dst, nil
	}
	if length > limit {
		return dst, tooLarge(limit)
	}
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, make([]byte, max(4<<10, len(dst)))...)[:len(dst)]
		}
		n, err := stream.Read(dst[len(dst):min(cap(dst), limit+1)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > limit:
			return dst, tooLarge(limit)
		case err == io.EOF && length > 0 && len(dst) < length:
			return dst, errAwaited(io.ErrUnexpectedEOF)
		case err == io.EOF:
			x.unread = false
			return dst, nil
		case err != nil:
			return dst, errAwaited(err)
		}
	}
}

func tooLarge(limit int) *problem {
	return refuse(http.StatusRequestEntityTooLarge, "body_too_large", "the body may have at most %d bytes", limit)
}

// checkContent refuses bodies that are not what the route takes, uncompressed. A missing content type is taken for it.
func (x *exchange) checkContent() error {
	h := &x.c.Request().Header
	if encoding := h.Peek(fiber.HeaderContentEncoding); len(encoding) > 0 && string(encoding) != "identity" {
		return refuse(http.StatusUnsupportedMediaType, "unsupported_encoding",
			"send the body without a content encoding")
	}
	media, _, _ := bytes.Cut(h.ContentType(), []byte{';'})
	media = bytes.TrimSpace(media)
	if len(media) == 0 || strings.EqualFold(string(media), x.route.mediaType()) {
		return nil
	}
	return refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", "send the body as %s", x.route.mediaType())
}

// settle sees to what is left of a body that was refused. The next request on the connection begins behind it, so
// it is read here when it is short; else the connection ends, but politely: closing while the client still sends
// would reset the connection, and the client would never see the answer.
func (x *exchange) settle() {
	if !x.unread {
		return
	}
	length := x.c.Request().Header.ContentLength()
	if 0 <= length && length <= drainable {
		if _, err := io.Copy(io.Discard, x.c.Request().BodyStream()); err == nil {
			return
		}
	}
	fast := x.c.Context()
	fast.Response.SetConnectionClose()
	var answer bytes.Buffer
	if _, err := fast.Response.WriteTo(&answer); err != nil {
		return
	}
	conn := fast.Conn()
	fast.HijackSetNoResponse(true)
	fast.Hijack(func(rest net.Conn) { linger(conn, rest, answer.Bytes()) })
}

// linger answers, ends our side of the connection, and reads on for a while. rest reads what was buffered already, too.
func linger(conn, rest net.Conn, answer []byte) {
	if err := conn.SetDeadline(time.Now().Add(lingerTime)); err != nil {
		return
	}
	if _, err := conn.Write(answer); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		if err := half.CloseWrite(); err != nil {
			return
		}
	}
	// However it ends, by the client, an error or the deadline, the connection is closed next.
	_, _ = io.Copy(io.Discard, rest)
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
