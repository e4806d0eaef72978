package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// sample returns a session of two turns with parallel calls, a delegation, and a call without a result.
func sample() (*history, ask) {
	h := &history{turns: 2, pieces: hard.Chat, pipeline: ask{}.pipeline()}
	add := func(turn, atom int, delegation, role, posted string, more func(*hard.Message)) {
		m := &hard.Message{Seq: len(h.messages) + 1, Turn: turn, Atom: atom, Delegation: delegation, Role: role}
		m.Posted = []byte(posted)
		if m.Atom == 0 {
			m.Atom = m.Seq
		}
		more(m)
		h.messages = append(h.messages, m)
		h.ids, h.tokens = append(h.ids, sprintf("m%d", m.Seq)), append(h.tokens, 10)
	}
	says := func(text string) func(*hard.Message) {
		return func(m *hard.Message) { m.Parts = []hard.Part{{Text: text}} }
	}
	calls := func(ids ...string) func(*hard.Message) {
		return func(m *hard.Message) {
			for _, id := range ids {
				m.Calls = append(m.Calls, hard.Call{ID: id, Name: "f", Arguments: "{}"})
			}
		}
	}
	answers := func(id, text string) func(*hard.Message) {
		return func(m *hard.Message) { m.CallID = id; says(text)(m) }
	}
	const call = `{"id":"ID","type":"function","function":{"name":"f","arguments":"{}"}}`
	a, b, c := strings.Replace(call, "ID", "a", 1), strings.Replace(call, "ID", "b", 1),
		strings.Replace(call, "ID", "c", 1)
	add(1, 0, "", "user", `{"role":"user","tags":["x"],"content":"first","n":1.0}`, says("first"))
	add(1, 0, "", "assistant", `{"role":"assistant","content":null,"tool_calls":[`+a+`,`+b+`]}`, calls("a", "b"))
	add(1, 2, "", "tool", `{"role":"tool","tool_call_id":"b","content":"B"}`, answers("b", "B"))
	add(1, 2, "", "tool", `{"role":"tool","tool_call_id":"a","content":"A"}`, answers("a", "A"))
	add(1, 0, "del_1", "assistant", `{"role":"assistant","delegation_id":"del_1","content":"secret"}`, says("secret"))
	add(1, 0, "", "assistant", `{"role":"assistant","tool_calls":[`+c+`]}`, calls("c"))
	add(2, 0, "", "user", `{"role":"user","content":"second"}`, says("second"))
	add(2, 0, "", "assistant", `{"content":"bye","role":"assistant"}`, says("bye"))
	return h, ask{viewer: "del_2", system: "be brief"}
}

// honest returns a valid answer in openai.chat to an ask with room for everything that the viewer may see.
func honest(h *history, a ask) *window {
	w := &window{DecisionID: "d", Format: "openai.chat"}
	add := func(raw string) { w.Messages = append(w.Messages, json.RawMessage(raw)) }
	if a.system != "" {
		add(`{"role":"system","content":` + quoted(a.system) + `}`)
		w.Usage.SystemTokens, w.Usage.Tokens = 6, 6
	}
	s := stage(h, a)
	_, _, last := s.mandatory()
	for _, atom := range s.atoms() {
		for _, m := range atom {
			r := row{MessageID: s.ids[m], Turn: m.Turn, Action: "keep", TokensBefore: 10, TokensAfter: 10}
			if !s.visible(m) {
				r.Action, r.Policy, r.ReasonCode, r.TokensAfter = "drop", "delegation-filter", "other_delegation", 0
			} else {
				add(shownAs(m))
				w.Usage.HistoryMessages++
			}
			w.Report = append(w.Report, r)
			w.Usage.Tokens += r.TokensAfter
			w.Usage.ConsideredTokens += r.TokensBefore
		}
		if !s.visible(atom[0]) || slices.Equal(atom, last) {
			continue
		}
		for _, c := range unanswered(atom) {
			add(`{"role":"tool","tool_call_id":` + quoted(c.ID) + `,"content":"[no result]"}`)
			w.Report = append(w.Report, row{MessageID: "made_up", Action: "inject", ReasonCode: "call_unanswered",
				TokensAfter: 5})
			w.Usage.Tokens, w.Usage.HistoryMessages = w.Usage.Tokens+5, w.Usage.HistoryMessages+1
		}
	}
	if len(w.Messages) > 0 {
		w.Usage.Tokens += primer
	}
	w.Usage.Parts = usageParts{System: w.Usage.SystemTokens, History: w.Usage.Tokens - w.Usage.SystemTokens}
	if _, maxTokens, _ := a.limits(); maxTokens > 0 {
		w.Usage.Parts.Free = maxTokens - w.Usage.Parts.History
	}
	w.Usage.Messages, w.Usage.ConsideredMessages = len(w.Messages), len(s.considered)
	for _, name := range a.pipeline() {
		w.Pipeline = append(w.Pipeline, step{Policy: name, Version: 1, Digest: "x", Fuel: 1, Outcome: "ok"})
	}
	return w
}

