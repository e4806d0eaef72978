package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"

	"github.com/seed-0906e6bc/mneme/engine/gateway/relay"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// Headers that the proxy adds to a response.
const (
	headerRequest = "X-Mneme-Request-Id"
	headerMode    = "X-Mneme-Mode"
)

// statusGone is the status, in the log and the metrics, of a request whose client has gone. Nobody reads the
// response.
const statusGone = 499

// modelCall is a request in the proxy. It outlives the exchange if its response is a stream, so it keeps no
// references to the exchange.
type modelCall struct {
	s        *Server
	id       string
	route    *proxied
	path     string // of the route
	setup    *project.Setup
	upstream *provider.Upstream
	request  relay.Request
	mode     string
	began    time.Time
	turn     turn
	bytes    lease // the prompt's share of the memory budget while it is kept

	// ctx ends when nobody waits for the provider any more: through cancel, or when the server stops waiting for
	// requests.
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// proxy serves the routes of the proxy. It gives up its place while it waits for the provider.
func (s *Server) proxy(ctx context.Context, x *exchange) error {
	call, err := s.newCall(ctx, x)
	if err != nil {
		return err
	}
	call.ctx, call.cancel = context.WithCancelCause(ctx)
	streams := false
	defer func() {
		if !streams {
			call.cancel(nil)
		}
	}()
	stop := watchClient(x.connection().Conn, call.left)
	resume := x.place.Pause()
	defer resume()
	resp, err := call.send()
	if err != nil {
		stop()
		return err
	}
	if call.turn.tools == nil {
		x.bytes.release()
	} else { // The prompt is kept for later rounds.
		call.bytes, x.bytes = x.bytes, lease{of: x.bytes.of}
		defer func() {
			if !streams {
				call.bytes.release()
			}
		}()
	}
	call.sent()
	streams, err = call.answer(x, resp, stop)
	if err != nil {
		reason := problemOf(err).Code
		if refusal, ok := errors.AsType[*relay.Refusal](err); ok {
			reason = refusal.Code
		}
		call.failed(resp.StatusCode, reason, wire.Usage{})
	}
	return err
}

// sent releases the prompt after the provider has received it, because the response may last for minutes.
func (call *modelCall) sent() {
	taken := call.request.Taken()
	if t := call.turn.tools; t != nil {
		t.prompt, taken = call.request.Body, false // Another round starts from it.
	}
	call.request.Body = nil
	if call.turn.out != nil {
		call.s.engine.Outbound.Sent(call.turn.out, taken)
	}
}

// newCall reads a request to the proxy and finds its destination.
func (s *Server) newCall(ctx context.Context, x *exchange) (*modelCall, error) {
	read, cancel := context.WithTimeout(ctx, s.limits.request)
	defer cancel()
	p, err := s.engine.Projects.Find(read, x.caller.Unconfined(), x.proxyProject())
	if err != nil {
		return nil, err
	}
	call := &modelCall{s: s, id: x.id, route: x.route.proxied, path: x.route.path, began: x.start}
	if call.setup, err = s.engine.Projects.SetupOf(p); err != nil {
		return nil, err
	}
	header := x.headers()
	// The call owns the body from here on, because the connection to the provider may read it after the exchange has
	// ended.
	method := x.route.method
	if x.c.Method() == http.MethodHead {
		method = http.MethodHead
	}
	call.request = relay.Request{Tenant: x.caller.Tenant, Method: method, Path: x.proxyPath(),
		Query: string(x.c.Request().URI().QueryString()), Header: header, Body: x.raw}
	x.raw = nil
	model := ""
	var body wire.Object
	if x.route.takesBody && (call.route.turns || len(call.request.Body) > 0) {
		if kind := header.Get("Content-Type"); relay.IsForm(kind) {
			model, err = relay.ModelInForm(kind, call.request.Body)
		} else if body, err = wire.Open(call.request.Body); err == nil {
			model, err = relay.ModelInJSON(body.Text("model"))
		}
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "invalid_json", "%s", err)
		}
	} else if name, ok := strings.CutPrefix(call.request.Path, "/models/"); ok {
		model = name
	}
	if call.upstream = provider.Choose(call.setup.Upstreams(), x.protocol(), model); call.upstream == nil {
		return nil, refuse(http.StatusNotFound, "model_not_found",
			"the project has no upstream for the model %q of this API", model)
	}
	if err := call.chooseMode(); err != nil {
		return nil, err
	}
	if err := call.beginTurn(read, x, body); err != nil {
		return call, err
	}
	return call, call.checkContinued(x, body)
}

