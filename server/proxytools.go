package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/gateway"
	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"

	"github.com/seed-0906e6bc/mneme/engine/gateway/relay"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
)

// Bounds of a model call whose model calls memory tools. The last round tells the model to call none.
const (
	maxRounds  = 8
	maxCalls   = 32              // of memory tools in one answer
	roundsTime = 5 * time.Minute // behind it the next round is the last
	mostTools  = 128             // OpenAI takes so many in a request
)

// toolRounds are the rounds of a model call that has memory tools.
type toolRounds struct {
	*wire.Rounds
	count  int    // answers so far
	last   bool   // the newest round was told to call no tools
	prompt []byte // the body of the newest round
}

// withTools gives a call's body with the memory tools that the project asks for. Those whose name a tool of the client's
// has are left out.
func (call *modelCall) withTools(b *wire.Body) (*wire.Body, error) {
	asked := call.setup.Settings.ProxyTools
	if call.mode != gateway.Assemble || len(asked) == 0 || call.turn.unstored != "" || b.Member("functions") != nil {
		return b, nil
	}
	taken := map[string]bool{}
	for _, raw := range b.Tools {
		if !rawjson.IsObject(raw) {
			continue
		}
		o, _, _ := rawjson.ReadObject(raw)
		if f := o.Get("function"); rawjson.IsObject(f) {
			o, _, _ = rawjson.ReadObject(f)
		}
		taken[o.Text("name")] = true
	}
	var names []string
	var edit wire.Edit
	for _, tool := range tools.All() {
		if taken[tool.Name] || !slices.Contains(asked, tool.Name) {
			continue
		}
		raw, err := json.Marshal(tool.For(b.Format))
		if err != nil {
			return nil, err
		}
		names, edit.Tools = append(names, tool.Name), append(edit.Tools, raw)
	}
	if names == nil || b.Format != chat.AnthropicMessages && len(b.Tools)+len(names) > mostTools {
		return b, nil
	}
	rounds := wire.NewRounds(b.Format, names)
	rounds.Choice = b.Member("tool_choice")
	call.turn.tools = &toolRounds{Rounds: rounds}
	return wire.Read(b.Format, b.With(edit))
}

// answered takes the answer of a round and runs the memory tools that it calls. It gives the messages of the next round;
// nil: the answer was the last, or the client has calls to answer first.
func (call *modelCall) answered(r *wire.Reply) ([]json.RawMessage, error) {
	t := call.turn.tools
	t.count++
	held, clients := t.Add(r)
	if len(held) == 0 {
		return nil, nil
	}
	if t.last {
		return nil, relay.Refuse(http.StatusBadGateway, "tool_rounds_exceeded",
			"The model called memory tools in too many rounds, also when it was told to call none.")
	}
	whole := slices.Contains([]string{"", "stop", "tool_calls", "tool_use", "end_turn", "completed"}, r.Stop)
	results := make([]wire.Result, len(held))
	for i, h := range held {
		switch {
		case context.Cause(call.ctx) != nil:
			return nil, context.Cause(call.ctx)
		case !whole:
			results[i] = wire.Result{Held: h, IsError: true, Content: "The answer ended before the call was whole."}
		case i >= maxCalls:
			results[i] = wire.Result{Held: h, IsError: true,
				Content: fmt.Sprintf("One answer may call memory tools %d times. Call this one again.", maxCalls)}
		default:
			results[i] = call.runTool(h)
		}
	}
	next := t.Answer(results)
	if clients || !whole {
		return nil, nil
	}
	return next, nil
}

// runTool carries out a call of a memory tool.
func (call *modelCall) runTool(h wire.Held) wire.Result {
	ctx, leave := call.toFinish()
	defer leave()
	t := &call.turn
	session := t.exchange.Session
	if t.exchange.Fork != "" {
		session = t.exchange.Fork
	}
	out, result := wire.Result{Held: h}, "ok"
	done, err := call.s.engine.Tools.Call(ctx, t.caller, ident.Once{}, t.project,
		tools.Call{Name: h.Name, Arguments: json.RawMessage(h.Arguments), SessionID: session, MemoryNamespace: t.namespace})
	out.Content, out.IsError = done.Content, done.IsError
	switch {
	case err != nil:
		result, out.IsError = "failed", true
		out.Content = h.Name + " failed: the memory cannot be reached now. Go on without it."
		call.log(slog.LevelError, "a memory tool failed in a model call", err)
	case done.IsError:
		result = "refused"
	}
	call.s.metrics.proxy.tools.WithLabelValues(h.Name, result).Inc()
	return out
}

// nextRound asks the provider for the next round.
func (call *modelCall) nextRound(messages []json.RawMessage) (*http.Response, error) {
	t := call.turn.tools
	b, err := wire.Read(call.route.format, t.prompt)
	if err != nil {
		return nil, err
	}
	all := b.All()
	t.last = t.count == maxRounds-1 || call.s.now().Sub(call.began) > roundsTime
	call.request.Body = b.With(wire.Edit{Messages: append(all[:len(all):len(all)], messages...), NoCalls: t.last})
	call.request.Header.Del("Idempotency-Key") // It is that of another request.
	resp, err := call.send()
	if err == nil {
		call.sent()
	}
	return resp, err
}

// follow goes on behind the stream of a round; see relay.Rounds.
func (call *modelCall) follow(_ context.Context, r *wire.Reply) (io.ReadCloser, *wire.Reply, error) {
	messages, err := call.answered(r)
	if err != nil || messages == nil {
		return nil, call.turn.tools.Reply(), err
	}
	resp, err := call.nextRound(messages)
	if err != nil {
		return nil, nil, err
	}
	media := resp.Header.Get("Content-Type")
	if resp.StatusCode < http.StatusMultipleChoices && strings.Contains(media, "text/event-stream") {
		return resp.Body, nil, nil
	}
	body, _ := io.ReadAll(io.LimitReader(call.timed(resp.Body), maxWhole))
	_ = resp.Body.Close()
	call.failed(resp.StatusCode, "upstream_error", wire.Usage{})
	return nil, nil, relay.Said(body)
}

// wholeRounds goes on behind a whole answer, until the last round or one that fails. It gives that round's answer, with
// the body that the client gets.
func (call *modelCall) wholeRounds(resp *http.Response, body []byte) (*http.Response, []byte, error) {
	for resp.StatusCode < http.StatusMultipleChoices {
		r, err := wire.Parse(call.route.format, body)
		if err != nil {
			return resp, call.turn.tools.Unread(body), nil
		}
		messages, err := call.answered(r)
		if errors.Is(err, errGone) {
			return nil, nil, call.gone(resp.StatusCode)
		}
		if err != nil {
			return nil, nil, err
		}
		if messages == nil {
			t := call.turn.tools
			if t.Hidden != nil || call.route.format == chat.OpenAIResponses { // which repeats the tools
				if body, err = t.Body(body); err != nil {
					return nil, nil, err
				}
			}
			call.committed(resp.StatusCode, t.Reply())
			return resp, body, nil
		}
		_ = resp.Body.Close()
		if resp, err = call.nextRound(messages); err != nil {
			return nil, nil, err
		}
		if body, err = call.readWhole(resp); err != nil {
			return nil, nil, err
		}
	}
	return resp, body, nil
}
