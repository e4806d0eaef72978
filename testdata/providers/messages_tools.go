package providers

import (
	"regexp"
	"slices"
	"strings"
)

var (
	useID    = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	serverID = regexp.MustCompile(`^srvtoolu_[a-zA-Z0-9_]+$`)
	useName  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

var messagesTools = []rule[*messagesRequest]{
	// D/define-tools: names of tools are valid and unique. Unquoted.
	{"messages/tool-name", func(r *messagesRequest) *Refusal {
		seen := map[string]bool{}
		for i, tool := range objects(r.body.list("tools")) {
			name := tool.str("name")
			if !useName.MatchString(name) {
				return refuse("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", i)
			}
			if seen[name] {
				return refuse("tools: Tool names must be unique.")
			}
			seen[name] = true
		}
		return nil
	}},
	// Portkey 10488 (second-hand): a request with tool blocks in its history must also have tools.
	{"messages/tools-needed", eachBlock(func(r *messagesRequest, b block) *Refusal {
		if kind := b.str("type"); (kind == "tool_use" || kind == "tool_result") && len(r.body.list("tools")) == 0 {
			return refuse("Requests which have `tool_use` or `tool_result` blocks must define tools.")
		}
		return nil
	})},
	// nanobot#4356: the form of ids; the pattern of names from D/define-tools.
	{"messages/use-id", eachBlock(func(r *messagesRequest, b block) *Refusal {
		switch b.str("type") {
		case "tool_use":
			if !useID.MatchString(b.str("id")) {
				return refuse("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", b.at)
			}
			if !useName.MatchString(b.str("name")) {
				return refuse("%s.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", b.at)
			}
		case "tool_result":
			if !useID.MatchString(b.str("tool_use_id")) {
				return refuse("%s.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'", b.at)
			}
		case "server_tool_use": // K: no page documents the pattern
			if !serverID.MatchString(b.str("id")) {
				return refuse("%s.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'", b.at)
			}
		}
		return nil
	})},
	// an tool_use_block_param: the input is an object. Unquoted.
	{"messages/use-input", eachBlock(func(r *messagesRequest, b block) *Refusal {
		if b.str("type") == "tool_use" && b.object.object("input") == nil {
			return refuse("%s.tool_use.input: Input should be a valid dictionary", b.at)
		}
		return nil
	})},
	// cua#524, hindsight#4250: each id occurs once in the request.
	{"messages/use-unique", func(r *messagesRequest) *Refusal {
		seen := map[string]bool{}
		for _, b := range r.blocks {
			if b.str("type") != "tool_use" {
				continue
			}
			if seen[b.str("id")] {
				return refuse("%s: `tool_use` ids must be unique", b.at)
			}
			seen[b.str("id")] = true
		}
		return nil
	}},
	// claude-code#18947: each result needs its use in the turn before. Results of two uses with the same id are checked
	// first.
	{"messages/result-orphan", func(r *messagesRequest) *Refusal {
		for n, t := range r.turns {
			for _, b := range t.blocks {
				if b.str("type") != "tool_result" {
					continue
				}
				id := b.str("tool_use_id")
				if n == 0 || !slices.Contains(uses(r.turns[n-1]), id) {
					return refuse("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each "+
						"`tool_result` block "+
						"must have a corresponding `tool_use` block in the previous message.", b.at, id)
				}
			}
		}
		return nil
	}},
	// hindsight#4250: there is one result for each use.
	{"messages/result-single", func(r *messagesRequest) *Refusal {
		for _, t := range r.turns {
			seen := map[string]bool{}
			for _, b := range t.blocks {
				if b.str("type") != "tool_result" {
					continue
				}
				id := b.str("tool_use_id")
				if seen[id] {
					return refuse("%s: each tool_use must have a single result. Found multiple `tool_result` blocks "+
						"with id: %s",
						b.at, id)
				}
				seen[id] = true
			}
		}
		return nil
	}},
	// claude-code#8210, D/handle-tool-calls: the next user turn begins with all results.
	{"messages/use-answered", func(r *messagesRequest) *Refusal {
		for n, t := range r.turns {
			open := uses(t)
			if t.role != "assistant" || len(open) == 0 || n+1 == len(r.turns) && r.model.Prefill {
				continue
			}
			if n+1 < len(r.turns) {
				for _, b := range r.turns[n+1].blocks {
					if b.str("type") != "tool_result" {
						break
					}
					open = slices.DeleteFunc(open, func(id string) bool { return id == b.str("tool_use_id") })
				}
			}
			if len(open) > 0 {
				return refuse("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately "+
					"after: %s. Each "+
					"`tool_use` block must have a corresponding `tool_result` block in the next message.", t.last,
					strings.Join(open, ", "))
			}
		}
		return nil
	}},
	// an tool_result_block_param: the allowed content of a result. Unquoted.
	{"messages/result-content", eachBlock(func(r *messagesRequest, b block) *Refusal {
		if b.str("type") != "tool_result" {
			return nil
		}
		switch content := b.object["content"].(type) {
		case nil, string:
			return nil
		case []any:
			for i, part := range objects(content) {
				kind := part.str("type")
				if !slices.Contains([]string{"text", "image", "document", "search_result", "tool_reference"}, kind) {
					return refuse("%s.tool_result.content.%d: Input tag '%s' found using 'type' does not match any "+
						"of the "+
						"expected tags: 'document', 'image', 'search_result', 'text', 'tool_reference'", b.at, i, kind)
				}
				if kind == "text" && part.str("text") == "" {
					return refuse("messages: text content blocks must be non-empty")
				}
			}
			return nil
		}
		return refuse("%s.tool_result.content: Input should be a valid list", b.at)
	})},
	// D/handling-stop-reasons, claude-code#64383: a server tool's use and its result are in the same assistant turn.
	{"messages/server-tools", func(r *messagesRequest) *Refusal {
		for n, t := range r.turns {
			open := map[string]block{}
			for _, b := range t.blocks {
				kind := b.str("type")
				if kind == "server_tool_use" {
					open[b.str("id")] = b
				} else if serverResult(b) {
					if _, ok := open[b.str("tool_use_id")]; !ok {
						return refuse("%s: unexpected `tool_use_id` found in `%s` blocks: "+
							"%s.", b.at, kind, b.str("tool_use_id"))
					}
					delete(open, b.str("tool_use_id"))
				}
			}
			for _, b := range t.blocks {
				if _, ok := open[b.str("id")]; !ok || b.str("type") != "server_tool_use" {
					continue
				}
				// While calls of a server tool and of a client tool are both open, the next user turn may contain only
				// results.
				waiting := n+1 < len(r.turns) && len(uses(t)) > 0 && !slices.ContainsFunc(r.turns[n+1].blocks,
					func(b block) bool { return b.str("type") != "tool_result" })
				if !waiting {
					return refuse("`%s` tool use with id `%s` was found without a corresponding `%[1]s_tool_result` "+
						"block",
						b.str("name"), b.str("id"))
				}
			}
		}
		return nil
	}},
	// notes, pydantic-ai#5849 (measured).
	{"messages/tool-choice", func(r *messagesRequest) *Refusal {
		kind := r.body.object("tool_choice").str("type")
		if (kind == "any" || kind == "tool") && r.model.NoForcedChoice {
			return refuse("tool_choice: type \"tool\" and \"any\" are not supported for this model.")
		}
		return nil
	}},
}

// uses returns the ids of a turn's tool_use blocks.
func uses(t turn) []string {
	var out []string
	for _, b := range t.blocks {
		if b.str("type") == "tool_use" {
			out = append(out, b.str("id"))
		}
	}
	return out
}