// shownAs returns a posted message as a window shows it.
func shownAs(m *hard.Message) string {
	raw := string(stripped(m.Posted, m.A2A()))
	if m.A2A() {
		raw = strings.Replace(raw, `"content":"`, `"content":"[from `+m.From+` to `+m.To+`] `, 1)
	}
	return raw
}

func quoted(s string) string {
	out, _ := json.Marshal(s)
	return string(out)
}

func TestLawAcceptsAnHonestWindow(t *testing.T) {
	h, a := sample()
	if faults := check(h, a, honest(h, a)); len(faults) > 0 {
		t.Fatal(strings.Join(faults, "\n"))
	}
	everything := 0
	for seed := range uint64(12) {
		transcript := hard.Generate(hard.Knobs{Seed: seed, Messages: 80, Delegations: seed%2 == 0})
		h := &history{pieces: hard.Chat, pipeline: ask{}.pipeline()}
		for _, turn := range transcript.Turns {
			for _, m := range turn.Messages {
				h.messages, h.ids, h.tokens = append(h.messages, m), append(h.ids, sprintf("m%d", m.Seq)),
					append(h.tokens, 10)
			}
			h.turns++
			for _, viewer := range append(transcript.Delegations(), "") {
				a := ask{viewer: viewer, maxMessages: &everything, maxTokens: &everything, depth: 100, system: "s"}
				if faults := check(h, a, honest(h, a)); len(faults) > 0 {
					t.Fatalf("seed %d turn %d viewer %q:\n%s", seed, h.turns, viewer, strings.Join(faults, "\n"))
				}
			}
		}
	}
}

// TestCheckCanFail makes a valid window invalid in one way at a time; the checker must name the fault.
func TestCheckCanFail(t *testing.T) {
	replace := func(i int, old, new string) func(*window) {
		return func(w *window) {
			w.Messages[i] = json.RawMessage(strings.Replace(string(w.Messages[i]), old, new, 1))
		}
	}
	cut := func(i int) func(*window) { return func(w *window) { w.Messages = slices.Delete(w.Messages, i, i+1) } }
	swap := func(i, j int) func(*window) {
		return func(w *window) { w.Messages[i], w.Messages[j] = w.Messages[j], w.Messages[i] }
	}
	insert := func(i int, raw string) func(*window) {
		return func(w *window) { w.Messages = slices.Insert(w.Messages, i, json.RawMessage(raw)) }
	}
	rows := func(change func([]row) []row) func(*window) {
		return func(w *window) { w.Report = change(w.Report) }
	}
	for _, test := range []struct {
		name, want string
		damage     func(*window)
	}{
		{"a dropped result", "provider: ", cut(3)},
		{"a dropped made-up result", "no result for the unanswered call", cut(6)},
		{"a dropped message", "order: message 2 stands where message 1 ", cut(1)},
		{"a cut end", "the window ends where message 8", cut(8)},
		{"swapped results", "order: message 4 stands where message 3", swap(3, 4)},
		{"swapped messages", "order: message 8 stands where message 7", swap(7, 8)},
		{"a leaked delegation", "delegation: message 5", insert(5, `{"role":"assistant","content":"secret"}`)},
		{"a kept delegation", "delegation: message 5", rows(func(r []row) []row { r[4].Action = "keep"; return r })},
		{"a changed text", "invented or changed", replace(1, "first", "firsT")},
		{"a changed number", "bytes of message 1 changed", replace(1, "1.0", "1")},
		{"an own field left in", "bytes of message 1 changed", replace(1, `"n"`, `"tags":["x"],"n"`)},
		{"a changed argument", "invented or changed", replace(2, "{}", "{ }")},
		{"an invented message", "invented or changed", insert(6, `{"role":"assistant","content":"hm"}`)},
		{"an unreported notice", "injected rows", insert(1, `{"role":"system","content":"3 messages left out"}`)},
		{"no system text", "system text", cut(0)},
		{"a missing row", "missing row: message 2", rows(func(r []row) []row { return slices.Delete(r, 1, 2) })},
		{"a second row", "second row", rows(func(r []row) []row { return append(r, r[0]) })},
		{"a row of nothing", "no considered message", rows(func(r []row) []row {
			return append(r, row{MessageID: "x", Action: "keep"})
		})},
		{"rows out of order", "out of order", rows(func(r []row) []row { r[0], r[1] = r[1], r[0]; return r })},
		{"a horizon where there is none", "beyond_horizon", rows(func(r []row) []row {
			return append(r, row{Action: "drop", ReasonCode: "beyond_horizon"})
		})},
		{"a split atom", "atom split", rows(func(r []row) []row {
			r[2] = row{MessageID: "m3", Turn: 1, Action: "drop", Policy: "p", ReasonCode: "c", TokensBefore: 10}
			return r
		})},
		{"a drop without a reason", "without a reason", rows(func(r []row) []row { r[4].ReasonCode = ""; return r })},
		{"the newest user gone", "mandatory: the newest user",
			rows(func(r []row) []row { r[7].Action = "drop"; return r })},
		{"the newest atom gone", "mandatory: message 8", rows(func(r []row) []row { r[8].Action = "drop"; return r })},
		{"trimmed though it fits", "fits: ", rows(func(r []row) []row { r[0].Action = "drop"; return r })},
		{"compressed too early", "depth: ", rows(func(r []row) []row {
			r[0].Action, r[0].ReasonCode = "compress", "beyond_depth"
			return r
		})},
		{"too many tokens", "budget: ", func(w *window) { w.Usage.Tokens = 9000 }},
		{"a wrong sum", "the rows' sum", func(w *window) { w.Usage.Tokens++ }},
		{"parts that are not the whole", "are", func(w *window) { w.Usage.Parts.Free++ }},
		{"a part too small", "usage: the parts", func(w *window) { w.Usage.Parts.History-- }},
		{"a marker that is none", "in notices", func(w *window) {
			w.Usage.Parts.Marker, w.Usage.Parts.History = 5, w.Usage.Parts.History-5
		}},
		{"a failed policy", "pipeline: ", func(w *window) { w.Pipeline[2].Outcome = "trap" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, a := sample()
			w := honest(h, a)
			test.damage(w)
			faults := strings.Join(check(h, a, w), "\n")
			if !strings.Contains(faults, test.want) {
				t.Errorf("want %q, got:\n%s", test.want, faults)
			}
		})
	}
}