// headers returns a copy of the request's headers.
func (x *exchange) headers() http.Header {
	out := http.Header{}
	for name, value := range x.c.Request().Header.All() {
		out.Add(string(name), string(value))
	}
	return out
}

// chooseMode sets the mode of the call: that of X-Mneme-Mode, or else the project's.
func (call *modelCall) chooseMode() error {
	call.mode = cmp.Or(call.request.Header.Get(headerMode), call.setup.Settings.ProxyMode)
	if !slices.Contains(project.Modes, call.mode) {
		return refuse(http.StatusUnprocessableEntity, "invalid_value", "%s must be one of %q", headerMode, project.Modes)
	}
	if !call.guarded() {
		return nil
	}
	switch {
	case !call.route.turns && len(call.request.Body) == 0, call.mode == project.ModeAssemble && call.route.turns:
		return nil
	case call.mode == project.ModeAuto && call.route.turns:
		call.mode = project.ModeAssemble
		return nil
	case !call.route.turns:
		return needsWindow("this route sends the client's own body")
	}
	return needsWindow("mode " + call.mode + " sends the client's own messages")
}

// guarded reports whether the project's pipeline has guards, which must have seen all messages that a provider gets.
func (call *modelCall) guarded() bool { return len(project.Guards(call.setup.Settings.Pipeline)) > 0 }

// needsWindow refuses a call that guards cannot see, for the given reason.
func needsWindow(why string) error {
	return refuse(http.StatusUnprocessableEntity, "guard_needs_window",
		"the project's pipeline has guards, which must see what a provider gets, and %s", why)
}

// send sends the call to its provider and waits for the response headers.
func (call *modelCall) send() (*http.Response, error) {
	began := call.s.now()
	resp, err := call.s.upstreams.Do(call.ctx, call.upstream, &call.request)
	if errors.Is(context.Cause(call.ctx), errGone) {
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, call.gone(0)
	}
	if err == nil {
		resp, err = call.again(resp)
	}
	call.s.metrics.proxy.called(call, resp, call.s.now().Sub(began))
	if err != nil {
		reason := "upstream_unreachable"
		refusal, ok := errors.AsType[*relay.Refusal](err)
		switch {
		case ok && refusal.Code == "busy": // The provider was not called.
			reason = refusal.Code
		case !ok || refusal.Status >= http.StatusInternalServerError:
			call.log(slog.LevelWarn, "a provider did not answer", err)
		}
		call.failed(0, reason, wire.Usage{})
		return nil, err
	}
	return resp, nil
}

// log logs details of a call that its client is not told. It never logs a header, a body or a query.
func (call *modelCall) log(level slog.Level, what string, err error) {
	call.s.log.Log(call.s.base, level, what, "request_id", call.id, "route", call.path,
		"upstream", call.upstream.Name, "error", err)
}

// maxWhole is the maximum size, in bytes, of a response that is passed on in one piece. A model's response is also
// kept to be stored, so its limit is higher.
const (
	maxWhole      = 1 << 20
	maxModelReply = 64 << 20
)

// answer passes on a provider's response. It reports whether the response is a stream, which then ends the call.
func (call *modelCall) answer(x *exchange, resp *http.Response, stop func()) (streams bool, err error) {
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	ok := resp.StatusCode < http.StatusMultipleChoices
	switch {
	case ok && call.route.turns && strings.EqualFold(strings.TrimSpace(media), "text/event-stream"):
		stop()
		return true, call.stream(x, resp, call.relay)
	case call.route.turns || resp.ContentLength >= 0 && resp.ContentLength <= maxWhole:
		defer stop()
		return false, call.whole(x, resp)
	}
	stop()
	return true, call.stream(x, resp, call.copy)
}

// begin writes the status and the headers of a provider's response.
func (call *modelCall) begin(x *exchange, resp *http.Response) {
	r := x.c.Response()
	r.SetStatusCode(resp.StatusCode)
	for name, values := range relay.Returned(resp.Header) {
		r.Header.Del(name)
		for _, value := range values {
			r.Header.Add(name, value)
		}
	}
	r.Header.Set(headerMode, call.mode)
	call.turnHeaders(r.Header.Set)
}

