package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	size "github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// thinker is an agent whose model thinks before each call and each answer. Its provider binds thinking to the exact
// prompt for which it was made, and refuses all other thinking.
type thinker struct {
	client
	provider *providers.Server
	session  string
	names    string // which replies name their decision: "", "turn" or "message"
	ask      object // additional members of each request for a window
	steps    int    // calls of a tool in each turn

	calls, sent, refused int // calls of the model, thinking blocks sent to it, calls refused
	leftOut, needs       int
	summarised           int // windows that show a running summary
	decisions            []string
	loop                 int // tokens of the longest loop of calls, by itself
}

// turn runs a turn: a question, calls of a tool, and an answer, each with thinking before it.
func (a *thinker) turn(n int) {
	a.t.Helper()
	pending := []object{{"role": "user", "content": sprintf("question %d: what about order %[1]d?", n)}}
	var decision string
	for step := range a.steps + 1 {
		says := providers.Think("the order must be looked up", providers.Use("lookup", sprintf(`{"order":%d}`, n)))
		if step == a.steps {
			says = providers.Think("now it is clear", providers.Say(sprintf("Order %d was shipped.", n)))
		}
		a.provider.Script(says)
		body := object{"session_id": a.session, "format": "anthropic.messages", "pending": pending, "system": "You help."}
		for name, value := range a.ask {
			body[name] = value
		}
		var w struct {
			DecisionID       string `json:"decision_id"`
			Messages, System json.RawMessage
			Summary          *struct{ Version int }
			Thinking         struct {
				LeftOut int `json:"left_out"`
				Needs   string
			}
		}
		a.post("/api/v1/projects/default/context", body).want(200).into(&w)
		decision = w.DecisionID
		a.decisions = append(a.decisions, decision)
		a.leftOut += w.Thinking.LeftOut
		if w.Summary != nil {
			a.summarised++
		}
		if w.Thinking.Needs != "" {
			a.needs++
		}
		a.sent += strings.Count(string(w.Messages), `"type":"thinking"`)
		said := a.call(w.Messages, w.System)
		reply := object{"role": "assistant", "content": said}
		if a.names == "message" {
			reply["decision_id"] = decision
		}
		pending = append(pending, reply)
		if step < a.steps {
			pending = append(pending, object{"role": "user", "content": []object{{"type": "tool_result",
				"tool_use_id": said[len(said)-1]["id"], "content": strings.Repeat("shipped ", 20)}}})
		}
	}
	a.loop = max(a.loop, a.alone(pending[:len(pending)-1]))
	turn := object{"session_id": a.session, "format": "anthropic.messages", "messages": pending}
	if a.names == "turn" {
		turn["decision_id"] = decision
	}
	a.post("/api/v1/projects/default/turns", turn).want(201)
}

// alone counts the tokens of messages in a window that has nothing else.
func (a *thinker) alone(messages []object) int {
	a.t.Helper()
	var pending []object
	for _, m := range messages {
		pending = append(pending, object{"role": m["role"], "content": m["content"]}) // without the decision
	}
	var w window
	a.post("/api/v1/projects/default/context", object{"session_id": mneme.unique("alone"), "format": "anthropic.messages",
		"pending": pending, "record": false, "budget": object{"max_messages": 0, "max_tokens": 0}}).want(200).into(&w)
	return w.Usage.Tokens
}

// call sends a window to the model, and again without what was refused.
func (a *thinker) call(messages, system json.RawMessage) []map[string]any {
	a.t.Helper()
	body := object{"model": "claude-fable-5-2", "max_tokens": 100, "messages": messages, "system": system,
		"tools":    []object{{"name": "lookup", "input_schema": object{"type": "object"}}},
		"thinking": object{"type": "adaptive"}}
	a.calls++
	status, answer := callModel(a.t, a.provider, body)
	if status != 200 {
		if a.refused++; a.refused == 1 {
			a.t.Logf("call %d: %s", a.calls, answer)
		}
		body["thinking"] = object{"type": "adaptive", "block_binding": object{"prefix_mismatch_behavior": "drop_block"}}
		if status, answer = callModel(a.t, a.provider, body); status != 200 {
			a.t.Fatalf("call %d: %s", a.calls, answer)
		}
	}
	var said struct{ Content []map[string]any }
	if err := json.Unmarshal(answer, &said); err != nil {
		a.t.Fatal(err)
	}
	return said.Content
}

