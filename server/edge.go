package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/server/strictjson"
)

// A request passes these steps in order. Each step may end it with a problem, and the cheap steps come first.
//
// 1. begin: the request gets an exchange and a request id. 2. authorise (auth.go): the key, its role, the tenant. 3.
// limitRate (ratelimit.go): the tenant's rate limit. 4. checkIDs, checkQuery and readPage (parameters.go): the ids in path and headers, the query's names;
// limit and cursor if the route lists. 5. receive (body.go): the body, bounded, if the route takes one. 6. readOnce
// (parameters.go): the Idempotency-Key if the route stores. 7. enter (admission.go): a place to work in, in the
// tenant's turn. 8. handle: strictjson decodes the body, and the handler calls the engine. 9. respond: the response
// is written, or stream.go starts to write it. 10. end: a problem is rendered (problem.go), and the request is
// counted and logged.

// exchange is the state of one request in the server. Exchanges are reused, so nothing may keep one after its
// request.
type exchange struct {
	s     *Server
	c     *fiber.Ctx
	route *route
	id    string
	start time.Time

	caller ident.Caller
	bears  credential // identifies the caller
	once   ident.Once
	page   records.Page
	raw    []byte // the body as received
	bytes  lease  // the share of the memory budget that the body takes
	place  *admission.Place
	unread bool // part of the body may still be on the connection

	decision string // the id of the decision that the handler made, for the log
	streamed bool   // the stream logs the request when it ends
	err      error
}

// call is a request as a handler gets it: decoded, authorised, within limits.
type call[Req any] struct {
	*exchange
	body Req
}

// buffer returns an empty buffer for the response body. It belongs to Fiber, which reuses it for a later response.
func (x *exchange) buffer() []byte {
	return x.c.Response().SwapBody(nil)[:0]
}

const jsonType = "application/json"

// headerEpoch names the header with the timeline of the shared database. If it differs from an earlier response's,
// the database failed over in between, and without synchronous replication the last acknowledged writes may be lost.
const headerEpoch = "Mneme-Epoch"

// endpoint is a handler without its types, so that the table of routes can hold it.
type endpoint struct {
	takesBody         bool
	request, response reflect.Type
	serve             func(ctx context.Context, x *exchange) error
}

// handle turns a function of decoded values into an endpoint. Every handler is called through it. It fails with
// invalid_json, unknown_field, duplicate_field, wrong_type or invalid_time if the body does not fit Req.
func handle[Req, Resp any](fn func(ctx context.Context, c *call[Req]) (Resp, error)) endpoint {
	decoder := strictjson.For[Req]()
	_, bodyless := any(*new(Req)).(nothing)
	_, raw := any(*new(Req)).(rawBody)
	e := endpoint{takesBody: !bodyless, request: reflect.TypeFor[Req](), response: reflect.TypeFor[Resp]()}
	e.serve = func(ctx context.Context, x *exchange) error {
		c := call[Req]{exchange: x}
		if len(x.raw) > 0 && !raw {
			if !x.route.bodyOptional && string(bytes.TrimSpace(x.raw)) == "null" {
				return refuse(http.StatusUnprocessableEntity, "invalid_body", "the body must be a JSON object, not null")
			}
			if err := decoder.Decode(x.raw, &c.body); err != nil {
				return err
			}
		}
		resp, err := fn(ctx, &c)
		if err != nil {
			return err
		}
		return x.respond(resp)
	}
	return e
}

// respond writes a successful response. A response with a method answer provides its own value and status; status 0
// means the route's.
func (x *exchange) respond(resp any) error {
	r := x.c.Response()
	r.SetStatusCode(x.route.status)
	if a, ok := resp.(interface{ answer() (any, int) }); ok {
		var status int
		if resp, status = a.answer(); status != 0 {
			r.SetStatusCode(status)
		}
	}
	switch resp := resp.(type) {
	case nothing:
		return nil
	case streamed:
		return x.startStream(resp)
	case blob:
		r.Header.SetContentType(resp.contentType)
		r.SwapBody(resp.body)
		return nil
	default:
		r.Header.SetContentType(jsonType)
		enc := json.NewEncoder(r.BodyWriter())
		enc.SetEscapeHTML(false) // return texts as they were sent
		if err := enc.Encode(resp); err != nil {
			return fmt.Errorf("encoding a response: %w", err)
		}
		return nil
	}
}

// serve returns the Fiber handler of a route.
func (s *Server) serve(r *route) fiber.Handler {
	return func(c *fiber.Ctx) error {
		x := s.begin(c, r)
		defer s.end(x)
		x.err = s.dispatch(x)
		return nil
	}
}

