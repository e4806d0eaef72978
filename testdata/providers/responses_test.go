package providers

import (
	"strings"
	"testing"
)

func TestResponsesRules(t *testing.T) {
	const (
		ask    = `{"role":"user","content":"q"}`
		call   = `{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`
		output = `{"type":"function_call_output","call_id":"c1","output":"r"}`
		reply  = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}`
		think  = `{"type":"reasoning","id":"rs_1","summary":[]}`
		made   = `{"type":"function_call","id":"fc_2_rs_1","call_id":"c1","name":"f","arguments":"{}"}`
	)
	list := func(items ...string) string { return `"input":[` + strings.Join(items, ",") + `]` }
	swap := strings.ReplaceAll
	id := func(id string) string { return swap(list(ask, call, output), `"c1"`, `"`+id+`"`) }
	blob := seal(rationale{Model: "gpt-5.6", ID: "rs_1"})
	thought := func(id, blob string) string {
		return `{"type":"reasoning","id":"` + id + `","summary":[],"encrypted_content":"` + blob + `"}`
	}
	holdRules(t, Responses, responsesRules, []ruleCase{
		{rule: "responses/argument", broken: list(ask) + `,"messages":[]`, kept: list(ask) + `,"store":false`,
			text:  "Unknown parameter: 'messages'.",
			param: "messages", code: "unknown_parameter"},
		{rule: "responses/previous", broken: list(ask) + `,"previous_response_id":"r","conversation":"c"`,
			kept: list(ask) + `,"previous_response_id":"r"`,
			text: "Mutually exclusive parameters: 'previous_response_id' and 'conversation'.",
			code: "mutually_exclusive_parameters"},
		{rule: "responses/empty", broken: list(), kept: `"input":"q"`, text: "Missing required parameter: 'input'.",
			param: "input", code: "missing_required_parameter"},
		{rule: "responses/tool-name", broken: list(ask) + `,"tools":[{"type":"function","name":""}]`,
			kept: list(ask) + `,"tools":[{"type":"function","name":"f"},{"type":"web_search"}]`,
			text: "Invalid 'tools[0].name': string does not match pattern. Expected a string that matches the " +
				"pattern '^[a-zA-Z0-9_-]+$'.",
			param: "tools[0].name", code: "invalid_value"},
		{rule: "responses/type", broken: list(ask, `{"type":"tool_use"}`), kept: list(ask,
			`{"type":"web_search_call","id":"ws_1"}`, ask),
			text: "Invalid value: 'tool_use'. Supported values are the types of input items.", param: "input[1]",
			code: "invalid_value"},
		{rule: "responses/id", broken: list(ask, swap(reply, `{"type":"message"`,
			`{"type":"message","id":"item_7"`)), kept: list(ask, swap(reply, `{"type":"message"`,
			`{"type":"message","id":"msg_7"`)),
			text: "Invalid 'input[1].id': 'item_7'. Expected an ID that begins with 'msg'.", param: "input[1].id",
			code: "invalid_value"},
		{rule: "responses/id", broken: list(ask, swap(call, `{"type"`, `{"id":"","type"`), output), kept: list(ask,
			call, output),
			text: "Invalid 'input[1].id': ''. Expected an ID that contains letters, numbers, underscores, or dashes, " +
				"but this value " +
				"contained additional characters.", param: "input[1].id", code: "invalid_value"},
		{rule: "responses/item-key", broken: list(`{"role":"user","content":"q","agent":"a"}`),
			kept: list(`{"role":"assistant","content":"q","phase":"commentary"}`),
			text: "Unknown parameter: 'input[0].agent'.", param: "input[0].agent", code: "unknown_parameter"},
		{rule: "responses/message", broken: list(swap(reply, "output_text", "input_text")), kept: list(reply),
			text: "Invalid value: 'input_text'. Supported values are: 'output_text', " +
				"'refusal'.", param: "input[0].content[0].type", code: "invalid_value"},
		{rule: "responses/message", broken: list(`{"role":"tool","content":"q"}`),
			kept:  list(`{"role":"developer","content":"q"}`),
			text:  "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
			param: "input[0].role", code: "invalid_value"},
		{rule: "responses/image",
			broken: list(`{"role":"user","content":[{"type":"input_image","image_url":"ftp://a"}]}`),
			kept:   list(`{"role":"user","content":[{"type":"input_image","image_url":"https://a"}]}`),
			text:   "Invalid image URL: the URL is neither http(s) nor base64 data.", param: "input",
			code: "invalid_image_url"},
		{rule: "responses/call", broken: id(strings.Repeat("x", 65)), kept: id(strings.Repeat("x", 64)),
			text: "Invalid 'input[1].call_id': string too long. " +
				"Expected a string with maximum length 64, but got a string with length 65 " +
				"instead.", param: "input[1].call_id", code: "string_above_max_length"},
		{rule: "responses/call", broken: id(""), kept: id("x"), text: "Invalid 'input[1].call_id': empty string. " +
			"Expected a string with minimum length 1, " +
			"but got an empty string instead.", param: "input[1].call_id", code: "empty_string"},
		{rule: "responses/call", broken: swap(list(ask, call, output), `"f"`, `"f g"`), kept: list(ask, call,
			output), text: "Invalid 'input[1].name': string does not " +
			"match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", param: "input[1].name",
			code: "invalid_value"},
		{rule: "responses/output", broken: list(ask, call, swap(output, `"r"`, `[{"type":"text","text":"r"}]`)),
			kept:  list(ask, call, swap(output, `"r"`, `[{"type":"input_text","text":"r"}]`)),
			text:  "Invalid value: 'text'. Supported values are: 'input_text', 'input_image', and 'input_file'.",
			param: "input[2].output[0].type", code: "invalid_value"},
		{rule: "responses/output", broken: list(ask, call, swap(output, `"r"`, `null`)), kept: list(ask, call,
			swap(output, `"r"`, `""`)),
			text: "Invalid type for 'input[2].output': expected a string, but got null " +
				"instead.", param: "input[2].output", code: "invalid_type"},
		{rule: "responses/unique", broken: list(ask, call, output, call, output), kept: list(ask, call, output,
			swap(call+","+output, "c1", "c2")),
			text: "Duplicate 'call_id': c1", param: "input"},
		{rule: "responses/unique", broken: list(ask, call, output, output), kept: list(ask, call, output),
			text: "Duplicate function_call_output for call_id 'c1'. " +
				"Each function_call must have exactly one matching function_call_output", param: "input"},
		{rule: "responses/pairs", broken: list(ask, call, ask), kept: list(ask, call, reply, ask, output), text: "No " +
			"tool output found for function call c1.", param: "input"},
		{rule: "responses/pairs", broken: list(output), kept: list(output) + `,"previous_response_id":"r"`,
			text: "No tool call found for function call output with call_id c1.", param: "input"},
		{rule: "responses/pairs", broken: list(output, call), kept: list(call, output), text: "No tool call found " +
			"for function call output with call_id c1.", param: "input"},
		{rule: "responses/pairs", broken: list(`{"type":"custom_tool_call","call_id":"c1"}`),
			kept: list(`{"type":"custom_tool_call","call_id":"c1"}`,
				`{"type":"custom_tool_call_output","call_id":"c1"}`),
			text: "No tool output found for custom tool call c1.", param: "input"},
		{rule: "responses/approval", broken: list(`{"type":"mcp_approval_response","approval_request_id":"a"}`),
			kept: list(`{"type":"mcp_approval_request","id":"a"}`,
				`{"type":"mcp_approval_response","approval_request_id":"a"}`),
			text: "No approval request found for approval response with approval_request_id a.", param: "input"},
		{rule: "responses/duplicate", broken: list(think, made, output, think, reply), kept: list(think, made,
			output, swap(think, "rs_1", "rs_2"), reply),
			text: "Duplicate item found with id rs_1", param: "input"},
		{rule: "responses/place", broken: list(`{"type":"compaction_trigger"}`, ask), kept: list(ask,
			`{"type":"compaction_trigger"}`),
			text: "A 'compaction_trigger' item must be the last item of the input.", param: "input[0]"},
		{rule: "responses/place", broken: list(ask, `{"type":"configuration_update"}`), kept: list(ask),
			param: "input[1]",
			text:  "The 'configuration_update' item type is not supported with this model."},
		{rule: "responses/stored", broken: list(think, reply) + `,"store":false`, kept: list(thought("rs_1", blob),
			reply) + `,"store":false`,
			text: "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again " +
				"with `store` set to true, or " +
				"remove this item from your input.", param: "input"},
		{rule: "responses/encrypted", broken: list(swap(think, `[]`,
			`[],"content":[{"type":"reasoning_text","text":"x"}]`), reply), kept: list(swap(think, `[]`,
			`[],"content":[]`), reply),
			text: "Invalid 'input[0].content': array too long. Expected an array with maximum length 0, but got an " +
				"array with length 1 instead.",
			param: "input[0].content", code: "array_above_max_length"},
		{rule: "responses/encrypted", broken: list(thought("rs_1", "gAAAAABm"), reply), kept: list(thought("rs_1",
			blob), reply), code: "invalid_encrypted_content",
			text: "The encrypted content gAAA... could not be verified. Reason: Encrypted content could not be " +
				"decrypted or parsed."},
		{rule: "responses/encrypted", broken: list(thought("rs_9", blob), reply), kept: list(thought("rs_1", blob),
			reply), code: "invalid_encrypted_content",
			text: "The encrypted content " + blob[:4] + "... could not be verified. Reason: Encrypted content " +
				"item_id did not match the target item id."},
		{rule: "responses/reasoning", broken: list(ask, think), kept: list(ask, think, reply), param: "input",
			text: "Item 'rs_1' of type 'reasoning' was provided without its required following item."},
		{rule: "responses/reasoning", broken: list(ask, think, ask), kept: list(ask, think,
			`{"type":"local_shell_call","call_id":"x"}`, `{"type":"local_shell_call_output","call_id":"x"}`),
			param: "input", text: "Item 'rs_1' of type 'reasoning' was provided without its required following item."},
		{rule: "responses/reasoning", broken: list(ask, made, output), kept: list(ask, call, output), param: "input",
			text: "Item 'fc_2_rs_1' of type 'function_call' was provided without its required 'reasoning' item: " +
				"'rs_1'."},
		{rule: "responses/reasoning", broken: list(ask, swap(think, "rs_1", "rs_7"), swap(made, "_rs_1", "_rs_8"),
			output), kept: list(ask, think, made, output), param: "input",
			text: "Item 'rs_7' of type 'reasoning' was provided without its required following item."},
		{rule: "responses/window", opts: []Option{As(Model{Window: 100})},
			broken: `"input":"` + strings.Repeat("word", 99) + `"`,
			kept:   `"truncation":"auto","input":"` + strings.Repeat("word", 99) + `"`, param: "input",
			code: "context_length_exceeded",
			text: "Your input exceeds the context window of this model. Please adjust your input and try again."},
	}, request("gpt-5.6"))
}
