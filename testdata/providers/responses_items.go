package providers

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	responsesArguments = []string{"model", "input", "background", "context_management", "conversation", "include",
		"instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls",
		"previous_response_id",
		"prompt", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning",
		"safety_identifier",
		"service_tier", "store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools",
		"top_logprobs",
		"top_p", "truncation", "user", "client_metadata", "comparison_response_id"}
	itemMembers = map[string][]string{
		"message":              {"role", "content", "phase"},
		"reasoning":            {"summary", "content", "encrypted_content"},
		"function_call":        {"call_id", "name", "arguments", "namespace", "caller"},
		"function_call_output": {"call_id", "output", "name", "namespace", "caller"},
	}
)

// kind returns an item's type. The short form of a message has none.
func kind(item object) string {
	if item.str("type") == "" && item.str("role") != "" {
		return "message"
	}
	return item.str("type")
}

// pairs has the types of calls that are answered by another item, by the type of that item.
var pairs = map[string]string{
	"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call",
	"local_shell_call_output": "local_shell_call", "shell_call_output": "shell_call",
	"apply_patch_call_output": "apply_patch_call", "computer_call_output": "computer_call",
	"tool_search_output": "tool_search_call",
}

// prefixes has the prefixes of item ids (codex#33176, nodetool#4252).
var prefixes = map[string]string{"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc",
	"web_search_call": "ws", "file_search_call": "fs", "code_interpreter_call": "ci", "image_generation_call": "ig",
	"computer_call": "cu", "mcp_call": "mcp", "mcp_list_tools": "mcpl", "compaction": "cmp"}

// standAlone are the types of items that are not in pairs or prefixes.
var standAlone = []string{"mcp_approval_request", "mcp_approval_response", "additional_tools", "program",
	"program_output",
	"compaction_trigger", "configuration_update", "item_reference"}

// responsesMessage checks a message's role and parts. An assistant's parts are output_text and refusal, all others' are
// input_text, input_image and input_file.
func responsesMessage(_ *responsesRequest, i int, item object) *Refusal {
	if kind(item) != "message" {
		return nil
	}
	role := item.str("role")
	if !slices.Contains([]string{"user", "assistant", "system", "developer"}, role) {
		return invalidValue(role, "'assistant', 'system', 'developer', and 'user'").at("input[%d].role", i)
	}
	parts, list := item["content"].([]any)
	if !list {
		return isString(fmt.Sprintf("input[%d].content", i), item["content"])
	}
	allowed := []string{"input_text", "input_image", "input_file", "input_audio"}
	if role == "assistant" {
		allowed = []string{"output_text", "refusal"}
	}
	for j, p := range objects(parts) {
		if !slices.Contains(allowed, p.str("type")) {
			return invalidValue(p.str("type"), "'"+strings.Join(allowed,
				"', '")+"'").at("input[%d].content[%d].type", i, j)
		}
	}
	return nil
}

// isCall reports whether an item of this type needs an output.
func isCall(kind string) bool { return slices.Contains(slices.Collect(maps.Values(pairs)), kind) }

// callName returns the name for a call in errors: "function call", "custom tool call".
func callName(kind string) string { return strings.ReplaceAll(kind, "_", " ") }

func responsesPairs(r *responsesRequest) *Refusal {
	answered := map[string]bool{}
	for _, item := range r.items {
		if call := pairs[kind(item)]; call != "" {
			answered[call+" "+item.str("call_id")] = true
		}
	}
	asked := map[string]bool{}
	for _, item := range r.items {
		k, id := kind(item), item.str("call_id")
		if call := pairs[k]; call != "" {
			// A program's results have no call_id (oa); with previous_response_id the call may be a stored one.
			if item.has("call_id") && !asked[call+" "+id] && !r.body.has("previous_response_id") {
				return refuse("No tool call found for %s output with call_id %s.", callName(call), id).at("input")
			}
			continue
		}
		asked[k+" "+id] = true
		if isCall(k) && !answered[k+" "+id] {
			return refuse("No tool output found for %s %s.", callName(k), id).at("input")
		}
	}
	return nil
}

// rationale is the content of a reasoning item's encrypted_content.
type rationale struct {
	Model string `json:"m"`
	ID    string `json:"i"`
	State string `json:"s"` // rolling hash of everything before it
}

func responsesEncrypted(r *responsesRequest, i int, item object) *Refusal {
	if kind(item) != "reasoning" {
		return nil
	}
	if n := len(item.list("content")); n > 0 {
		return maxLength(fmt.Sprintf("input[%d].content", i), n, 0, "array")
	}
	if _, ok := item["summary"].([]any); !ok { // oa: required, may be empty. Unquoted.
		return refuse("Missing required parameter: 'input[%d].summary'.", i).at("input[%d].summary", i).
			coded("missing_required_parameter")
	}
	sealed := item.str("encrypted_content")
	if sealed == "" {
		return nil
	}
	reason := ""
	var made rationale
	if open(sealed, &made) != nil {
		reason = "Encrypted content could not be decrypted or parsed."
	} else if item.has("id") && item.str("id") != made.ID {
		reason = "Encrypted content item_id did not match the target item id."
	}
	if reason == "" {
		return nil
	}
	return refuse("The encrypted content %s... could not be verified. Reason: %s", sealed[:min(len(sealed), 4)],
		reason).
		coded("invalid_encrypted_content")
}

