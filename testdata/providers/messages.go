package providers

import (
	"fmt"
	"slices"
	"strings"
)

// messagesRequest is a request to Messages.
type messagesRequest struct {
	*options
	body     object
	model    *Model
	messages []object
	blocks   []block // of all messages in order; a string is one text block
	turns    []turn  // runs of messages of one role, which the API merges
	dropped  []Transformation
	end      prefix // the prefix after the last message
}

// block is one block of content and its position.
type block struct {
	object
	role    string
	message int
	at      string // messages.i.content.j
}

// turn is a run of messages of one role.
type turn struct {
	role        string
	first, last int // messages
	blocks      []block
}

func readMessages(body []byte, o *options) (*messagesRequest, *Refusal) {
	if len(body) > 32<<20 { // D/errors
		return nil, &Refusal{"messages/size", 413, "request_too_large", "Request exceeds the maximum size", "", ""}
	}
	fields, err := read(body)
	if err != nil {
		refusal := refuse("The request body is not valid JSON: %v", err)
		refusal.Rule = "messages/json"
		return nil, refusal
	}
	m, refusal := o.modelOf(Messages, fields)
	if refusal != nil {
		refusal.Rule = "messages/model"
		return nil, refusal
	}
	r := &messagesRequest{options: o, body: fields, model: m, messages: objects(fields.list("messages"))}
	r.merge()
	return r, apply(messagesRules, r)
}

// merge lists the blocks and the turns. Consecutive messages of one role are one turn (notes, measured: two assistants
// give 200).
func (r *messagesRequest) merge() {
	for i, m := range r.messages {
		role := m.str("role")
		if n := len(r.turns); n == 0 || r.turns[n-1].role != role {
			r.turns = append(r.turns, turn{role: role, first: i})
		}
		t := &r.turns[len(r.turns)-1]
		t.last = i
		var blocks []object
		switch content := m["content"].(type) {
		case string:
			blocks = []object{{"type": "text", "text": content}}
		case []any:
			blocks = objects(content)
		}
		for j, b := range blocks {
			at := fmt.Sprintf("messages.%d.content.%d", i, j)
			t.blocks = append(t.blocks, block{b, role, i, at})
			r.blocks = append(r.blocks, block{b, role, i, at})
		}
	}
}

// eachBlock turns a check of one block of a message into a rule.
func eachBlock(check func(*messagesRequest, block) *Refusal) func(*messagesRequest) *Refusal {
	return func(r *messagesRequest) *Refusal {
		for _, b := range r.blocks {
			if refusal := check(r, b); refusal != nil {
				return refusal
			}
		}
		return nil
	}
}

// messagesRules are the requests that Messages refuses. an are the types of anthropic 2.12.0; PT, PC, FIX, F52 and ODC
// are the pages on preserved thinking, its prefix checks, their repair, Fable 5.2, and on-demand compaction; notes are
// measured notes.
var messagesRules = slices.Concat(messagesForm, messagesTools, messagesRest)

