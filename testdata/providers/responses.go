package providers

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// responsesRequest is a request to Responses. A string as input becomes one user message.
type responsesRequest struct {
	*options
	body    object
	model   *Model
	items   []object
	removed []Transformation
	end     string // the state after the last item
}

func readResponses(body []byte, o *options) (*responsesRequest, *Refusal) {
	fields, refusal := readOpenAI(body)
	if refusal != nil {
		return nil, refusal
	}
	m, refusal := o.modelOf(Responses, fields)
	if refusal != nil {
		refusal.Rule = "responses/model"
		return nil, refusal
	}
	r := &responsesRequest{options: o, body: fields, model: m, items: objects(fields.list("input"))}
	if text, ok := fields["input"].(string); ok {
		r.items = []object{{"role": "user", "content": text}}
	}
	return r, apply(responsesRules, r)
}

var itemID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// responsesRules are the requests that Responses refuses. oa are the types of openai 3.54.0.
var responsesRules = []rule[*responsesRequest]{
	// oa response_create_params. Unquoted.
	{"responses/argument", func(r *responsesRequest) *Refusal {
		if extra := r.body.unknown(responsesArguments...); len(extra) > 0 {
			return refuse("Unknown parameter: '%s'.", extra[0]).at("%s", extra[0]).coded("unknown_parameter")
		}
		return nil
	}},
	// oa: previous_response_id excludes conversation. Unquoted.
	{"responses/previous", func(r *responsesRequest) *Refusal {
		if r.body.has("previous_response_id") && r.body.has("conversation") {
			return refuse("Mutually exclusive parameters: 'previous_response_id' and 'conversation'.").
				coded("mutually_exclusive_parameters")
		}
		return nil
	}},
	// The input is not empty. Unquoted.
	{"responses/empty", func(r *responsesRequest) *Refusal {
		if len(r.items) == 0 && !r.body.has("previous_response_id") && !r.body.has("conversation") {
			return refuse("Missing required parameter: 'input'.").at("input").coded("missing_required_parameter")
		}
		return nil
	}},
	// oa function_tool_param: names of tools.
	{"responses/tool-name", func(r *responsesRequest) *Refusal {
		for i, tool := range objects(r.body.list("tools")) {
			if tool.str("type") == "function" {
				if refusal := toolName(fmt.Sprintf("tools[%d].name", i), tool.str("name")); refusal != nil {
					return refusal
				}
			}
		}
		return nil
	}},
	// oa ResponseInputItemParam: the types of items. Unquoted.
	{"responses/type", eachItem(func(r *responsesRequest, i int, item object) *Refusal {
		k := kind(item)
		known := prefixes[k] != "" || pairs[k] != "" || isCall(k) || slices.Contains(standAlone, k)
		if !known {
			return refuse("Invalid value: '%s'. Supported values are the types of input items.", k).at("input[%d]", i).
				coded("invalid_value")
		}
		return nil
	})},
	// codex#33176, nodetool#4252, opencode#25065: the form of ids. Leaving them out is legal.
	{"responses/id", eachItem(func(r *responsesRequest, i int, item object) *Refusal {
		id, ok := item["id"].(string)
		if !ok || kind(item) == "item_reference" {
			return nil
		}
		if !itemID.MatchString(id) {
			return refuse("Invalid 'input[%d].id': '%s'. Expected an ID that contains letters, numbers, underscores, "+
				"or dashes, "+
				"but this value contained additional characters.", i, id).at("input[%d].id", i).coded("invalid_value")
		}
		if begin := prefixes[kind(item)]; begin != "" && !strings.HasPrefix(id, begin) {
			return refuse("Invalid 'input[%d].id': '%s'. Expected an ID that begins with '%s'.", i, id, begin).
				at("input[%d].id", i).coded("invalid_value")
		}
		return nil
	})},
	// oa: which members each item has. Unquoted.
	{"responses/item-key", eachItem(func(r *responsesRequest, i int, item object) *Refusal {
		allowed, ok := itemMembers[kind(item)]
		if !ok {
			return nil
		}
		if extra := item.unknown(append([]string{"type", "id", "status"}, allowed...)...); len(extra) > 0 {
			at := fmt.Sprintf("input[%d].%s", i, extra[0])
			return refuse("Unknown parameter: '%s'.", at).at("%s", at).coded("unknown_parameter")
		}
		return nil
	})},
	// oa response_input_message_content_list: roles and parts of messages. Unquoted.
	{"responses/message", eachItem(responsesMessage)},
	// OVIS: images as in Chat Completions.
	{"responses/image", func(r *responsesRequest) *Refusal {
		var urls []string
		for _, item := range r.items {
			for _, p := range append(objects(item.list("content")), objects(item.list("output"))...) {
				if p.str("type") == "input_image" && p.has("image_url") {
					urls = append(urls, p.str("image_url"))
				}
			}
		}
		return openAIImages("input", urls)
	}},
	// oa response_function_tool_call_param: the form of calls; fastllm#45: call_id has at most 64 characters.
	{"responses/call", eachItem(func(r *responsesRequest, i int, item object) *Refusal {
		if id, ok := item["call_id"].(string); ok {
			at := fmt.Sprintf("input[%d].call_id", i)
			if id == "" {
				return refuse("Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty "+
					"string "+
					"instead.", at).at("%s", at).coded("empty_string")
			}
			if refusal := maxLength(at, len(id), 64, "string"); refusal != nil {
				return refusal
			}
		}
		if kind(item) != "function_call" {
			return nil
		}
		for _, key := range []string{"call_id", "arguments"} {
			if refusal := isString(fmt.Sprintf("input[%d].%s", i, key), item[key]); refusal != nil {
				return refusal
			}
		}
		return toolName(fmt.Sprintf("input[%d].name", i), item.str("name"))
	})},
	// oa: an output is a text or a list of input parts. Unquoted.
	{"responses/output", eachItem(func(r *responsesRequest, i int, item object) *Refusal {
		if kind(item) != "function_call_output" {
			return nil
		}
		parts, list := item["output"].([]any)
		if !list {
			return isString(fmt.Sprintf("input[%d].output", i), item["output"])
		}
		for j, p := range objects(parts) {
			if !slices.Contains([]string{"input_text", "input_image", "input_file"}, p.str("type")) {
				return invalidValue(p.str("type"), "'input_text', 'input_image', and 'input_file'").
					at("input[%d].output[%d].type", i, j)
			}
		}
		return nil
	})},
	// hermes-agent#102629, llm-gateway#2858, pi#9057 (second-hand): each call_id names one call and one output.
	{"responses/unique", func(r *responsesRequest) *Refusal {
		seen := map[string]bool{}
		for _, item := range r.items {
			id, k := item.str("call_id"), kind(item)
			if id == "" {
				continue
			}
			if seen[k+" "+id] {
				if pairs[k] != "" {
					return refuse("Duplicate %s for call_id '%s'. Each %s must have exactly one matching %[1]s", k,
						id, pairs[k]).
						at("input")
				}
				return refuse("Duplicate 'call_id': %s", id).at("input")
			}
			seen[k+" "+id] = true
		}
		return nil
	}},
	// openai-agents-python#673, continue#10092, OmniRoute#8946, openai-agents-python#1855: calls and outputs in pairs,
	// the call first, not necessarily side by side.
	{"responses/pairs", responsesPairs},
	// oa: approvals pair by approval_request_id. Unquoted.
	{"responses/approval", func(r *responsesRequest) *Refusal {
		asked := map[string]bool{}
		for _, item := range r.items {
			switch kind(item) {
			case "mcp_approval_request":
				asked[item.str("id")] = true
			case "mcp_approval_response":
				if id := item.str("approval_request_id"); !asked[id] && !r.body.has("previous_response_id") {
					return refuse("No approval request found for approval response with approval_request_id %s.",
						id).at("input")
				}
			}
		}
		return nil
	}},
	// agent-framework-go#784, MacPaw/OpenAI#432: each item occurs once.
	{"responses/duplicate", func(r *responsesRequest) *Refusal {
		seen := map[string]bool{}
		for _, item := range r.items {
			id := item.str("id")
			if id != "" && seen[id] {
				return refuse("Duplicate item found with id %s", id).at("input")
			}
			seen[id] = true
		}
		return nil
	}},
	// oa: compaction_trigger is the last item. Unquoted. openrouter gpt-6-astra guide (second-hand):
	// configuration_update.
	{"responses/place", eachItem(func(r *responsesRequest, i int, item object) *Refusal {
		switch kind(item) {
		case "compaction_trigger":
			if i+1 < len(r.items) {
				return refuse("A 'compaction_trigger' item must be the last item of the input.").at("input[%d]", i)
			}
		case "configuration_update":
			if !r.model.Updates {
				return refuse("The 'configuration_update' item type is not supported with this "+
					"model.").at("input[%d]", i)
			}
		}
		return nil
	})},
	// vercel/ai#7543, bifrost#5410: with store false, an item that this server does not have cannot be found.
	{"responses/stored", eachItem(func(r *responsesRequest, i int, item object) *Refusal {
		store, set := r.body["store"].(bool)
		k := kind(item)
		if !set || store || k != "item_reference" && (k != "reasoning" || !item.has("id") ||
			item.has("encrypted_content")) {
			return nil
		}
		refusal := refuse("Item with id '%s' not found. Items are not persisted when `store` is set to false. Try "+
			"again with "+
			"`store` set to true, or remove this item from your input.", item.str("id")).at("input")
		refusal.Status = 404
		return refusal
	})},
	// OpenCowork#164, codex#8119, agent-framework-go#784: the content of a reasoning item.
	{"responses/encrypted", eachItem(responsesEncrypted)},
	// openai-node#1791, code_puppy#853 (5.6): a reasoning item and the items that it produced need each other.
	{"responses/reasoning", responsesReasoning},
	// O/preserved-reasoning: this refuses nothing, but records which reasoning would be removed.
	{"responses/prefix", func(r *responsesRequest) *Refusal { r.walkReasoning(); return nil }},
	// dyad#1672: more tokens than the window.
	{"responses/window", func(r *responsesRequest) *Refusal {
		if n := r.tokens(); r.model.Window > 0 && n > r.model.Window && r.body.str("truncation") != "auto" {
			return refuse("Your input exceeds the context window of this model. Please adjust your input and try " +
				"again.").
				at("input").coded("context_length_exceeded")
		}
		return nil
	}},
}

// eachItem turns a check of one item into a rule.
func eachItem(check func(*responsesRequest, int, object) *Refusal) func(*responsesRequest) *Refusal {
	return func(r *responsesRequest) *Refusal {
		for i, item := range r.items {
			if refusal := check(r, i, item); refusal != nil {
				return refusal
			}
		}
		return nil
	}
}