// whole passes on a response that is not a stream.
func (call *modelCall) whole(x *exchange, resp *http.Response) error {
	body, err := call.readWhole(resp)
	if err == nil && call.turn.tools != nil {
		resp, body, err = call.wholeRounds(resp, body)
	}
	if err != nil {
		return err
	}
	if call.turn.exchange != nil && !call.turn.ended.Load() {
		call.wholeEnded(resp.StatusCode, body)
	}
	call.begin(x, resp)
	x.c.Response().SwapBody(body)
	return nil
}

// readWhole reads a response that is not a stream, and records a failure.
func (call *modelCall) readWhole(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(call.timed(resp.Body), maxModelReply+1))
	switch {
	case errors.Is(context.Cause(call.ctx), errGone):
		return nil, call.gone(resp.StatusCode)
	case err != nil || len(body) > maxModelReply:
		call.failed(resp.StatusCode, "upstream_disconnected", wire.Usage{})
	}
	switch {
	case errors.Is(context.Cause(call.ctx), errStalled):
		return nil, relay.Refuse(http.StatusGatewayTimeout, "upstream_timeout",
			"The provider began its response and then sent nothing for too long.").Again()
	case err != nil:
		return nil, relay.Refuse(http.StatusBadGateway, "upstream_disconnected",
			"The connection to the provider broke before its response was complete.").Again()
	case len(body) > maxModelReply:
		return nil, relay.Refuse(http.StatusBadGateway, "upstream_answer_too_large",
			"The provider's response is larger than 64 MiB.")
	}
	return body, nil
}

// errStalled is the cause of the end of a call whose provider stopped sending.
var errStalled = errors.New("the provider sends nothing")

// timed returns a reader that ends the call if r returns nothing for too long.
func (call *modelCall) timed(r io.Reader) io.Reader {
	return &timedReader{r, time.AfterFunc(relay.IdleTime, func() { call.cancel(errStalled) })}
}

type timedReader struct {
	io.Reader
	timer *time.Timer
}

func (r *timedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil {
		r.timer.Stop()
	} else {
		r.timer.Reset(relay.IdleTime)
	}
	return n, err
}

// stream passes on a response as it arrives, with a function that runs until its end.
func (call *modelCall) stream(x *exchange, resp *http.Response, pass func(resp *http.Response, out *stream) error) error {
	conn := x.connection().Conn
	return x.startStream(streamed{contentType: resp.Header.Get("Content-Type"),
		begin: func() { call.begin(x, resp) },
		run: func(out *stream) error {
			defer watchClient(conn, call.left)()
			return pass(resp, out)
		},
		close: func() {
			call.failed(resp.StatusCode, "client_gone", wire.Usage{}) // if the stream never ran
			call.cancel(nil)
			call.bytes.release()
			_ = resp.Body.Close()
		}})
}

// copy passes on bytes as they arrive.
func (call *modelCall) copy(resp *http.Response, out *stream) error {
	from, buffer := call.timed(resp.Body), make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := out.Write(buffer[:n]); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return cmp.Or(context.Cause(call.ctx), err)
		}
	}
}

// relay passes on a model's events.
func (call *modelCall) relay(resp *http.Response, out *stream) error {
	passed := relay.Relay{Format: call.route.format, Stall: relay.IdleTime, Ping: relay.PingTime,
		NeedsDone: call.upstream.Profile.Done == provider.DoneRequired,
		Patience:  call.s.limits.commit, HideUsage: call.turn.out != nil && call.turn.out.HideUsage,
		Commit: func(_ context.Context, r *wire.Reply) { call.committed(resp.StatusCode, r) }}
	if t := call.turn.tools; t != nil {
		weave := wire.NewWeave(t.Rounds)
		weave.HideUsage = passed.HideUsage
		passed.Rounds = &relay.Rounds{Weave: weave, Next: call.follow}
	}
	client := &leaving{out: out, stays: call.outlives()}
	folder, err := passed.Run(call.ctx, resp.Body, client)
	if err == nil && client.gone {
		err = relay.ErrClientGone
	}
	call.s.metrics.proxy.streamed(call, err)
	call.failed(resp.StatusCode, unfinished(folder, err, call.ctx), folder.Usage())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, relay.ErrClientGone) || errors.Is(context.Cause(call.ctx), errGone):
		return context.Canceled // the connection is no longer usable
	case call.ctx.Err() != nil:
		return err
	}
	call.log(slog.LevelWarn, "a provider's response broke off", err)
	return nil // the client was told
}