var messagesForm = []rule[*messagesRequest]{
	// Roo-Code#11429, sub2api#6677: unknown members are refused everywhere.
	{"messages/argument", func(r *messagesRequest) *Refusal { return extra("", r.body, messagesArguments...) }},
	// an message_create_params: max_tokens is required. Unquoted.
	{"messages/max-tokens", func(r *messagesRequest) *Refusal {
		n, ok := r.body.number("max_tokens")
		if !ok {
			return refuse("max_tokens: Field required")
		}
		if r.model.MaxOutput > 0 && n > float64(r.model.MaxOutput) { // D/errors
			return refuse("max_tokens: %.0f > %d, which is the maximum allowed number of output tokens for %s", n,
				r.model.MaxOutput, r.model.ID)
		}
		return nil
	}},
	// notes (second-hand); an: at most 100,000.
	{"messages/count", func(r *messagesRequest) *Refusal {
		if len(r.messages) == 0 {
			return refuse("messages: at least one message is required")
		}
		if len(r.messages) > 100_000 {
			return refuse("messages: List should have at most 100000 items after validation, not %d", len(r.messages))
		}
		return nil
	}},
	// an message_param: roles. Unquoted.
	{"messages/role", func(r *messagesRequest) *Refusal {
		for i, m := range r.messages {
			if role := m.str("role"); role != "user" && role != "assistant" && (role != "system" ||
				!r.model.SystemMessages) {
				return refuse("messages.%d.role: Input should be 'user' or 'assistant'", i)
			}
		}
		return nil
	}},
	// Roo-Code#11429: unknown members of messages are refused. D/effort-per-message, an beta_system_message_param: with
	// a beta, system messages may have an effort.
	{"messages/message-key", func(r *messagesRequest) *Refusal {
		for i, m := range r.messages {
			members := []string{"role", "content"}
			if m.str("role") == "system" && (r.betas[turnBeta] || r.betas[effortBeta]) {
				members = append(members, "output_config")
			}
			if refusal := extra(fmt.Sprintf("messages.%d.", i), m, members...); refusal != nil {
				return refusal
			}
			at := fmt.Sprintf("messages.%d.output_config.", i)
			if refusal := extra(at, m.object("output_config"), "effort"); refusal != nil {
				return refusal
			}
			switch m["content"].(type) {
			case string, []any:
			default:
				return refuse("messages.%d.content: Field required", i) // unquoted
			}
		}
		return nil
	}},
	// lobehub#1601 (2024), notes: the first message is the user's; ODC: or it begins with a compaction block.
	{"messages/first", func(r *messagesRequest) *Refusal {
		if r.turns[0].role == "user" {
			return nil
		}
		if blocks := r.turns[0].blocks; r.turns[0].role == "assistant" && len(blocks) > 0 &&
			blocks[0].str("type") == "compaction" {
			return nil
		}
		return refuse("messages: first message must use the \"user\" role")
	}},
	// D/errors, notes: Claude 4.6 and later accept no prefill.
	{"messages/last", func(r *messagesRequest) *Refusal {
		last := r.turns[len(r.turns)-1]
		if last.role != "assistant" || r.body.has("compaction") { // a request for compaction may end with any message
			return nil
		}
		if !r.model.Prefill {
			return refuse("This model does not support assistant message prefill. The conversation must end with a " +
				"user message.")
		}
		if n := len(last.blocks); n > 0 {
			if text := last.blocks[n-1].str("text"); text != strings.TrimRight(text, " \t\n\r") {
				return refuse("messages: final assistant content cannot end with trailing whitespace")
			}
		}
		return nil
	}},
	// D/mid-conversation-system-messages, notes: where messages of the role system are allowed.
	{"messages/system-role", func(r *messagesRequest) *Refusal {
		for n, t := range r.turns {
			if t.role != "system" {
				continue
			}
			misplaced := n == 0 || n+1 < len(r.turns) && r.turns[n+1].role != "assistant"
			if n > 0 && r.turns[n-1].role == "assistant" {
				before := r.turns[n-1].blocks
				misplaced = misplaced || len(before) == 0 || !serverResult(before[len(before)-1])
			}
			if misplaced {
				return refuse("messages.%d: role 'system' must follow a 'user' message or an 'assistant' message "+
					"ending in a "+
					"server tool result", t.first)
			}
		}
		return nil
	}},
	// an content_block_param: block types by role. The list of tags is shortened. Unquoted.
	{"messages/block-type", eachBlock(func(r *messagesRequest, b block) *Refusal {
		if kind := b.str("type"); !slices.Contains(blockTypes[b.role], kind) &&
			(b.role != "assistant" || !strings.HasSuffix(kind, "_tool_result")) {
			return refuse("%s: Input tag '%s' found using 'type' does not match any of the expected tags: '%s'",
				b.at, kind,
				strings.Join(blockTypes[b.role], "', '"))
		}
		return nil
	})},
	// sub2api#6677 and an content_block_param: unknown members of blocks.
	{"messages/block-key", eachBlock(func(r *messagesRequest, b block) *Refusal {
		kind := b.str("type")
		allowed, ok := blockMembers[kind]
		if !ok {
			return nil
		}
		if !isThinking(b.object) {
			allowed = append([]string{"cache_control"}, allowed...)
		} else if b.has("cache_control") { // notes
			return refuse("%s.%s.cache_control: Extra inputs are not permitted", b.at, kind)
		}
		return extra(b.at+"."+kind+".", b.object, append(allowed, "type")...)
	})},
	// claude-code#59812; notes, measured in 2026-09.
	{"messages/empty-text", func(r *messagesRequest) *Refusal {
		blank := func(where, text string) *Refusal {
			if text == "" {
				return refuse("%s: text content blocks must be non-empty", where)
			}
			if strings.TrimSpace(text) == "" {
				return refuse("%s: text content blocks must contain non-whitespace text", where)
			}
			return nil
		}
		for _, b := range r.blocks {
			if b.str("type") != "text" {
				continue
			}
			if b.str("text") == "" && b.has("cache_control") {
				return refuse("%s.text: cache_control cannot be set for empty text blocks", b.at)
			}
			if refusal := blank("messages", b.str("text")); refusal != nil {
				return refusal
			}
		}
		for _, b := range objects(r.body.list("system")) {
			if refusal := blank("system", b.str("text")); refusal != nil {
				return refusal
			}
		}
		return nil
	}},
	// an text_block_param: the system field is a text or text blocks. Unquoted.
	{"messages/system", func(r *messagesRequest) *Refusal {
		for i, b := range objects(r.body.list("system")) {
			if b.str("type") != "text" {
				return refuse("system.%d.type: Input should be 'text'", i)
			}
		}
		return nil
	}},
}

// extra refuses the first unknown member of an object.
func extra(at string, o object, allowed ...string) *Refusal {
	if unknown := o.unknown(allowed...); len(unknown) > 0 {
		return refuse("%s%s: Extra inputs are not permitted", at, unknown[0])
	}
	return nil
}

func serverResult(b block) bool {
	return b.role == "assistant" && strings.HasSuffix(b.str("type"), "_tool_result")
}

// With these betas, a system message may set the effort of the messages after it. One is documented, the other is sent
// by Claude Code.
const (
	effortBeta = "mid-conversation-output-config-2026-07-01"
	turnBeta   = "per-turn-control-2026-07-01"
)

var (
	messagesArguments = []string{"model", "messages", "max_tokens", "cache_control", "container", "context_management",
		"compaction", "diagnostics", "inference_geo", "mcp_servers", "metadata", "output_config", "service_tier",
		"speed",
		"stop_sequences", "stream", "system", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p"}
	blockTypes = map[string][]string{
		"user":   {"text", "image", "document", "search_result", "tool_result", "container_upload"},
		"system": {"text"},
		"assistant": {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use",
			"compaction",
			"fallback"},
	}
	blockMembers = map[string][]string{
		"text": {"text", "citations"}, "image": {"source"}, "document": {"source", "title", "context", "citations"},
		"search_result":     {"source", "title", "content", "citations"},
		"tool_result":       {"tool_use_id", "content", "is_error"},
		"thinking":          {"thinking", "signature"},
		"redacted_thinking": {"data"}, "tool_use": {"id", "name", "input", "caller"},
		"server_tool_use": {"id", "name", "input", "caller"}, "compaction": {"content", "signature",
			"encrypted_content"},
	}
)