// unrouted responds to requests for which Fiber has no route, which may be for the console, and to requests that it
// cannot read.
func (s *Server) unrouted(c *fiber.Ctx, err error) error {
	if s.isConsole(c, err) {
		x := s.begin(c, s.console.route)
		defer s.end(x)
		x.err = x.serveConsole()
		return nil
	}
	x := s.begin(c, s.noRoute)
	defer s.end(x)
	x.err = x.unroutable(err)
	return nil
}

func (s *Server) begin(c *fiber.Ctx, r *route) *exchange {
	s.metrics.inFlight.Add(1)
	x := s.exchanges.Get().(*exchange)
	*x = exchange{s: s, c: c, route: r, start: s.now(), id: s.requestID(c), raw: x.raw[:0],
		bytes: lease{of: s.bytes}}
	x.unread = c.Request().BodyStream() != nil && c.Request().Header.ContentLength() != 0
	return x
}

// requestID returns the client's X-Request-ID if it is short and plain, and so safe to log and echo, or else a new id.
func (s *Server) requestID(c *fiber.Ctx) string {
	id := string(c.Request().Header.Peek(fiber.HeaderXRequestID))
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._:@-", r))
	}
	if id != "" && len(id) <= ident.MaxID && !strings.ContainsFunc(id, odd) {
		return id
	}
	return s.idPrefix + strconv.FormatUint(s.lastID.Add(1), 36)
}

// dispatch takes a request through steps 2 to 9. It never reads the body of a request without a valid key.
func (s *Server) dispatch(x *exchange) error {
	if x.route.console {
		if err := x.fromConsole(); err != nil {
			return err
		}
	}
	if x.route.role != open {
		ctx, cancel := context.WithTimeout(s.base, s.limits.request)
		authorise := x.authorise
		if x.route.proxied != nil {
			authorise = x.authoriseProxy
		}
		err := authorise(ctx)
		cancel()
		if err != nil {
			return s.refused(x, err)
		}
	}
	if err := x.limitRate(); err != nil {
		return err
	}
	if err := x.checkIDs(); err != nil {
		return err
	}
	if x.route.proxied == nil { // the proxy's queries belong to the provider
		if err := x.checkQuery(); err != nil {
			return err
		}
	}
	if x.route.list || x.route.limited {
		if err := x.readPage(); err != nil {
			return err
		}
	}
	if x.route.takesBody {
		if err := x.receive(); err != nil {
			return err
		}
	}
	if x.route.stores {
		if err := x.readOnce(); err != nil {
			return err
		}
	}
	if !x.route.atOnce {
		var err error
		if x.place, err = s.enter(s.base, x.sender()); err != nil {
			return err
		}
	}
	if x.route.streams || x.route.proxied != nil {
		return x.route.serve(x.place.With(s.base), x)
	}
	// The engine's time starts when the body has been read; the server's read timeout limits how long reading may
	// take.
	ctx, cancel := context.WithTimeout(x.place.With(s.base), s.limits.request)
	defer cancel()
	return x.route.serve(ctx, x)
}

// end finishes an exchange, even one that panicked: it renders the problem, counts and logs the request, and keeps
// the buffer.
func (s *Server) end(x *exchange) {
	if p := recover(); p != nil {
		x.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
	x.place.Leave()
	if err := x.holdAnswer(); err != nil {
		x.err = err
	}
	x.bytes.release()
	response := x.c.Response()
	switch {
	case x.route.proxied == nil:
		response.Header.Set(fiber.HeaderXRequestID, x.id)
		if x.err != nil {
			problemOf(x.err).render(x.c, x.id)
		}
	default: // the provider's own id is kept
		response.Header.Set(headerRequest, x.id)
		if x.err != nil {
			x.renderRefusal(x.err)
			response.Header.Set(fiber.HeaderXRequestID, x.id)
		}
	}
	secure(&response.Header)
	if epoch := x.s.engine.Epoch(); epoch != "" {
		response.Header.Set(headerEpoch, epoch)
	}
	status, size := response.StatusCode(), len(response.Body()) // a stream's body is not written yet
	x.settle()

	took := s.now().Sub(x.start)
	x.route.metrics.observe(status, took)
	s.metrics.inFlight.Add(-1)
	if !x.streamed {
		x.log(status, size, took)
	}
	if cap(x.raw) > keptBuffer {
		x.raw = nil
	}
	*x = exchange{raw: x.raw}
	s.exchanges.Put(x)
}

// secure sets headers that tell browsers not to guess the content type, not to cache, and not to show the response in
// a frame.
func secure(h *fasthttp.ResponseHeader) {
	h.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	h.Set(fiber.HeaderXFrameOptions, "DENY")
	if len(h.Peek(fiber.HeaderContentSecurityPolicy)) == 0 { // the console sets its own policy
		h.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'; frame-ancestors 'none'")
	}
	if len(h.Peek(fiber.HeaderCacheControl)) == 0 {
		h.Set(fiber.HeaderCacheControl, "no-store")
	}
}
