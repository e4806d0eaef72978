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

// refusals are what Anthropic says of thinking, or of a summary of its own, that does not stand where it was made. A
// client that sends its own history again takes such blocks out by itself; of one whose history Mneme keeps, Mneme must.
var refusals = [][]byte{[]byte("bound to a different conversation"), []byte("Invalid `signature`"),
	[]byte("compaction_block_"), []byte("Invalid signature")}

// Again is the call without any thinking, for a provider that has refused it because of some. ok is false where that
// would not help, or was tried.
func (out *Outgoing) Again(status int, answer []byte) (body []byte, ok bool) {
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

// Sent lets go of the body and of what it was made from, once the provider has begun to answer. taken says that nobody
// reads the body any more, so that its memory may serve another call.
func (svc *Service) Sent(out *Outgoing, taken bool) {
	if taken && out.buffer != nil {
		svc.buffers.give(out.buffer)
	}
	out.buffer = nil
	out.Body, out.ask.Pending, out.ask.Body = nil, nil, &wire.Body{Format: out.ask.Body.Format}
}

// End says how a call ended.
type End struct {
	Status int // of the provider's answer; 0: it gave none
	Turn   uint32
	Open   bool   // the turn goes on with the client's next call
	Reason string // why nothing is stored; empty where Turn or Open say that all went well
	Usage  decision.Spent
	Rounds int // answers that Usage is of, where memory tools ran; else 0
}

// Finish notes how a call ended. It may go on behind the call's end, so ctx should not end with it.
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
	if call.Rounds = end.Rounds; call.Usage != nil && end.Rounds < 2 { // Else the usage is not that of one prompt.
		svc.learn(ctx, out, &end.Usage)
	}
	if out.DecisionID == "" {
		return nil
	}
	if svc.Ended != nil {
		svc.Ended(tenant, out.project.Incarnation, end.Usage)
	}
	if out.Windowed {
		return svc.decisions.Finish(ctx, tenant, out.project.Incarnation, out.DecisionID, p)
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
		decision.Seen{Viewer: req.Viewer, Format: req.Format, OfCall: p})
}
