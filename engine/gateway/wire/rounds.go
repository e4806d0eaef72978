package wire

import (
	"encoding/json"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// Rounds makes one answer of several. In every round but the last the model called tools that run in Mneme and not at the
// client, and it was called again with their results. The client sees the text of all rounds, the calls of its own tools,
// and one end. Use NewRounds.
//
// The messages that the client never sees are Hidden. They come before the visible message, as if the model had called the
// hidden tools first and spoken then, so that the client has one message to send back.
type Rounds struct {
	Format chat.Format
	// Hidden are the calls that ran here and their results, as messages of the format.
	Hidden []json.RawMessage
	// Choice is the tool_choice of the client's request, which later rounds may replace; nil if there is none.
	Choice json.RawMessage

	names   map[string]bool
	id      string // of the first round, which the client has
	last    *Reply
	content []string          // Chat Completions: what was said
	seen    []json.RawMessage // other APIs: the client's blocks or items
	// stored are the messages to keep. They exclude Anthropic's thinking, which is bound to what preceded it. Items of
	// Responses whose reasoning is hidden lose their id, because the provider would expect the reasoning with it.
	stored []json.RawMessage
	usage  Usage
	raw    map[string]any // the sum of the usages as the provider has them
}

// NewRounds returns Rounds that hold back calls of the tools with these names.
func NewRounds(f chat.Format, names []string) *Rounds {
	r := &Rounds{Format: f, names: map[string]bool{}}
	for _, name := range names {
		r.names[name] = true
	}
	return r
}

// Held is a call that is held back.
type Held struct{ ID, Name, Arguments string }

// Result is the result of a held call.
type Result struct {
	Held
	Content string
	IsError bool
}

// Add adds the answer of a round. It returns the calls that run here, and whether there are calls for the client too.
func (r *Rounds) Add(reply *Reply) (held []Held, clients bool) {
	r.last = reply
	if r.id == "" {
		r.id = reply.ID
	}
	r.usage = r.usage.Plus(reply.Usage)
	r.raw = sum(r.raw, reply.rawUsage)
	switch r.Format {
	case chat.OpenAIChat:
		return r.addMessage(reply.Messages[0])
	case chat.AnthropicMessages:
		var m fields
		_ = json.Unmarshal(reply.Messages[0], &m)
		return r.addBlocks(m.list("content"))
	}
	return r.addItems(reply.Messages)
}

func (r *Rounds) addMessage(raw json.RawMessage) (held []Held, clients bool) {
	var m fields
	_ = json.Unmarshal(raw, &m)
	if text := m.text("content"); text != "" {
		r.content = append(r.content, text)
	}
	var ours []json.RawMessage
	for _, raw := range m.list("tool_calls") {
		var call fields
		_ = json.Unmarshal(raw, &call)
		f := call.object("function")
		if !r.names[f.text("name")] {
			clients = true
			continue
		}
		ours = append(ours, raw)
		held = append(held, Held{call.text("id"), f.text("name"), f.text("arguments")})
	}
	if ours != nil {
		m["tool_calls"], _ = encode(ours)
		m["content"] = json.RawMessage("null")
		r.hide(m)
	}
	return held, clients
}

func (r *Rounds) hide(v any) {
	raw, _ := encode(v)
	r.Hidden = append(r.Hidden, raw)
}

func (r *Rounds) addBlocks(blocks []json.RawMessage) (held []Held, clients bool) {
	var thinking, ours []json.RawMessage
	leads := r.Hidden == nil && len(r.seen) == 0 // Thinking stays valid only if nothing is cut out before it.
	for _, raw := range blocks {
		var b fields
		_ = json.Unmarshal(raw, &b)
		kind := b.text("type")
		thinks := kind == "thinking" || kind == "redacted_thinking"
		if kind == "tool_use" && r.names[b.text("name")] {
			ours = append(ours, raw)
			held = append(held, Held{b.text("id"), b.text("name"), string(b["input"])})
			continue
		}
		clients = clients || kind == "tool_use"
		r.seen = append(r.seen, raw)
		if leads = leads && thinks; leads {
			thinking = append(thinking, raw)
		}
		if !thinks {
			r.stored = append(r.stored, raw)
		}
	}
	if ours != nil {
		content, _ := encode(append(thinking, ours...))
		r.Hidden = append(r.Hidden, assistant(content))
	}
	return held, clients
}

func (r *Rounds) addItems(items []json.RawMessage) (held []Held, clients bool) {
	var reasoning []json.RawMessage // It belongs to the next item.
	var thought, hides bool         // The newest reasoning is hidden.
	for _, raw := range items {
		var item fields
		_ = json.Unmarshal(raw, &item)
		kind := item.text("type")
		if kind == "reasoning" {
			reasoning = append(reasoning, raw)
			continue
		}
		ours := kind == "function_call" && r.names[item.text("name")]
		if reasoning != nil {
			thought, hides = true, ours
		}
		alone := raw
		if thought && hides != ours {
			delete(item, "id")
			alone, _ = encode(item)
		}
		switch {
		case ours:
			r.Hidden = append(append(r.Hidden, reasoning...), alone)
			held = append(held, Held{item.text("call_id"), item.text("name"), item.text("arguments")})
		default:
			r.seen = append(append(r.seen, reasoning...), raw)
			r.stored = append(append(r.stored, reasoning...), alone)
			clients = clients || strings.HasSuffix(kind, "_call") && item.text("call_id") != ""
		}
		reasoning = nil
	}
	r.seen, r.stored = append(r.seen, reasoning...), append(r.stored, reasoning...)
	return held, clients
}

// Answer adds the results of the held calls of the newest round. It returns the messages to append to the prompt of the
// next round: the model's answer and the results.
func (r *Rounds) Answer(results []Result) []json.RawMessage {
	var out, blocks []json.RawMessage
	for _, res := range results {
		var v map[string]any
		switch r.Format {
		case chat.OpenAIChat:
			v = map[string]any{"role": "tool", "tool_call_id": res.ID, "content": res.Content}
		case chat.OpenAIResponses:
			v = map[string]any{"type": "function_call_output", "call_id": res.ID, "output": res.Content}
		default:
			v = map[string]any{"type": "tool_result", "tool_use_id": res.ID, "content": res.Content}
			if res.IsError {
				v["is_error"] = true
			}
		}
		raw, _ := encode(v)
		blocks = append(blocks, raw)
	}
	if r.Format == chat.AnthropicMessages {
		content, _ := encode(blocks)
		blocks = []json.RawMessage{append(append([]byte(`{"role":"user","content":`), content...), '}')}
	}
	r.Hidden = append(r.Hidden, blocks...)
	return append(append(out, r.last.Messages...), blocks...)
}

// Usage returns the usage of all rounds together.
func (r *Rounds) Usage() Usage { return r.usage }

// Reply returns the whole answer as the client will send it back.
func (r *Rounds) Reply() *Reply {
	out := *r.last
	out.ID = r.id
	if r.Hidden == nil {
		return &out
	}
	out.Usage = r.usage
	switch r.Format {
	case chat.OpenAIChat:
		m, _ := encode(r.message(out.Messages[0]))
		out.Messages = []json.RawMessage{m}
	case chat.AnthropicMessages:
		content, _ := encode(nonNil(r.stored))
		out.Messages = []json.RawMessage{assistant(content)}
	default:
		out.Messages = r.stored
	}
	return &out
}

// between separates the texts of two rounds in formats that have one text.
const between = "\n\n"

// message returns the client's message of Chat Completions.
func (r *Rounds) message(last json.RawMessage) fields {
	var m fields
	_ = json.Unmarshal(last, &m)
	if text := strings.Join(r.content, between); text != "" {
		m["content"], _ = encode(text)
	}
	var calls []json.RawMessage
	for _, raw := range m.list("tool_calls") {
		var call fields
		_ = json.Unmarshal(raw, &call)
		if !r.names[call.object("function").text("name")] {
			calls = append(calls, raw)
		}
	}
	delete(m, "tool_calls")
	if calls != nil {
		m["tool_calls"], _ = encode(calls)
	}
	return m
}

// Body returns the body of the whole answer, based on that of the last round.
func (r *Rounds) Body(last []byte) ([]byte, error) {
	var o fields
	if err := json.Unmarshal(last, &o); err != nil {
		return nil, err
	}
	r.common(o)
	switch r.Format {
	case chat.OpenAIChat:
		for _, raw := range o.list("choices") {
			var c fields
			if json.Unmarshal(raw, &c) == nil && c.number("index") == 0 {
				c["message"], _ = encode(r.message(c["message"]))
				o["choices"], _ = encode([]any{c})
			}
		}
	case chat.AnthropicMessages:
		o["content"], _ = encode(nonNil(r.seen))
	default:
		o["output"], _ = encode(nonNil(r.seen))
	}
	return encode(o)
}

// Unread returns the body of a first answer that cannot be parsed: unchanged, except that it does not repeat the memory
// tools.
func (r *Rounds) Unread(body []byte) []byte {
	var o fields
	if r.Format != chat.OpenAIResponses || json.Unmarshal(body, &o) != nil || o == nil {
		return body
	}
	r.withoutTools(o)
	out, err := encode(o)
	if err != nil {
		return body
	}
	return out
}

// common sets the members that a whole answer and the object at the end of a stream share.
func (r *Rounds) common(o fields) {
	if r.id != "" {
		o["id"], _ = encode(r.id)
	}
	if r.raw != nil {
		o["usage"], _ = encode(r.raw)
	}
	r.withoutTools(o)
}

// withoutTools makes a Responses object repeat the client's own tools and tool_choice instead of those that were sent.
func (r *Rounds) withoutTools(o fields) {
	if o["tool_choice"] != nil {
		o["tool_choice"] = r.Choice
		if r.Choice == nil {
			o["tool_choice"] = json.RawMessage(`"auto"`)
		}
	}
	if o["tools"] == nil {
		return
	}
	kept := []json.RawMessage{}
	for _, raw := range o.list("tools") {
		var tool fields
		_ = json.Unmarshal(raw, &tool)
		if !r.names[tool.text("name")] {
			kept = append(kept, raw)
		}
	}
	o["tools"], _ = encode(kept)
}

func nonNil(list []json.RawMessage) []json.RawMessage {
	if list == nil {
		return []json.RawMessage{}
	}
	return list
}

// Plus returns the sum of two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Cached + v.Cached, u.Written + v.Written, u.Output + v.Output}
}

// sum adds the numbers of two usages. Other values come from the newer one.
func sum(was map[string]any, raw json.RawMessage) map[string]any {
	now, err := decode(raw)
	if err != nil || now == nil {
		return was
	}
	return added(was, now)
}

func added(was, now map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range was {
		out[name] = value
	}
	for name, value := range now {
		switch value := value.(type) {
		case json.Number:
			before, _ := out[name].(json.Number)
			a, errA := before.Int64()
			b, errB := value.Int64()
			if before != "" && errA == nil && errB == nil {
				encoded, _ := encode(a + b)
				out[name] = json.Number(encoded)
				continue
			}
			out[name] = value
		case map[string]any:
			before, _ := out[name].(map[string]any)
			out[name] = added(before, value)
		case nil:
			if _, ok := out[name]; !ok {
				out[name] = nil
			}
		default:
			out[name] = value
		}
	}
	return out
}
