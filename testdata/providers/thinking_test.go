package providers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// talk is a conversation with Messages that a test edits before sending it again.
type talk struct {
	t        *testing.T
	model    string
	system   string
	tools    []string
	thinking string
	messages []json.RawMessage
	opts     []Option
}

func (k *talk) body() []byte {
	return []byte(fmt.Sprintf(`{"model":%q,"max_tokens":9,"system":%q,"tools":[%s],"thinking":%s,"messages":%s}`,
		k.model, k.system,
		strings.Join(k.tools, ","), either(k.thinking, `{"type":"adaptive"}`), encode(k.messages)))
}

// turn asks a question and adds an answer with thinking.
func (k *talk) turn(n int) {
	k.t.Helper()
	k.messages = append(k.messages, fmt.Appendf(nil, `{"role":"user","content":"question %d"}`, n))
	thought, err := Thinking(k.body(), fmt.Sprintf("thought %d", n), nil, k.opts...)
	if err != nil {
		k.t.Fatal(err)
	}
	k.messages = append(k.messages, fmt.Appendf(nil,
		`{"role":"assistant","content":[%s,{"type":"text","text":"answer %d"}]}`, thought, n))
}

// begin returns a conversation of four turns and a fifth question.
func begin(t *testing.T, model string) *talk {
	k := &talk{t: t, model: model, system: "s", tools: []string{`{"name":"f","input_schema":{}}`}}
	for n := range 4 {
		k.turn(n + 1)
	}
	k.messages = append(k.messages, json.RawMessage(`{"role":"user","content":"question 5"}`))
	return k
}

func (k *talk) edit(i int, from, to string) {
	k.t.Helper()
	if !strings.Contains(string(k.messages[i]), from) {
		k.t.Fatalf("message %d has no %s: %s", i, from, k.messages[i])
	}
	k.messages[i] = json.RawMessage(strings.Replace(string(k.messages[i]), from, to, 1))
}

// unthink removes the thinking from an assistant's message.
func (k *talk) unthink(i int) json.RawMessage {
	was := k.messages[i]
	var m struct {
		Role    string            `json:"role"`
		Content []json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(was, &m); err != nil {
		k.t.Fatal(err)
	}
	m.Content = m.Content[1:]
	k.messages[i] = encode(m)
	return was
}

// TestThinkingPrefix edits a conversation in each way that PT and PC name, and checks which block is refused first.
func TestThinkingPrefix(t *testing.T) {
	for _, c := range []struct {
		name    string
		edit    func(*talk)
		refused string // the position, or empty
	}{
		{"unchanged", func(*talk) {}, ""},
		{"appended", func(k *talk) { k.turn(5); k.turn(6); k.messages = append(k.messages, k.messages[0]) }, ""},
		{"cache_control added", func(k *talk) {
			k.edit(2, `"question 2"`, `[{"type":"text","text":"question 2","cache_control":{"type":"ephemeral"}}]`)
		}, ""},
		{"a deferred tool added", func(k *talk) { k.tools = append(k.tools, `{"name":"g","defer_loading":true}`) }, ""},
		{"the first thought dropped", func(k *talk) { k.unthink(1) }, ""},
		{"two from the front dropped", func(k *talk) { k.unthink(1); k.unthink(3) }, ""},
		{"the last thought dropped", func(k *talk) { k.unthink(7) }, ""},
		{"all dropped", func(k *talk) { k.unthink(1); k.unthink(3); k.unthink(5); k.unthink(7) }, ""},
		{"a middle thought dropped", func(k *talk) { k.unthink(3) }, "messages.5.content.0"},
		{"a dropped one put back", func(k *talk) {
			was := k.unthink(1)
			k.turn(5)
			k.messages[1] = was
			k.messages = append(k.messages, k.messages[0])
		}, "messages.10.content.0"},
		{"a message edited", func(k *talk) { k.edit(4, "question 3", "question three") }, "messages.5.content.0"},
		{"an answer edited", func(k *talk) { k.edit(3, "answer 2", "answer two") }, "messages.5.content.0"},
		{"the first turn deleted", func(k *talk) { k.messages = k.messages[2:] }, "messages.1.content.0"},
		{"a note inserted", func(k *talk) {
			k.messages = slices.Insert(k.messages, 6, json.RawMessage(`{"role":"user","content":"note"}`))
		}, "messages.8.content.0"},
		{"the system changed", func(k *talk) { k.system = "S" }, "messages.1.content.0"},
		{"a tool added", func(k *talk) { k.tools = append(k.tools, `{"name":"g","input_schema":{}}`) },
			"messages.1.content.0"},
		{"a text put into a block", func(k *talk) { k.edit(1, "thought 1", "thought one") }, "messages.1.content.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := begin(t, "claude-fable-5-2")
			c.edit(k)
			refusal := CheckMessages(k.body())
			if (refusal == nil) != (c.refused == "") || refusal != nil && !strings.HasPrefix(refusal.Message,
				c.refused+": Invalid `signature` in `thinking` block") {
				t.Errorf("refused %v, want %s", refusal, c.refused)
			}
		})
	}
}

