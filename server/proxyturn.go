package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/gateway"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/gateway/relay"
	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Headers that say what Mneme did with a model call.
const (
	headerSession  = "X-Mneme-Session"
	headerAgent    = "X-Mneme-Agent"
	headerTurn     = "X-Mneme-Turn"
	headerDecision = "X-Mneme-Decision"
	headerMatched  = "X-Mneme-Matched"
	headerWindow   = "X-Mneme-Window"
	headerTokens   = "X-Mneme-Tokens"
	headerStored   = "X-Mneme-Stored"
	headerHistory  = "X-Mneme-History"
)

// turn is a model call as part of a session. The zero value is a call that stores nothing.
type turn struct {
	caller   ident.Caller
	project  string
	exchange *history.Exchange // nil: the call has no session, or its messages cannot be read
	out      *gateway.Outgoing
	unstored string // why nothing will be stored, whatever the response is
	// forgotten says that the provider must not keep the response, so nobody continues from its id.
	forgotten bool
	tools     *toolRounds // nil: the call has no memory tools
	ended     atomic.Bool // the outcome of the call is recorded, or about to be

	mu        sync.Mutex // guards what the end of a stream sets while its headers are written
	namespace []string   // limits the call's memories; nil: no limit
	stored    string     // the value of X-Mneme-Stored
	turn      uint32
}

// noSession is the reason of calls that name no session.
const noSession = "no_session"

// unknownResponse is the error code of calls that continue from an unknown response.
const unknownResponse = "previous_response_not_found"

