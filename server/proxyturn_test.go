package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/gateway"
	"github.com/seed-0906e6bc/mneme/engine/gateway/relay"
	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	size "github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// apiClient is a client of a provider's API. It keeps its whole history, sends it with each call, and knows nothing
// about Mneme except the base URL and a key.
type apiClient struct {
	*site
	provider *providers.Server
	format   chat.Format
	path     string
	model    string
	session  string
	streams  bool
	headers  []string
	extra    map[string]any
	history  []json.RawMessage
	send     func(history []json.RawMessage) []json.RawMessage // selects the part of its history that it sends; nil: all
	last     answer
	calls    int
}

var clientPaths = map[chat.Format]string{chat.OpenAIChat: "/v1/chat/completions", chat.OpenAIResponses: "/v1/responses",
	chat.AnthropicMessages: "/v1/messages"}

func newClient(t testing.TB, f chat.Format, model string, change ...func(*setup)) *apiClient {
	p := providers.Start(t)
	return &apiClient{site: inFront(t, p.URL, change...), provider: p, format: f, path: clientPaths[f], model: model, session: "chat"}
}

func (c *apiClient) body() string {
	body, history := map[string]any{"model": c.model}, c.history
	if c.send != nil {
		history = c.send(history)
	}
	schema := map[string]any{"type": "object", "properties": map[string]any{}}
	switch c.format {
	case chat.OpenAIResponses:
		body["input"], body["store"], body["instructions"] = history, false, "You help."
		body["tools"] = []any{map[string]any{"type": "function", "name": "lookup", "parameters": schema}}
	case chat.AnthropicMessages:
		body["messages"], body["max_tokens"], body["system"] = history, 500, "You help."
		body["tools"] = []any{map[string]any{"name": "lookup", "input_schema": schema}}
		body["thinking"] = map[string]any{"type": "adaptive"}
	default:
		body["messages"] = append([]json.RawMessage{json.RawMessage(`{"role":"system","content":"You help."}`)}, history...)
		body["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{"name": "lookup", "parameters": schema}}}
	}
	for name, value := range c.extra {
		body[name] = value
	}
	if c.streams {
		body["stream"] = true
	}
	return string(object(c.t, body))
}

func object(t testing.TB, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// call sends the history and appends the reply.
func (c *apiClient) call(says providers.Reply) *wire.Reply {
	c.t.Helper()
	c.provider.Script(says)
	c.calls++
	c.last = c.post()
	if c.last.status != 200 {
		c.t.Fatalf("call %d: %d %s", c.calls, c.last.status, c.last.body)
	}
	r, err := c.read(c.last.body)
	if err != nil {
		c.t.Fatalf("call %d: %v: %s", c.calls, err, c.last.body)
	}
	c.history = append(c.history, r.Messages...)
	return r
}

func (c *apiClient) post() answer {
	c.t.Helper()
	return c.do("POST", c.path, c.body(), callHeaders(append([]string{"X-Mneme-Session", c.session}, c.headers...)...)...)
}

// read reads a response as the client does.
func (c *apiClient) read(body []byte) (*wire.Reply, error) {
	if !c.streams {
		return wire.Parse(c.format, body)
	}
	folder, split := wire.New(c.format), new(wire.Splitter)
	events, err := split.Feed(body)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		folder.Add(e)
	}
	return folder.Reply()
}

func (c *apiClient) ask(text string) {
	c.history = append(c.history, object(c.t, map[string]any{"role": "user", "content": text}))
}

func (c *apiClient) results(r *wire.Reply, text string) {
	c.t.Helper()
	parsed, _, bad := chat.Parse(c.format, r.Messages)
	if len(bad) > 0 {
		c.t.Fatal(bad)
	}
	for _, call := range parsed[len(parsed)-1].Calls {
		var result any
		switch c.format {
		case chat.OpenAIResponses:
			result = map[string]any{"type": "function_call_output", "call_id": call.ID, "output": text}
		case chat.AnthropicMessages:
			result = map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": call.ID,
				"content": text}}}
		default:
			result = map[string]any{"role": "tool", "tool_call_id": call.ID, "content": text}
		}
		c.history = append(c.history, object(c.t, result))
	}
}

func (c *apiClient) turn(n, calls int, thinks bool) {
	c.t.Helper()
	think := func(r providers.Reply) providers.Reply {
		if thinks {
			return providers.Think(fmt.Sprintf("order %d needs a look", n), r)
		}
		return r
	}
	c.ask(fmt.Sprintf("question %d: what about order %[1]d?", n))
	for i := range calls {
		c.results(c.call(think(providers.Use("lookup", fmt.Sprintf(`{"order":%d}`, n*10+i)))), strings.Repeat("shipped ", 20))
	}
	c.call(think(providers.Say(fmt.Sprintf("Order %d was shipped.", n))))
}

// sent returns the bodies that the provider got.
func (c *apiClient) sent() (out [][]byte) {
	for _, r := range c.provider.Requests() {
		out = append(out, r.Body)
	}
	return out
}

