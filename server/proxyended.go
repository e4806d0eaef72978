package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/gateway"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/gateway/relay"
	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// finishTime is the maximum time for recording the end of a call.
const finishTime = 30 * time.Second

// committed stores a complete response as part of its turn, and records the outcome of the call.
func (call *modelCall) committed(status int, r *wire.Reply) {
	t := &call.turn
	if t.exchange == nil || t.ended.Swap(true) {
		return
	}
	ctx, leave := call.toFinish()
	defer leave()
	end := gateway.End{Status: status, Reason: t.unstored, Usage: decision.Spent(r.Usage)}
	if end.Reason == "" {
		end.Reason = unkept(r)
	}
	if end.Reason == "" {
		reply := history.Reply{Messages: r.Messages, Stop: r.Stop, ResponseID: r.ID, DecisionID: call.windowID()}
		if t.tools != nil {
			reply.Hidden = t.tools.Hidden
		}
		if t.forgotten {
			reply.ResponseID = ""
		}
		stored, err := call.s.engine.Dialogues.Commit(ctx, t.caller, t.project, t.exchange, reply)
		if err != nil {
			call.log(slog.LevelError, "a model's answer could not be stored", err)
			stored.Reason = "internal_error"
			if known, ok := fault.As(err); ok {
				stored.Reason = known.Code
			}
		}
		end.Turn, end.Open, end.Reason = stored.Turn, stored.Open, stored.Reason
	}
	call.endTurn(ctx, end)
}

// windowID returns the id of the decision that the response is based on, or "" if there is no window.
func (call *modelCall) windowID() string {
	if call.turn.out == nil || !call.turn.out.Windowed {
		return ""
	}
	return call.turn.out.DecisionID
}

// unkept returns the reason why a complete response is not part of a turn.
func unkept(r *wire.Reply) string {
	switch {
	case r.Choices > 1:
		return "n"
	case r.Stop == "pause_turn":
		return "pause_turn"
	case r.Stop == "refusal" && silent(r):
		return "refusal"
	case r.Stop == "compaction":
		return "compaction"
	}
	return ""
}

// silent reports whether a response of Anthropic's has no content.
func silent(r *wire.Reply) bool {
	return !slices.ContainsFunc(r.Messages, func(raw json.RawMessage) bool {
		o, _, _ := rawjson.ReadObject(raw)
		content := o.Get("content")
		return len(content) > 0 && string(content) != "[]" && string(content) != `""`
	})
}

// failed records that nothing of a call is stored.
func (call *modelCall) failed(status int, reason string, usage wire.Usage) {
	t := &call.turn
	if t.exchange == nil || t.ended.Swap(true) {
		return
	}
	if t.tools != nil {
		usage = t.tools.Usage().Plus(usage)
	}
	ctx, leave := call.toFinish()
	defer leave()
	call.endTurn(ctx, gateway.End{Status: status, Reason: reason, Usage: decision.Spent(usage)})
}

// toFinish returns a context for recording the end of a call: with a place of its tenant, a time limit, and the
// server waiting for it before it stops. If it gets no place, it continues without one, because nobody could retry.
func (call *modelCall) toFinish() (ctx context.Context, leave func()) {
	call.s.late.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(call.s.base), finishTime)
	place, err := call.s.places.Hold(ctx, call.turn.caller.Tenant)
	if err == nil {
		ctx = place.With(ctx)
	}
	return ctx, func() {
		place.Leave()
		cancel()
		call.s.late.Done()
	}
}

func (call *modelCall) endTurn(ctx context.Context, end gateway.End) {
	t := &call.turn
	if t.tools != nil && t.tools.count > 1 {
		end.Rounds = t.tools.count
	}
	t.mu.Lock()
	t.turn = end.Turn
	switch {
	case end.Turn > 0:
		t.stored = "yes"
	case end.Open:
		t.stored = "pending"
	default:
		t.stored = end.Reason
	}
	call.s.metrics.proxy.stored.WithLabelValues(t.stored).Inc()
	t.mu.Unlock()
	if t.out == nil {
		return
	}
	if err := call.s.engine.Outbound.Finish(ctx, t.out, end); err != nil {
		call.log(slog.LevelError, "the end of a model call could not be recorded", err)
	}
}

// wholeEnded ends the turn of a response that is not a stream.
func (call *modelCall) wholeEnded(status int, body []byte) {
	if status >= http.StatusMultipleChoices {
		call.failed(status, "upstream_error", wire.Usage{})
		return
	}
	r, err := wire.Parse(call.route.format, body)
	if err != nil {
		call.failed(status, "unreadable_reply", wire.Usage{})
		return
	}
	call.committed(status, r)
}

// unfinished returns the reason why a stream's response is not stored.
func unfinished(folder *wire.Folder, err error, ctx context.Context) string {
	switch {
	case errors.Is(err, relay.ErrClientGone) || errors.Is(context.Cause(ctx), errGone):
		return "client_gone"
	case errors.Is(err, wire.ErrTooLarge):
		return "too_large"
	case err != nil:
		if refusal, ok := errors.AsType[*relay.Refusal](err); ok {
			return refusal.Code
		}
		return "upstream_disconnected"
	}
	_, err = folder.Reply()
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return "too_large"
	case folder.State() == wire.Failed:
		return "upstream_error"
	}
	return "unreadable_reply"
}