// beginTurn finds the session of a model call and makes the request for the provider. If that differs from the
// client's own request, beginTurn replaces the call's body and headers.
func (call *modelCall) beginTurn(ctx context.Context, x *exchange, body wire.Object) error {
	if !call.route.turns || call.mode == project.ModeOff {
		call.mode = project.ModeOff
		return nil
	}
	t := &call.turn
	t.caller, t.project = x.caller, x.proxyProject()
	namespace, err := ident.ReadNamespace(headerNamespace, call.request.Header.Get(headerNamespace))
	if err != nil {
		return err
	}
	if len(namespace) > 0 || len(call.setup.Settings.MemoryNamespace) == 0 { // else the session or the setting names it
		if _, t.namespace, err = x.caller.In(namespace); err != nil {
			return err
		}
	}
	b, err := body.Read(call.route.format)
	if err != nil {
		return refuse(http.StatusBadRequest, "invalid_json", "%s", err)
	}
	t.forgotten = string(b.Member("store")) == "false"
	path := ""
	if x.route.proxied.depth > 2 {
		path = x.path("session")
	}
	asked := align.Request{Path: path, Header: call.request.Header.Get, Body: b.Member,
		Fields: call.setup.Settings.ProxySessionFields}
	id := align.Identify(asked)
	if id.Session == "" && id.Previous == "" {
		if call.setup.Settings.ProxyRequireSession {
			return refuse(http.StatusBadRequest, "session_required",
				"the project stores all model calls, and this one names no session: send %s", headerSession)
		}
		if call.guarded() {
			return needsWindow("this call names no session: send " + headerSession)
		}
		t.stored, call.mode = noSession, project.ModeOff
		return nil
	}
	compacts := managesItself(call.request.Header)
	if call.mode == project.ModeAuto {
		call.mode = project.ModeAssemble
		if compacts {
			call.mode = project.ModeObserve
		}
	}
	if b.Conversation != "" {
		if call.guarded() {
			return needsWindow("the provider itself has this conversation's history")
		}
		call.mode = project.ModeObserve // the provider has the history, and would get it twice
	}
	if t.unstored = align.Passing(asked); t.unstored != "" && t.unstored != "n" {
		if call.guarded() {
			return needsWindow("this call's session cannot be told (" + t.unstored + ")")
		}
		t.stored, call.mode = t.unstored, project.ModeOff
		return nil
	}
	sends := cmp.Or(strings.ToLower(call.request.Header.Get(headerHistory)), call.setup.Settings.ProxyHistory)
	if !slices.Contains(project.Histories, sends) {
		return refuse(http.StatusUnprocessableEntity, "invalid_value", "%s must be one of %q", headerHistory, project.Histories)
	}
	raw := call.request.Body
	retries, _ := strconv.Atoi(call.request.Header.Get("X-Stainless-Retry-Count"))
	t.exchange, err = call.s.engine.Dialogues.Begin(ctx, t.caller, t.project, history.Ask{Session: id.Session, Namespace: namespace,
		Agent: id.Agent, Format: call.route.format, Kind: b.Kind(), Tools: len(b.Tools) > 0, Messages: b.All(), Previous: id.Previous, Weak: id.Weak, Retries: retries,
		Compacts: compacts, Compacted: id.Compacted, Windowed: call.mode == project.ModeAssemble,
		// The provider has the history of a conversation.
		Delta: b.Conversation != "" || sends == project.HistoryDelta, Resend: sends == project.HistoryResend, Holds: len(call.setup.Settings.ProxyTools) > 0,
		Body: sync.OnceValue(func() [32]byte { return sha256.Sum256(raw) })})
	if known, ok := fault.As(err); ok && known.Code == unknownResponse && call.mode == project.ModeAssemble {
		return refuse(http.StatusBadRequest, known.Code, "%s", known)
	}
	if err != nil {
		return call.bypass(err)
	}
	e := t.exchange
	if e.Session == "" { // the response that it continues belongs to no session
		if call.guarded() {
			return needsWindow("the response that this call continues belongs to no session")
		}
		t.exchange, t.stored, call.mode = nil, noSession, project.ModeOff
		return nil
	}
	if err := e.Head.CheckNamespace(e.Session, namespace); err != nil {
		return err
	}
	if len(namespace) == 0 {
		if _, t.namespace, err = x.caller.In(e.Namespace); err != nil {
			return err
		}
	}
	if e.Unstored != "" { // its history is unknown
		if call.guarded() {
			return needsWindow("this call's history is unknown (" + e.Unstored + ")")
		}
		call.mode = project.ModeObserve
		if t.unstored == "" {
			t.unstored = e.Unstored
		}
	}
	if e.Match.Case == align.SideCall && call.mode != project.ModeOff && !call.guarded() { // It concerns no history.
		call.mode = project.ModeObserve
	}
	if b, err = call.withTools(b); err != nil {
		return err
	}
	if call.mode == project.ModeAssemble && call.setup.Settings.Decisions == project.DecisionsNone &&
		b.Format == chat.AnthropicMessages && b.Thinking == "adaptive" {
		return relay.Refuse(http.StatusUnprocessableEntity, "decisions_needed", "The project keeps no decisions, and without "+
			"them Mneme cannot tell which thinking the provider still accepts. Set decisions to all or errors, or proxy_mode "+
			"to observe or recall.")
	}
	u := call.upstream
	t.out, err = call.s.engine.Outbound.Prepare(ctx, &gateway.Ask{Caller: t.caller, Project: e.Project, Head: e.Head, Mode: call.mode,
		Body: b, Upstream: u.Name, Profile: u.Profile, ContextTokens: u.ContextTokens, OutputTokens: u.OutputTokens,
		Namespace: t.namespace, Closed: call.closed(), Session: e.Session, Agent: e.Delegation,
		Matched: string(e.Match.Case), Front: e.Match.Front, Differs: e.Differs(), AsOf: e.AsOf, Pending: e.Pending(),
		Resolved: e.Match.Case == align.Delta && id.Previous != "", References: e.References})
	if long, ok := errors.AsType[*gateway.TooLong](err); ok {
		return tooLong(call.route.format, long)
	}
	if err != nil {
		t.exchange, t.tools = nil, nil
		return call.bypass(err)
	}
	e.Release()
	if t.tools != nil && t.out.Mode != gateway.Assemble { // The client's own bytes go on.
		t.tools, t.out.Body = nil, call.request.Body
	}
	call.goesOn(t.out)
	return nil
}

// goesOn sets the request for the provider.
func (call *modelCall) goesOn(out *gateway.Outgoing) {
	call.mode, call.request.Body = out.Mode, out.Body
	for _, beta := range out.Betas {
		// A client may send several lines.
		if was := strings.Join(call.request.Header.Values("Anthropic-Beta"), ","); was == "" {
			call.request.Header.Set("Anthropic-Beta", beta)
		} else if !strings.Contains(was, beta) {
			call.request.Header.Set("Anthropic-Beta", was+","+beta)
		}
	}
}