// decisionRow is the entry of a proxied call in a list.
type decisionRow struct {
	ID      string `json:"decision_id"`
	Proxied bool
	Stored  *bool
	Reason  string
	Call    struct {
		Mode, Matched, Model, Upstream, Retried string
		Status                                  int
		Turn                                    int
		Usage                                   *struct {
			Input int `json:"input_tokens"`
		}
	}
}

func (c *apiClient) decisions() []decisionRow {
	c.t.Helper()
	var list struct{ Data []decisionRow }
	got := c.do("GET", "/api/v1/projects/default/decisions?limit=1000&session_id="+c.session, "")
	if err := json.Unmarshal(got.body, &list); err != nil || got.status != 200 {
		c.t.Fatalf("%d %s", got.status, got.body)
	}
	return list.Data
}

// TestCampaignAssembled runs clients in the three protocols, whole and as streams, over many turns with thinking,
// with a large and a small budget. The provider refuses nothing, each turn is stored once, and with a large budget
// prompts begin like the previous ones.
func TestCampaignAssembled(t *testing.T) {
	t.Parallel()
	turns := size.Size(8, 200)
	for _, tt := range []struct {
		name, model string
		format      chat.Format
		context     int
		streams     bool
		share       float64
	}{
		{"chat", "gpt-4o", chat.OpenAIChat, 0, false, .95},
		{"chat streamed", "gpt-4o", chat.OpenAIChat, 3000, true, 0},
		{"responses", "gpt-6.2-astra", chat.OpenAIResponses, 3000, false, 0},
		{"responses streamed", "gpt-6.2-astra", chat.OpenAIResponses, 200_000, true, .95},
		{"messages", "claude-fable-5-2", chat.AnthropicMessages, 3000, false, 0},
		{"messages streamed", "claude-fable-5-2", chat.AnthropicMessages, 200_000, true, .95},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, tt.format, tt.model, func(o *setup) {
				for _, u := range o.upstreams.Defaults {
					u.ContextTokens, u.OutputTokens = tt.context, tt.context/5
				}
			})
			c.streams = tt.streams
			for n := 1; n <= turns; n++ {
				c.turn(n, 2, tt.format != chat.OpenAIChat)
				if h := c.last.header; h.Get("X-Mneme-Mode") != "assemble" || h.Get("X-Mneme-Decision") == "" ||
					!strings.Contains(h.Get("X-Mneme-Tokens"), "/") || h.Get("X-Mneme-Window") == "" ||
					h.Get("X-Mneme-Matched") != "extend" {
					t.Fatalf("turn %d: %v", n, h)
				}
			}
			if refused := c.provider.Refusals(); len(refused) > 0 {
				t.Errorf("%d calls were refused: %v", len(refused), refused[0])
			}
			if share := sharedBytes(t, c.sent()); share < tt.share {
				t.Errorf("%.3f of the prompts' bytes go on from the one before", share)
			}
			var head struct{ Turns, Messages int }
			got := c.do("GET", "/api/v1/projects/default/sessions/"+c.session, "")
			if err := json.Unmarshal(got.body, &head); err != nil || head.Turns != turns {
				t.Errorf("%d turns are stored, %d were made: %s", head.Turns, turns, got.body)
			}
			stored := 0
			rows := c.decisions()
			for _, row := range rows {
				if row.Stored != nil && *row.Stored {
					stored++
				}
				if !row.Proxied || row.Call.Mode != "assemble" || row.Call.Status != 200 || row.Call.Usage == nil ||
					row.Call.Usage.Input == 0 {
					t.Fatalf("%+v", row)
				}
			}
			if stored != turns || len(rows) != 3*turns {
				t.Errorf("%d of %d decisions say that they are stored, of %d turns", stored, len(rows), turns)
			}
		})
	}
}

// sharedBytes returns the mean share of a prompt that is the beginning of the next one.
func sharedBytes(t testing.TB, sent [][]byte) float64 {
	t.Helper()
	same, all := 0, 0
	var before []json.RawMessage
	for _, raw := range sent {
		var body struct{ Messages, Input []json.RawMessage }
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Fatal(err)
		}
		list := append(body.Messages, body.Input...)
		equal := true
		for i, m := range before {
			all += len(m)
			if equal = equal && i < len(list) && bytes.Equal(m, list[i]); equal {
				same += len(m)
			}
		}
		before = list
	}
	return float64(same) / float64(all)
}

// TestBetasOfAllLines checks that the betas that Mneme adds replace none of the client's, in however many lines they
// come.
func TestBetasOfAllLines(t *testing.T) {
	t.Parallel()
	call := &modelCall{request: relay.Request{Header: http.Header{"Anthropic-Beta": {"one,two", "three"}}}}
	call.goesOn(&gateway.Outgoing{Betas: []string{"three", "four"}})
	if got := strings.Join(call.request.Header.Values("Anthropic-Beta"), ","); got != "one,two,three,four" {
		t.Errorf("the provider gets %q", got)
	}
}
