package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/gateway"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// agent is a client of a provider's API behind a proxy. It knows nothing about Mneme, keeps its whole history and sends
// it with each call.
type agent struct {
	*enginetest.Kit
	provider       *providers.Server
	format         chat.Format
	model, mode    string
	session, name  string
	context, most  int // what is known about the model
	system         string
	extra          map[string]any
	history        []json.RawMessage
	sent           [][]byte // bodies that were sent to the provider
	out            *gateway.Outgoing
	exchange       *history.Exchange
	calls, retried int
}

var paths = map[chat.Format]string{chat.OpenAIChat: "/v1/chat/completions", chat.OpenAIResponses: "/v1/responses",
	chat.AnthropicMessages: "/v1/messages"}

func newAgent(t testing.TB, f chat.Format, model, mode string, opts ...providers.Option) *agent {
	return &agent{Kit: enginetest.New(t), provider: providers.Start(t, opts...), format: f, model: model, mode: mode,
		session: "s", system: "You help."}
}

// body returns the agent's request as it writes it.
func (a *agent) body() []byte {
	a.Helper()
	body := map[string]any{"model": a.model, "user": "somebody"}
	schema := map[string]any{"type": "object", "properties": map[string]any{"order": map[string]any{"type": "integer"}}}
	switch a.format {
	case chat.OpenAIResponses:
		body["input"], body["instructions"], body["store"] = a.history, a.system, false
		body["tools"] = []any{map[string]any{"type": "function", "name": "lookup", "parameters": schema}}
		delete(body, "user")
	case chat.AnthropicMessages:
		body["messages"], body["system"], body["max_tokens"] = a.history, a.system, 500
		body["tools"] = []any{map[string]any{"name": "lookup", "input_schema": schema}}
		body["thinking"] = map[string]any{"type": "adaptive"}
		delete(body, "user")
	default:
		head := encode(a, map[string]any{"role": "system", "content": a.system})
		body["messages"] = append([]json.RawMessage{head}, a.history...)
		body["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{"name": "lookup",
			"parameters": schema}}}
	}
	for name, value := range a.extra {
		body[name] = value
	}
	return encode(a, body)
}

func encode(t testing.TB, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// call sends the history through Mneme to the provider, adds the reply to it, and returns the reply with how it was
// stored.
func (a *agent) call(says providers.Reply) (*wire.Reply, history.Stored) {
	a.Helper()
	a.provider.Script(says)
	raw := a.body()
	b, err := wire.Read(a.format, raw)
	if err != nil {
		a.Fatal(err)
	}
	ctx := a.Context()
	if a.out, err = a.Outbound.Prepare(ctx, a.asking(b)); err != nil {
		a.Fatal(err)
	}
	status, answer := a.post(a.out.Body)
	if again, ok := a.out.Again(status, answer); ok {
		a.retried++
		a.provider.Script(says)
		status, answer = a.post(again)
	}
	a.calls++
	if status != 200 {
		a.Fatalf("call %d: %d %s\n%s", a.calls, status, answer, a.out.Body)
	}
	reply, err := wire.Parse(a.format, answer)
	if err != nil {
		a.Fatal(err)
	}
	stored, err := a.Dialogues.Commit(ctx, a.Admin, "default", a.exchange, history.Reply{Messages: reply.Messages, Stop: reply.Stop,
		ResponseID: reply.ID, DecisionID: a.out.DecisionID})
	if err != nil {
		a.Fatal(err)
	}
	if err := a.Outbound.Finish(ctx, a.out, gateway.End{Status: status, Turn: stored.Turn, Open: stored.Open,
		Reason: stored.Reason, Usage: decision.Spent(reply.Usage)}); err != nil {
		a.Fatal(err)
	}
	a.history = append(a.history, reply.Messages...)
	return reply, stored
}

// asking begins an exchange, and returns what Mneme is asked to do with it.
func (a *agent) asking(b *wire.Body) *gateway.Ask {
	a.Helper()
	x, err := a.Dialogues.Begin(a.Context(), a.Admin, "default", history.Ask{Session: a.session, Agent: a.name,
		Format: a.format, Messages: append(b.Head[:len(b.Head):len(b.Head)], b.Messages...)})
	if err != nil {
		a.Fatal(err)
	}
	a.exchange = x
	a.Advance(time.Second)
	return &gateway.Ask{Caller: a.Admin, Project: x.Project, Head: x.Head, Mode: a.mode, Body: b, Upstream: "local",
		ContextTokens: a.context, OutputTokens: a.most, Session: x.Session, Agent: x.Delegation,
		Matched: string(x.Match.Case), Front: x.Match.Front, AsOf: x.AsOf, Pending: x.Pending()}
}

func (a *agent) post(body []byte) (int, []byte) {
	a.Helper()
	r, err := http.NewRequest("POST", a.provider.URL+paths[a.format], bytes.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer k")
	r.Header.Set("anthropic-version", "2023-06-01")
	for _, beta := range a.out.Betas {
		r.Header.Add("anthropic-beta", beta)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		a.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		a.Fatal(err)
	}
	a.sent = append(a.sent, body)
	return res.StatusCode, out
}

// ask adds a user's message.
func (a *agent) ask(text string) {
	a.history = append(a.history, encode(a, map[string]any{"role": "user", "content": text}))
}

// answer adds the results of a reply's calls.
func (a *agent) answer(text string) {
	a.Helper()
	parsed, _, bad := chat.Parse(a.format, a.history)
	if len(bad) > 0 {
		a.Fatal(bad)
	}
	last := parsed[len(parsed)-1]
	for _, call := range last.Calls {
		var result any
		switch a.format {
		case chat.OpenAIResponses:
			result = map[string]any{"type": "function_call_output", "call_id": call.ID, "output": text}
		case chat.AnthropicMessages:
			result = map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result",
				"tool_use_id": call.ID, "content": text}}}
		default:
			result = map[string]any{"role": "tool", "tool_call_id": call.ID, "content": text}
		}
		a.history = append(a.history, encode(a, result))
	}
}

// turn runs a question, some tool calls and an answer, each preceded by thinking if the model thinks.
func (a *agent) turn(n, calls int, thinks bool) history.Stored {
	a.Helper()
	a.ask(fmt.Sprintf("question %d: what about order %[1]d?", n))
	think := func(r providers.Reply) providers.Reply {
		if thinks {
			return providers.Think(fmt.Sprintf("order %d must be looked at with care", n), r)
		}
		return r
	}
	for i := range calls {
		if _, stored := a.call(think(providers.Use("lookup", fmt.Sprintf(`{"order":%d}`, n*10+i)))); !stored.Open {
			a.Fatalf("the turn does not go on: %+v", stored)
		}
		a.answer(strings.Repeat("shipped ", 20))
	}
	_, stored := a.call(think(providers.Say(fmt.Sprintf("Order %d was shipped.", n))))
	if stored.Turn == 0 {
		a.Fatalf("turn %d is not stored: %+v", n, stored)
	}
	return stored
}

// pinc returns the incarnation of the default project.
func pinc(a *agent) ident.Incarnation {
	a.Helper()
	p, err := a.Projects.Find(a.Context(), a.Admin, "default")
	if err != nil {
		a.Fatal(err)
	}
	return p.Incarnation
}