func TestThinkingTexts(t *testing.T) {
	k := begin(t, "claude-opus-5-5")
	k.system = "S"
	bound := "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different " +
		"conversation. Remove " +
		"the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
	header := " That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
	if refusal := CheckMessages(k.body()); refusal == nil || refusal.Message != bound+header {
		t.Error(refusal)
	}
	if refusal := CheckMessages(k.body(), Beta(bindingBeta)); refusal == nil || refusal.Message != bound {
		t.Error(refusal)
	}
	k.thinking = `{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}`
	dropped, refusal := Transformations(Messages, k.body(), Beta(bindingBeta))
	if refusal != nil || len(dropped) != 4 || dropped[0] != (Transformation{Type: "thinking_dropped",
		Path:   "messages.1.content.0",
		Reason: "prefix_binding_mismatch"}) {
		t.Error(dropped, refusal)
	}
	k = begin(t, "claude-opus-5-5")
	k.edit(7, "thought 4", "thought four")
	if refusal := CheckMessages(k.body()); refusal == nil || !strings.Contains(refusal.Message, "in the latest "+
		"assistant message cannot be modified") {
		t.Error(refusal)
	}
}

// TestThinkingByModel changes the system prompt of a conversation and sends it to models that treat this differently.
func TestThinkingByModel(t *testing.T) {
	for model, want := range map[string]bool{"claude-opus-5": false, "claude-fable-5-1": false,
		"claude-opus-5-5": true, "claude-fable-5-2": true} {
		k := begin(t, model)
		k.system = "S"
		if got := CheckMessages(k.body()) != nil; got != want {
			t.Errorf("%s refuses: %v", model, got)
		}
	}
	k := begin(t, "claude-fable-5-2") // no other model can read its thinking: it is dropped, not refused
	k.model = "claude-opus-5-5"
	dropped, refusal := Transformations(Messages, k.body())
	if refusal != nil || len(dropped) != 4 || dropped[0].Reason != "model_binding_mismatch" {
		t.Error(dropped, refusal)
	}
	k = begin(t, "claude-fable-5-1") // an old account opts in by setting either value
	k.system, k.thinking = "S", `{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"error"}}`
	if refusal := CheckMessages(k.body(), Beta(bindingBeta)); refusal == nil {
		t.Error("not bound")
	}
}

// TestOmittedThinking sends back blocks whose text was not shown, unchanged and with a text added.
func TestOmittedThinking(t *testing.T) {
	k := &talk{t: t, model: "claude-opus-5-5"}
	k.messages = []json.RawMessage{json.RawMessage(`{"role":"user","content":"q"}`)}
	thought, err := Thinking(k.body(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`""`, `"made up"`} {
		block := strings.Replace(string(thought), `"thinking":""`, `"thinking":`+text, 1)
		k.messages = append(k.messages[:1], json.RawMessage(`{"role":"assistant","content":[`+block+`]}`),
			k.messages[0])
		if refusal := CheckMessages(k.body()); refusal != nil {
			t.Errorf("%s: %v", text, refusal)
		}
	}
}

// TestKeptTurns compacts the first two turns on demand. The thinking of later turns remains valid, unless the tools
// change or a turn in between is missing.
func TestKeptTurns(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*talk)
		kept int // the first kept message
		ok   bool
	}{
		"kept":               {func(*talk) {}, 4, true},
		"another tool":       {func(k *talk) { k.tools = nil }, 4, false},
		"a turn is missing":  {func(*talk) {}, 6, false},
		"a kept turn edited": {func(k *talk) { k.edit(1, "question 3", "question three") }, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := begin(t, "claude-opus-5-5")
			all := k.messages
			k.messages = all[:4]
			asks := strings.Replace(string(k.body()), `"max_tokens"`,
				`"compaction":{"type":"summarize"},"max_tokens"`, 1)
			r, refusal := readMessages([]byte(asks), collect(nil))
			if refusal != nil {
				t.Fatal(refusal)
			}
			block := encode(r.answer(Say("a summary"), &ids{}).items)
			k.messages = append([]json.RawMessage{fmt.Appendf(nil, `{"role":"assistant","content":%s}`, block)},
				all[c.kept:]...)
			c.edit(k)
			if refusal := CheckMessages(k.body()); (refusal == nil) != c.ok {
				t.Error(refusal)
			}
		})
	}
}

// TestReasoningPrefix edits a conversation with Responses. Only gpt-6.2 silently removes reasoning after the edit.
func TestReasoningPrefix(t *testing.T) {
	for _, c := range []struct {
		name, model, from, to string
		removed               int
	}{
		{"unchanged", "gpt-6.2-astra", "", "", 0},
		{"ids left out", "gpt-6.2-astra", `"id":"msg_1_rs_1",`, "", 0},
		{"a question edited", "gpt-6.2-astra", "question 1", "question one", 2},
		{"the second question edited", "gpt-6.2-astra", "question 2", "question two", 1},
		{"a tool added", "gpt-6.2-astra", `"tools":[`, `"tools":[{"type":"web_search"},`, 2},
		{"another model", "gpt-5.6", "question 1", "question one", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var items []string
			body := func() string {
				return fmt.Sprintf(`{"model":%q,"store":false,"tools":[{"type":"function","name":"f"}],"input":[%s]}`, c.model, strings.Join(items, ","))
			}
			for n := 1; n <= 2; n++ {
				items = append(items, fmt.Sprintf(`{"role":"user","content":"question %d"}`, n))
				item, err := Reasoning([]byte(body()), fmt.Sprintf("rs_%d", n))
				if err != nil {
					t.Fatal(err)
				}
				items = append(items, string(item),
					fmt.Sprintf(`{"type":"message","id":"msg_%d_rs_%[1]d","role":"assistant","content":"answer"}`, n))
			}
			text := strings.Replace(body(), c.from, c.to, 1)
			removed, refusal := Transformations(Responses, []byte(text))
			if refusal != nil || len(removed) != c.removed {
				t.Errorf("removed %v, refused %v", removed, refusal)
			}
		})
	}
}
