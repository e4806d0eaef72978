package providers

import (
	"encoding/json"
)

// thought is the content of a thinking block's signature: the exact prefix that the block was made for (PT: system,
// tools without deferred ones, all messages before it, and the chain of earlier thinking), and its own text.
type thought struct {
	Model   string `json:"m"`
	State   string `json:"s"` // rolling hash of the prefix without thinking
	Before  string `json:"b"` // the thinking block right before it, by thoughtID
	Depth   int    `json:"d"` // the number of thinking blocks before it
	Text    string `json:"t"` // hash of the text
	Omitted bool   `json:"o"` // the text was not shown; any text that comes back in its place is ignored (PT)
}

// condensed is the content of a signed compaction block: the state after the messages that it replaces, so that the
// turns kept after it still have their prefix (notes).
type condensed struct {
	Base, State, Content string
	LastRole             string
	Tools                string
}

// thoughtID identifies a thinking block in later chains.
func thoughtID(block object) string { return digest(block.str("signature"), block.str("data")) }

// strip returns a block without cache_control at any depth, because it is not compared (PT: "Compared").
func strip(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			if key != "cache_control" {
				out[key] = strip(member)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = strip(v[i])
		}
		return out
	}
	return v
}

// prefix is the state and the chain at a position in a request's messages.
type prefix struct {
	state  string
	before string // the newest thinking block
	depth  int    // the number of thinking blocks so far
}

// holds reports whether a block was made for this prefix. Some thinking at the beginning may be missing: then there are
// fewer blocks than before, but each is still the one that the next block names.
func (p *prefix) holds(made thought) bool {
	return made.State == p.state && (p.depth == 0 || made.Before == p.before && p.depth <= made.Depth)
}

// base returns the state before the first message. An unreferenced tool with defer_loading may be added or removed (PT:
// "Legal").
func (r *messagesRequest) base() string {
	var tools []any
	for _, tool := range r.body.list("tools") {
		if !asObject(tool).flag("defer_loading") {
			tools = append(tools, strip(tool))
		}
	}
	system := r.body["system"]
	if text, ok := system.(string); ok {
		system = []any{map[string]any{"type": "text", "text": text}}
	}
	return digest("base", string(encode(strip(system))), string(encode(tools)))
}

// add moves the prefix past a block.
func (p *prefix) add(role string, b object) {
	if isThinking(b) {
		p.before, p.depth = thoughtID(b), p.depth+1
		return
	}
	p.state = digest(p.state, role, string(encode(strip(map[string]any(b)))))
}

func isThinking(b object) bool {
	return b.str("type") == "thinking" || b.str("type") == "redacted_thinking"
}

// walkThinking checks every thinking block against the prefix before it and fills dropped. It returns the prefix at the
// request's end, which is the one that the model answers.
func (r *messagesRequest) walkThinking() (prefix, *Refusal) {
	p := prefix{state: r.base()}
	first := r.lastThreshold() // D/compaction: the API ignores everything before the newest block of compact_20260112
	for n, b := range r.blocks {
		switch {
		case n < first:
			continue
		case isThinking(b.object):
			keep, refusal := r.checkThinking(p, n)
			if refusal != nil {
				return p, refusal
			}
			if !keep {
				continue
			}
		case b.str("type") == "compaction" && b.has("signature"):
			var c condensed
			if open(b.str("signature"), &c) == nil && c.Base == r.base() {
				p = prefix{state: c.State}
				continue
			}
		}
		p.add(b.role, b.object)
	}
	return p, nil
}

// checkThinking reports whether the block is kept. Sources: PT, pydantic-ai#7984 (measured texts).
func (r *messagesRequest) checkThinking(p prefix, n int) (bool, *Refusal) {
	b := r.blocks[n]
	kind, sealed := b.str("type"), b.str("signature")
	if kind == "redacted_thinking" {
		sealed = b.str("data")
	}
	var made thought
	err := open(sealed, &made)
	text, _ := b.object["thinking"].(string)
	if err == nil && kind == "thinking" && !made.Omitted && made.Text != digest(text) {
		if r.inLatestAssistant(n) { // D/extended-thinking
			return false, refuse("%s: `thinking` or `redacted_thinking` blocks in the latest assistant message "+
				"cannot be "+
				"modified. These blocks must remain as they were in the original response.", b.at)
		}
		return false, refuse("%s: Invalid `signature` in `thinking` block", b.at)
	}
	if err != nil {
		return false, refuse("%s: Invalid `%s` in `%s` block", b.at, signatureMember(kind), kind)
	}
	// PT, F52: a block that the model cannot read is removed silently and not billed.
	if maker := known(made.Model); made.Model != r.model.ID && (r.model.OwnThinking || maker != nil &&
		maker.OwnThinking) {
		r.dropped = append(r.dropped, Transformation{Type: "thinking_dropped", Path: b.at,
			Reason: "model_binding_mismatch"})
		return false, nil
	}
	behaviour := r.body.object("thinking").object("block_binding").str("prefix_mismatch_behavior")
	if !r.model.BindsThinking || r.model.Opts && behaviour == "" || p.holds(made) {
		return true, nil
	}
	if behaviour == "drop_block" {
		r.dropped = append(r.dropped, Transformation{Type: "thinking_dropped", Path: b.at,
			Reason: "prefix_binding_mismatch"})
		return false, nil
	}
	message := "%s: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove " +
		"the " +
		"block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
	if !r.betas[bindingBeta] {
		message += " That setting requires the `" + bindingBeta + "` value in the `anthropic-beta` header."
	}
	return false, refuse(message, b.at)
}

const bindingBeta = "thinking-binding-controls-2026-08-01"

func signatureMember(kind string) string {
	if kind == "redacted_thinking" {
		return "data"
	}
	return "signature"
}

// lastThreshold returns the index of the newest compaction block without a signature, or 0.
func (r *messagesRequest) lastThreshold() int {
	for n := len(r.blocks) - 1; n >= 0; n-- {
		if b := r.blocks[n]; b.str("type") == "compaction" && !b.has("signature") && b.has("content") {
			return n
		}
	}
	return 0
}

// inLatestAssistant reports whether no assistant message follows that of the block.
func (r *messagesRequest) inLatestAssistant(n int) bool {
	for _, b := range r.blocks[n:] {
		if b.role == "assistant" && b.message != r.blocks[n].message {
			return false
		}
	}
	return true
}

// Thinking returns the thinking block with which a model would answer a request. It is bound to the request and to the
// blocks before it in the reply. An empty text means that the text is not shown.
func Thinking(body []byte, text string, before []json.RawMessage, opts ...Option) (json.RawMessage, error) {
	r, refusal := readMessages(body, collect(opts))
	if refusal != nil {
		return nil, refusal
	}
	p := r.end
	for _, raw := range before {
		b, err := read(raw)
		if err != nil {
			return nil, err
		}
		p.add("assistant", b)
	}
	return encode(p.think(r.model, text, text == "")), nil
}

// think returns a block bound to the prefix.
func (p *prefix) think(m *Model, text string, omitted bool) map[string]any {
	made := thought{m.ID, p.state, p.before, p.depth, digest(text), omitted}
	if omitted {
		text = ""
	}
	return map[string]any{"type": "thinking", "thinking": text, "signature": seal(made)}
}

// redact returns a redacted block bound to the prefix.
func (p *prefix) redact(m *Model) map[string]any {
	return map[string]any{"type": "redacted_thinking", "data": seal(thought{Model: m.ID, State: p.state,
		Before: p.before,
		Depth:  p.depth})}
}