// TestCampaignThinkingAgent runs agents that think, with every built-in policy, with cuts between turns and inside
// them, with replies that name their decisions and with others that do not. The provider refuses no call, thinking made
// since the last cut is sent, and each window replays equally.
func TestCampaignThinkingAgent(t *testing.T) {
	turns := size.Size(30, 200)
	small := object{"budget": object{"max_tokens": 1500}}
	tiny := object{"budget": object{"max_tokens": 900}}
	plain, summaries := shared(t), summarising(t, t.TempDir(), provider(t)).client(t)
	summaries.do("PATCH", "/api/v1/projects/default/settings", object{"summary_enabled": true,
		"summary_threshold": 12, "summary_keep_last": 6, "summary_mode": "wait", "summary_wait_ms": 60_000}).want(200)
	pipeline := func(steps ...object) object { return object{"budget": small["budget"], "pipeline": steps} }
	for _, tt := range []struct {
		name, names string
		steps       int
		ask         object
		kept        bool // thinking is sent in spite of cuts
	}{
		{"default", "", 1, nil, true},
		{"default, by turn", "turn", 1, nil, true},
		{"default, by message", "message", 1, nil, true},
		{"small, by turn", "turn", 2, small, true},
		{"small, by message", "message", 2, small, true},
		{"cuts inside turns, by message", "message", 8, small, true},
		{"cuts inside turns, by turn", "turn", 8, small, true},
		{"cuts inside turns", "", 8, small, true},
		{"cuts inside turns at 900 tokens", "", 8, tiny, false},
		{"cuts inside turns at 900 tokens, by turn", "turn", 8, tiny, true},
		{"breakpoints", "turn", 2, object{"budget": small["budget"], "cache_control": "auto"}, true},
		{"tool-pair-trim", "turn", 2, pipeline(object{"policy": "tool-pair-trim"}), true},
		{"depth-compress", "turn", 2, pipeline(object{"policy": "depth-compress", "config": object{"depth": 3}}), false},
		{"tool-result-clear", "turn", 2, pipeline(object{"policy": "tool-result-clear", "config": object{"trigger": 800}},
			object{"policy": "tool-pair-trim"}), true},
		{"delegation-filter", "turn", 2, pipeline(object{"policy": "delegation-filter"}), true},
		{"summarise", "turn", 2, pipeline(object{"policy": "summarise"}, object{"policy": "tool-pair-trim"}), true},
		{"summarise with all, by turn", "turn", 2, small, true},
		{"summarise with all, by message", "message", 8, small, true},
		{"summarise with all", "", 2, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			summarises := strings.HasPrefix(tt.name, "summarise")
			server := plain
			if summarises {
				server = summaries
			}
			a := &thinker{client: server.in(t), provider: providers.Start(t), session: mneme.unique("thinking"),
				names: tt.names, ask: tt.ask, steps: tt.steps}
			for n := 1; n <= turns; n++ {
				a.turn(n)
			}
			t.Logf("%d calls in loops of %d tokens, %d refused; %d thinking blocks sent, %d left out, %d windows need drop_block, "+
				"%d show a summary", a.calls, a.loop, a.refused, a.sent, a.leftOut, a.needs, a.summarised)
			if summarises != (a.summarised > 0) {
				t.Errorf("%d windows show a summary", a.summarised)
			}
			if a.refused > 0 {
				t.Errorf("%d of %d calls were refused", a.refused, a.calls)
			}
			// The first cut may be inside a loop. Clearing results changes what stands in front of the thinking.
			if clears := tt.name == "tool-result-clear"; !clears && a.needs > max(3, a.calls/50) {
				t.Errorf("%d of %d calls lost thinking of a loop that fits", a.needs, a.calls)
			}
			if tt.kept && a.sent < a.calls {
				t.Errorf("%d thinking blocks were sent in %d calls", a.sent, a.calls)
			}
			for i := 0; i < len(a.decisions); i += max(1, len(a.decisions)/20) {
				var again struct{ Equal bool }
				a.post("/api/v1/projects/default/decisions/"+a.decisions[i]+"/replay", nil).want(200).into(&again)
				if !again.Equal {
					t.Errorf("window %d is another one when it is made again", i)
				}
			}
		})
	}
}

// callModel sends a request as Anthropic's client does.
func callModel(t testing.TB, s *providers.Server, body object) (int, []byte) {
	t.Helper()
	r, err := http.NewRequest("POST", s.URL+"/v1/messages", bytes.NewReader(encodeJSON(t, body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("x-api-key", "k")
	r.Header.Set("anthropic-version", "2023-06-01")
	if body["thinking"].(object)["block_binding"] != nil {
		r.Header.Set("anthropic-beta", "thinking-binding-controls-2026-08-01")
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, out
}

// TestSignedCompaction has the provider summarise a conversation. From then on its block comes first in each window,
// unchanged and only once, whatever the budget is, and the provider refuses no window.
func TestSignedCompaction(t *testing.T) {
	a := &thinker{client: shared(t).in(t), provider: providers.Start(t), session: mneme.unique("compaction"), names: "turn",
		steps: 1}
	window := func(ask object) (messages, system json.RawMessage) {
		var w struct{ Messages, System json.RawMessage }
		body := object{"session_id": a.session, "format": "anthropic.messages", "system": "You help."}
		for name, value := range ask {
			body[name] = value
		}
		a.post("/api/v1/projects/default/context", body).want(200).into(&w)
		return w.Messages, w.System
	}
	for n := 1; n <= 3; n++ {
		a.turn(n)
	}
	for _, summary := range []string{"three orders", "six orders"} {
		messages, system := window(nil)
		a.provider.Script(providers.Say(summary))
		status, answer := callModel(t, a.provider, object{"model": "claude-fable-5-2", "max_tokens": 100, "messages": messages,
			"system": system, "tools": []object{{"name": "lookup", "input_schema": object{"type": "object"}}},
			"thinking": object{"type": "adaptive"}, "compaction": object{"type": "summarize"}})
		var said struct{ Content []json.RawMessage }
		if err := json.Unmarshal(answer, &said); status != 200 || err != nil {
			t.Fatalf("%d %s", status, answer)
		}
		a.post("/api/v1/projects/default/turns", object{"session_id": a.session, "format": "anthropic.messages",
			"messages": []object{{"role": "assistant", "content": said.Content}}}).want(201)
		for n := 4; n <= 12; n++ {
			a.turn(n)
		}
		for _, budget := range []object{{}, {"max_tokens": 400}, {"max_messages": 5}} {
			messages, _ := window(object{"budget": budget})
			var sent []struct {
				Role    string
				Content json.RawMessage
			}
			if err := json.Unmarshal(messages, &sent); err != nil {
				t.Fatal(err)
			}
			if sent[0].Role != "assistant" || string(sent[0].Content) != "["+string(said.Content[0])+"]" ||
				bytes.Count(messages, []byte(`"compaction"`)) != 1 {
				t.Errorf("%v: the window begins with %.300s", budget, messages)
			}
		}
	}
	if a.refused > 0 {
		t.Errorf("%d of %d calls were refused", a.refused, a.calls)
	}
}