// TestProviderFaults checks the rules of each provider with windows that break one of them.
func TestProviderFaults(t *testing.T) {
	const use = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},` +
		`{"type":"tool_use","id":"b","name":"f","input":{}}]}`
	const results = `{"type":"tool_result","tool_use_id":"b","content":"1"},{"type":"tool_result","tool_use_id":"a"}]}`
	const both = `{"role":"user","content":[` + results
	const late = `{"role":"user","content":[{"type":"text","text":"x"},` + results
	const user, reply = `{"role":"user","content":"hi"}`, `{"role":"assistant","content":"ho"}`
	const fc = `{"type":"function_call","call_id":"a","name":"f","arguments":""}`
	const out = `{"type":"function_call_output","call_id":"a","output":"1"}`
	const calls = `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f"}}]}`
	const why = `{"type":"reasoning","id":"rs","summary":[]}`
	for _, test := range []struct {
		format hard.Format
		want   string // "" if the window is valid
		window []string
	}{
		{hard.Anthropic, "", []string{user, use, both, reply, user}},
		{hard.Anthropic, "", []string{user, use}},
		{hard.Anthropic, "want \"user\"", []string{reply, user}},
		{hard.Anthropic, "want \"assistant\"", []string{user, user}},
		{hard.Anthropic, "does not answer", []string{user, use, user, reply}},
		{hard.Anthropic, "repeated call", []string{user, use, both, use, both}},
		{hard.Anthropic, "result after a text", []string{user, use, late}},
		{hard.Anthropic, "empty text", []string{`{"role":"user","content":""}`}},
		{hard.Anthropic, "no object", []string{user, strings.Replace(use, `{}`, `[]`, 1)}},
		{hard.Anthropic, "did not call", []string{user, reply, both}},
		{hard.Responses, "", []string{user, why, fc, out, why, reply}},
		{hard.Responses, "before the outputs", []string{user, fc, user, out}},
		{hard.Responses, "no call before it", []string{user, fc, out, out}},
		{hard.Responses, "not its own", []string{why, user}},
		{hard.Responses, "last item", []string{user, why}},
		{hard.Chat, "before the results", []string{calls, user}},
		{hard.Chat, "no call before it", []string{`{"role":"tool","tool_call_id":"a","content":""}`}},
	} {
		var messages []json.RawMessage
		for _, m := range test.window {
			messages = append(messages, json.RawMessage(m))
		}
		faults := strings.Join(providerFaults(test.format, messages), "\n")
		if test.want == "" && faults != "" || !strings.Contains(faults, test.want) {
			t.Errorf("%s %v: want %q, got %q", test.format, test.window, test.want, faults)
		}
	}
}
