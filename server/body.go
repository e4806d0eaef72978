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

	"github.com/seed-0906e6bc/mneme/engine/gateway/relay"
)

const (
	// defaultMaxBody is the maximum size of a request body, in bytes.
	defaultMaxBody = 8 << 20
	// importMaxBody is the maximum for an imported session. It is large enough to import any exported session.
	importMaxBody = 64 << 20
	// keptBuffer is the size, in bytes, of the largest buffer that is kept for the body of a later request.
	keptBuffer = 1 << 20
	// trusted is the largest buffer, in bytes, that is allocated for a model call because of its Content-Length. The
	// memory budget counts the full length from the start.
	trusted = 256 << 10
	// drainable is the maximum number of unread bytes of a refused body that are read so that the connection can be
	// reused.
	drainable = 64 << 10
)

// receive checks the body's type and reads the whole body into raw if the route takes a body. Routes that stream read
// the body themselves. It fails with body_missing, unsupported_encoding, unsupported_media_type, body_too_large,
// busy, incomplete_body or request_timeout.
func (x *exchange) receive() (err error) {
	if !x.unread {
		if x.route.bodyOptional {
			return nil
		}
		return x.bodyMissing()
	}
	if err := x.checkContent(); err != nil {
		return err
	}
	if x.route.streams {
		return nil
	}
	limit := x.s.limits.body
	if x.route.maxBody > 0 {
		limit = x.route.maxBody
	}
	x.bytes.tenant = x.sender()
	x.connection().is(receiving)
	x.raw, err = x.readBody(x.raw, limit)
	if err == nil && x.route.proxied != nil {
		x.raw, err = x.uncompressed(x.raw, limit)
	}
	x.connection().is(working)
	if err == nil && len(x.raw) == 0 && !x.route.bodyOptional { // a chunked body without chunks
		return x.bodyMissing()
	}
	return err
}

func (x *exchange) bodyMissing() *problem {
	what := "a JSON body"
	if x.route.media != "" && x.route.proxied == nil {
		what = "a body of type " + x.route.media
	}
	return refuse(http.StatusBadRequest, "body_missing", "this route needs %s", what)
}

// errAwaited returns the problem for a body that did not arrive: request_timeout or incomplete_body.
func errAwaited(err error) *problem {
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return refuse(http.StatusRequestTimeout, "request_timeout", "the body did not arrive in time")
	}
	return refuse(http.StatusBadRequest, "incomplete_body", "the body ended early or does not match its headers")
}