// produced extracts the reasoning item that produced an item, from the ids that this server makes:
// fc_0000000000000001_rs_0000000000000002.
var produced = regexp.MustCompile(`^[a-z]+_\w+_(rs_\w+)$`)

// responsesReasoning checks reasoning items against the items around them. The server goes by ids: if an item's id says
// that reasoning came before it, the request must contain that reasoning; an item without an id needs none
// (zirkelc.dev, second-hand).
func responsesReasoning(r *responsesRequest) *Refusal {
	if !r.model.PairsReasoning {
		return nil
	}
	present := map[string]bool{}
	for i, item := range r.items {
		k, id := kind(item), item.str("id")
		if k != "reasoning" {
			if found := produced.FindStringSubmatch(id); found != nil && !present[found[1]] {
				return refuse("Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", id,
					k, found[1]).
					at("input")
			}
			continue
		}
		present[id] = true
		next := i + 1
		for next < len(r.items) && kind(r.items[next]) == "reasoning" {
			next++
		}
		follows := next < len(r.items) && fromModel(r.items[next])
		if follows {
			if found := produced.FindStringSubmatch(r.items[next].str("id")); found != nil && next == i+1 && id != "" {
				follows = found[1] == id
			}
		}
		if !follows {
			return refuse("Item '%s' of type 'reasoning' was provided without its required following "+
				"item.", id).at("input")
		}
	}
	return nil
}

// fromModel reports whether an item is written by the model.
func fromModel(item object) bool {
	k := kind(item)
	if k == "message" {
		return item.str("role") == "assistant"
	}
	return pairs[k] == "" && prefixes[k] != "" && k != "compaction" || isCall(k)
}

// walkReasoning computes a rolling hash of everything the model saw, without reasoning, and records each reasoning item
// that was made after something else. OpenAI's own compaction restarts the hash. Item ids are not hashed, because they
// may be left out.
func (r *responsesRequest) walkReasoning() {
	start := 0
	for i, item := range r.items {
		if kind(item) == "compaction" {
			start = i
		}
	}
	state := digest("base", string(encode(r.body["tools"])), string(encode(r.body.object("text")["format"])))
	for _, item := range r.items[start:] {
		if kind(item) != "reasoning" {
			state = digest(state, canonical(item))
			continue
		}
		var made rationale
		if !r.model.DropsReasoning || open(item.str("encrypted_content"), &made) != nil {
			continue
		}
		reason := ""
		if made.Model != r.model.ID {
			reason = "model_mismatch"
		} else if made.State != state {
			reason = "prefix_mismatch"
		}
		if reason != "" {
			r.removed = append(r.removed, Transformation{ID: made.ID, Type: "reasoning", Action: "removed",
				Reason: reason})
		}
	}
	r.end = state
}

// canonical returns what the model sees of an item. For a message this is its role and its texts, in whatever form it
// is sent.
func canonical(item object) string {
	if kind(item) != "message" {
		return string(encode(map[string]any(item.without("id", "status"))))
	}
	out := []string{"message", item.str("role")}
	if text, ok := item["content"].(string); ok {
		return digest(append(out, "text", text)...)
	}
	for _, p := range objects(item.list("content")) {
		if p.has("text") {
			out = append(out, "text", p.str("text"))
		} else {
			out = append(out, "part", string(encode(map[string]any(p))))
		}
	}
	return digest(out...)
}

// Reasoning returns the reasoning item with which a model would answer a request. The ids of items that it produces end
// in an underscore and its id: fc_1_rs_2.
func Reasoning(body []byte, id string, opts ...Option) (json.RawMessage, error) {
	r, refusal := readResponses(body, collect(opts))
	if refusal != nil {
		return nil, refusal
	}
	return encode(r.reason(r.end, id, "")), nil
}

func (r *responsesRequest) reason(state, id, summary string) map[string]any {
	shown := []any{}
	if summary != "" {
		shown = append(shown, map[string]any{"type": "summary_text", "text": summary})
	}
	return map[string]any{"type": "reasoning", "id": id, "summary": shown,
		"encrypted_content": seal(rationale{r.model.ID, id, state})}
}

// tokens estimates the tokens of a request from its texts.
func (r *responsesRequest) tokens() int {
	n := 3 + r.texts(r.body["instructions"])
	for _, item := range r.items {
		n += 3 + r.texts(map[string]any(item.without("id", "status", "call_id")))
	}
	if tools := r.body.list("tools"); len(tools) > 0 {
		n += 12 + r.count(string(encode(tools)))
	}
	return n
}
