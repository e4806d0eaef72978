package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// refusals are parts of Anthropic's errors about thinking blocks, or summaries of its own, that follow another prompt than
// the one they were made for. Clients that manage their history remove such blocks themselves. In a window, Mneme has to.
var refusals = [][]byte{[]byte("bound to a different conversation"), []byte("Invalid `signature`"),
	[]byte("compaction_block_"), []byte("Invalid signature")}

// Again returns the body of the call without what the provider refused: thinking blocks, or the request for the usage that
// Mneme added. ok is false if that would not help or was tried before.
func (out *Outgoing) Again(status int, answer []byte) (body []byte, ok bool) {
	if out.HideUsage && out.call.Retried == "" && bytes.Contains(answer, []byte("stream_options")) {
		if body, ok = wire.WithoutUsage(out.Body, out.ask.Body.Member("stream_options")); ok {
			out.Body, out.buffer, out.HideUsage, out.call.Retried = body, nil, false, usageRefused
		}
		return body, ok
	}
	if status != http.StatusBadRequest || !out.Windowed || out.ask.Body.Format != chat.AnthropicMessages ||
		out.call.Retried != "" {
		return nil, false
	}
	for _, words := range refusals {
		if bytes.Contains(answer, words) {
			if body, ok = wire.WithoutThinking(out.Body); ok {
				out.Body, out.buffer, out.call.Retried = body, nil, "thinking_refused"
			}
			return body, ok
		}
	}
	return nil, false
}

// Sent releases the body and what it was made from, once the provider has begun to answer. taken reports that nobody reads
// the body any more, so that its memory can be reused.
func (svc *Service) Sent(out *Outgoing, taken bool) {
	if taken && out.buffer != nil {
		svc.buffers.give(out.buffer)
	}
	out.buffer = nil
	out.Body, out.ask.Pending, out.ask.Body = nil, nil, &wire.Body{Format: out.ask.Body.Format}
}

// End says how a call ended.
type End struct {
	Status int // of the provider's answer; 0 if there was none
	Turn   uint32
	Open   bool   // the client's next call continues the turn
	Reason string // why nothing is stored; empty if Turn or Open is set
	Usage  decision.Spent
	Rounds int // how many answers Usage covers, if memory tools ran; else 0
}

// Finish records how a call ended. It may run after the call, so ctx should outlive it.
func (svc *Service) Finish(ctx context.Context, out *Outgoing, end End) error {
	tenant, call := out.ask.Caller.Tenant, out.call
	call.Status, call.Turn, call.Counted = end.Status, end.Turn, out.After
	p := decision.OfCall{Proxied: true, Call: &call}
	switch {
	case end.Turn > 0:
		p.Stored = new(true)
	case end.Open:
		p.Reason = "open: the turn goes on with the client's next call"
	default:
		p.Stored, p.Reason = new(false), end.Reason
	}
	if end.Usage != (decision.Spent{}) {
		call.Usage = &end.Usage
	}
	call.Rounds = end.Rounds
	if call.Usage != nil && end.Rounds < 2 { // Otherwise the usage is not that of one prompt.
		svc.learn(ctx, out, &end.Usage)
	}
	if out.id == (decision.ID{}) {
		return nil
	}
	if svc.Ended != nil {
		svc.Ended(tenant, out.project.Incarnation, end.Usage)
	}
	if out.Windowed {
		return svc.decisions.Finish(ctx, tenant, out.project.Incarnation, out.id, p)
	}
	ask := out.ask
	req := window.Request{SessionID: ask.Session, Format: ask.Body.Format.String()}
	if ask.Agent != "" {
		req.Viewer = ident.Viewer{Agent: ask.Agent, DelegationID: &ask.Agent}
	}
	raw, err := json.Marshal(req)
	if err != nil {
		return err
	}
	r := decision.Record{At: out.at, Session: ask.Session, Extent: decision.Extent(out.head.Extent()),
		Revision: out.head.Revision, Request: raw}
	return svc.decisions.KeepPassed(ctx, tenant, out.project.Incarnation, out.id, r,
		decision.Seen{Viewer: req.Viewer, Format: req.Format, OfCall: p}, out.DecisionID != "")
}