// readBody appends the request body to dst. The buffer grows with the bytes that arrive; for a model call, at most
// trusted bytes are allocated in advance. A chunked body that is cut off between two chunks looks complete here;
// decoding its JSON detects that.
func (x *exchange) readBody(dst []byte, limit int) ([]byte, error) {
	header := &x.c.Request().Header
	stream, length := x.c.Request().BodyStream(), header.ContentLength()
	if stream == nil || length == 0 {
		return dst, nil
	}
	if length > limit {
		return dst, tooLarge(limit)
	}
	if !x.bytes.grow(bodyCost * int64(length)) { // nothing yet for a chunked body
		return dst, tooMany()
	}
	for {
		if len(dst) == cap(dst) {
			more := max(4<<10, len(dst))
			if x.route.proxied != nil && length > 0 { // it may be kept until the response ends
				more = min(max(trusted, more), length+1-len(dst))
			}
			dst = append(make([]byte, 0, len(dst)+more), dst...)
		}
		n, err := stream.Read(dst[len(dst):min(cap(dst), limit+1)])
		dst = dst[:len(dst)+n]
		switch {
		case length < 0 && !x.bytes.grow(bodyCost*int64(n)):
			return dst, tooMany()
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

// uncompressed returns a body without its content encoding, with at most limit bytes. It fails with body_too_large, busy or
// incomplete_body. However much a small body expands to, it takes no more memory than a large one.
func (x *exchange) uncompressed(raw []byte, limit int) ([]byte, error) {
	encoding := string(x.c.Request().Header.ContentEncoding())
	if encoding == "" || strings.EqualFold(encoding, "identity") {
		return raw, nil
	}
	from, err := relay.Decode(encoding, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, min(limit+1, max(4<<10, 4*len(raw))))
	for {
		if len(out) == cap(out) {
			out = append(make([]byte, 0, min(limit+1, 2*cap(out))), out...)
		}
		n, err := from.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case len(out) > limit:
			return nil, refuse(http.StatusRequestEntityTooLarge, "body_too_large",
				"the body may have at most %d bytes once it is decoded", limit)
		case !x.bytes.grow(bodyCost * int64(n)):
			return nil, tooMany()
		case err == io.EOF:
			return out, nil
		case err != nil:
			return nil, refuse(http.StatusBadRequest, "incomplete_body", "the body is not valid %s", encoding)
		}
	}
}

func tooMany() *problem { return busy("request bodies take too much memory") }

func tooLarge(limit int) *problem {
	return refuse(http.StatusRequestEntityTooLarge, "body_too_large", "the body may have at most %d bytes", limit)
}

// checkContent refuses compressed bodies and bodies of another type than the route takes. A body without a content
// type is assumed to have the route's type.
func (x *exchange) checkContent() error {
	h := &x.c.Request().Header
	encoding := string(h.Peek(fiber.HeaderContentEncoding))
	if x.route.proxied != nil { // the provider decides what else it accepts
		if !relay.Decodes(encoding) {
			return refuse(http.StatusUnsupportedMediaType, "unsupported_encoding", "%s", relay.ErrEncoding)
		}
		return nil
	}
	if encoding != "" && encoding != "identity" {
		return refuse(http.StatusUnsupportedMediaType, "unsupported_encoding",
			"send the body without a content encoding")
	}
	media, _, _ := bytes.Cut(h.ContentType(), []byte{';'})
	media = bytes.TrimSpace(media)
	patch := x.route.method == http.MethodPatch && strings.EqualFold(string(media), "application/merge-patch+json")
	if len(media) == 0 || patch || strings.EqualFold(string(media), x.route.mediaType()) {
		return nil
	}
	return refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", "send the body as %s", x.route.mediaType())
}

// settle handles the unread rest of a refused body. The next request on the connection starts after that rest. settle
// reads a short rest. If the rest is long, it closes the connection, but not at once: closing while the client still
// sends would reset the connection, and the client would never see the response.
func (x *exchange) settle() {
	if !x.unread {
		return
	}
	length := x.c.Request().Header.ContentLength()
	if 0 <= length && length <= drainable {
		x.connection().is(receiving)
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
	conn, within := x.connection(), x.s.limits.linger
	fast.HijackSetNoResponse(true)
	fast.Hijack(func(rest net.Conn) {
		conn.is(idle)
		linger(conn, rest, answer.Bytes(), within)
		_ = conn.Close()
	})
}

// linger sends the answer, closes the server's side of the connection, and keeps reading for a while. rest reads the
// bytes that are already buffered, then the connection.
func linger(conn *conn, rest net.Conn, answer []byte, within time.Duration) {
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return
	}
	if _, err := conn.Write(answer); err != nil {
		return
	}
	if err := conn.CloseWrite(); err != nil {
		return
	}
	// The error does not matter, because the connection is closed next in any case.
	_, _ = io.Copy(io.Discard, rest)
}

// bodyStream returns a reader of the body, for a route that streams. Each read may take as long as reading a whole
// body may on other routes.
func (x *exchange) bodyStream() io.Reader {
	return &bodyReader{x: x, left: x.c.Request().Header.ContentLength()}
}

type bodyReader struct {
	x    *exchange
	left int // bytes still to come; negative if the length is unknown
}

func (r *bodyReader) Read(b []byte) (int, error) {
	if err := r.x.c.Context().Conn().SetReadDeadline(time.Now().Add(r.x.s.limits.read)); err != nil {
		return 0, errAwaited(err)
	}
	r.x.connection().is(receiving)
	resume := r.x.place.Pause()
	n, err := r.x.c.Request().BodyStream().Read(b)
	resume()
	r.x.connection().is(working)
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
