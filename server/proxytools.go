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

// Limits of a model call with memory tools. The last round tells the model not to call tools.
const (
	maxRounds  = 8
	maxCalls   = 32              // memory tool calls in one response
	roundsTime = 5 * time.Minute // after that time, the next round is the last
	mostTools  = 128             // OpenAI's limit per request
)

// toolRounds holds the rounds of a model call with memory tools.
type toolRounds struct {
	*wire.Rounds
	count  int    // responses so far
	last   bool   // the newest round tells the model not to call tools
	prompt []byte // the body of the newest round
}

// withTools returns a call's body with the memory tools that the project enables. It omits those whose name is that
// of a tool of the client.
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

// answered takes the response of a round and runs the memory tools that it calls. It returns the messages of the next
// round, or nil if the response was the last, or if the client must answer its own tool calls first.
func (call *modelCall) answered(r *wire.Reply) ([]json.RawMessage, error) {
	t := call.turn.tools
	t.count++
	held, clients := t.Add(r)
	if len(held) == 0 {
		return nil, nil
	}
	if t.last {
		return nil, relay.Refuse(http.StatusBadGateway, "tool_rounds_exceeded",
			"The model called memory tools in too many rounds, and went on when told to call none.")
	}
	whole := slices.Contains([]string{"", "stop", "tool_calls", "tool_use", "end_turn", "completed"}, r.Stop)
	results := make([]wire.Result, len(held))
	for i, h := range held {
		switch {
		case context.Cause(call.ctx) != nil:
			return nil, context.Cause(call.ctx)
		case !whole:
			results[i] = wire.Result{Held: h, IsError: true, Content: "The response ended before the call was complete."}
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

// runTool runs a call of a memory tool.
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
	call.request.Header.Del("Idempotency-Key") // The key belongs to another request.
	resp, err := call.send()
	if err == nil {
		call.sent()
	}
	return resp, err
}

// follow continues after the stream of a round; see relay.Rounds.
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

// wholeRounds continues after a response that is not a stream, until the last round or until one fails. It returns
// that round's response with the body for the client.
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
			if t.Hidden != nil || call.route.format == chat.OpenAIResponses { // this format repeats the tools in its responses
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