// managesItself reports whether a client compacts its own history, so that its prompts should not be changed.
func managesItself(h http.Header) bool {
	for _, name := range []string{"X-Claude-Code-Session-Id", "Thread-Id", "Thread_id", "X-Codex-Window-Id"} {
		if h.Get(name) != "" {
			return true
		}
	}
	return false
}

// closed reports whether calls without a window are refused.
func (call *modelCall) closed() bool {
	return call.guarded() || call.setup.Settings.ProxyOnError == "closed"
}

// bypass lets a call continue without Mneme after an internal error, unless the project wants it refused.
func (call *modelCall) bypass(err error) error {
	known, isFault := fault.As(err)
	if isFault && known.Kind == fault.NotFound || call.closed() {
		if isFault && known.Kind < fault.Unavailable && known.Kind != fault.Internal {
			return err
		}
		call.log(slog.LevelError, "a model call could not be prepared", err)
		return relay.Refuse(http.StatusServiceUnavailable, "window_failed",
			"Mneme could not make the window of this call, and the project does not forward calls without one.").Again()
	}
	reason := "internal_error"
	if isFault {
		reason = known.Code
	} else {
		call.log(slog.LevelError, "a model call is forwarded without a window", err)
	}
	call.turn.stored, call.mode = reason, gateway.Bypass
	call.s.metrics.proxy.stored.WithLabelValues(reason).Inc()
	return nil
}

// tooLong returns the error for a prompt that does not fit into the model's window, in the provider's words, so that
// clients compact.
func tooLong(f chat.Format, long *gateway.TooLong) *relay.Refusal {
	words := long.Error()
	switch f {
	case chat.OpenAIResponses:
		words = "Your input exceeds the context window of this model. Please adjust your input and try again."
	case chat.OpenAIChat:
		words = fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d "+
			"tokens. Please reduce the length of the messages.", long.Maximum, long.Tokens)
	}
	return relay.Refuse(http.StatusBadRequest, "context_length_exceeded", words)
}

// again sends the request once more if the provider refused its thinking blocks, or the request for a stream's usage that
// Mneme added. It returns the response that counts; a refusal is read completely.
func (call *modelCall) again(resp *http.Response) (*http.Response, error) {
	if call.turn.out == nil || resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusUnprocessableEntity {
		return resp, nil
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxWhole))
	rest := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(string(answer)), resp.Body), resp.Body}
	resp.Body = rest
	if err != nil {
		return resp, nil
	}
	body, ok := call.turn.out.Again(resp.StatusCode, answer)
	if !ok {
		return resp, nil
	}
	_ = resp.Body.Close()
	call.request.Body = body
	resp, err = call.s.upstreams.Do(call.ctx, call.upstream, &call.request)
	if err == nil && resp.StatusCode < http.StatusMultipleChoices {
		call.s.engine.Outbound.Accepted(call.turn.out)
	}
	return resp, err
}

// turnHeaders sets the headers that say what was done with a call. A stream's headers are written before its end is
// known.
func (call *modelCall) turnHeaders(set func(name, value string)) {
	t := &call.turn
	if t.exchange != nil {
		set(headerSession, url.PathEscape(t.exchange.Session))
		if t.exchange.Delegation != "" {
			set(headerAgent, url.PathEscape(t.exchange.Delegation))
		}
		set(headerMatched, string(t.exchange.Match.Case))
	}
	if out := t.out; out != nil {
		if out.DecisionID != "" {
			set(headerDecision, out.DecisionID)
		}
		if out.Windowed {
			window := "append"
			if out.Cut {
				window = "cut"
			}
			set(headerWindow, window)
			set(headerTokens, fmt.Sprintf("%d/%d", out.Before, out.After))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn > 0 {
		set(headerTurn, strconv.Itoa(int(t.turn)))
	}
	switch t.stored {
	case "":
		if t.exchange != nil {
			set(headerStored, "pending")
		}
	case "yes", "pending":
		set(headerStored, t.stored)
	default:
		set(headerStored, "no; "+t.stored)
	}
}
