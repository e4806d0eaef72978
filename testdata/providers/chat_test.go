package providers

import (
	"strings"
	"testing"
)

func TestChatRules(t *testing.T) {
	const (
		ask    = `{"role":"user","content":"q"}`
		call   = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		result = `{"role":"tool","tool_call_id":"c1","content":"r"}`
		hi     = `"messages":[` + ask + `]`
		tool   = `{"type":"function","function":{"name":"f%d"}}`
		orphan = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with " +
			"'tool_calls'."
		open = "An assistant message with 'tool_calls' must be followed by tool messages responding to each " +
			"'tool_call_id'. " +
			"The following tool_call_ids did not have response messages: "
	)
	list := func(messages ...string) string { return `"messages":[` + strings.Join(messages, ",") + `]` }
	id := func(id string) string {
		return strings.ReplaceAll(list(ask, call, result), `"c1"`, `"`+id+`"`)
	}
	part := func(p string) string { return list(`{"role":"user","content":[` + p + `]}`) }
	image := func(url string) string { return part(`{"type":"image_url","image_url":{"url":"` + url + `"}}`) }
	holdRules(t, Chat, chatRules, []ruleCase{
		{rule: "chat/argument", broken: hi + `,"x":1`, kept: hi + `,"seed":1`, text: "Unrecognized request argument " +
			"supplied: x"},
		{rule: "chat/argument", broken: hi + `,"x":1,"input":1`, kept: hi, text: "Unrecognized request arguments " +
			"supplied: input, x"},
		{rule: "chat/empty", broken: `"seed":1`, kept: hi, text: "Missing required parameter: " +
			"'messages'.", param: "messages",
			code: "missing_required_parameter"},
		{rule: "chat/gpt6-tools", model: "gpt-6-astra", broken: hi + `,"tools":[` + tool + `]`, kept: hi,
			text: "Function tools with reasoning_effort are not supported for gpt-6-astra in /v1/chat/completions. " +
				"To use " +
				"function tools, use /v1/responses or set reasoning_effort to 'none'.", param: "reasoning_effort"},
		{rule: "chat/gpt6-parameters", model: "gpt-6-luna", broken: hi + `,"max_tokens":5`,
			kept: hi + `,"max_completion_tokens":5`,
			text: "Unsupported parameter: 'max_tokens' is not supported with this model.", param: "max_tokens",
			code: "unsupported_parameter"},
		{rule: "chat/tools", broken: hi + `,"tools":[` + many(150, tool) + `]`, kept: hi + `,"tools":[` + many(128,
			tool) + `]`,
			text: "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array " +
				"with length 150 instead.",
			param: "tools", code: "array_above_max_length"},
		{rule: "chat/tool-name", broken: hi + `,"tools":[{"type":"function","function":{"name":"a.b"}}]`,
			kept: hi + `,"tools":[` + many(1, tool) + `]`, text: "Invalid 'tools[0].function.name': string does not " +
				"match pattern. " +
				"Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", param: "tools[0].function.name",
			code: "invalid_value"},
		{rule: "chat/bounds", broken: hi + `,"stop":["1","2","3","4","5"]`, kept: hi + `,"stop":["1","2","3","4"]`,
			text: "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with " +
				"length 5 instead.",
			param: "stop", code: "array_above_max_length"},
		{rule: "chat/role", broken: list(`{"role":"model","content":"q"}`),
			kept: list(`{"role":"developer","content":"q"}`, call, result, call, result),
			text: "Invalid value: 'model'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', " +
				"and 'developer'.",
			param: "messages[0].role", code: "invalid_value"},
		{rule: "chat/message-key", broken: list(`{"role":"user","content":"q","id":"m1"}`),
			kept: list(`{"role":"user","content":"q","name":"Ada"}`),
			text: "Additional properties are not allowed ('id' was unexpected) - 'messages.0'"},
		{rule: "chat/message-key", broken: list(`{"role":"assistant","content":"q","reasoning_content":"r"}`),
			kept: list(`{"role":"assistant","content":"","refusal":null}`),
			text: "Additional properties are not allowed ('reasoning_content' was unexpected) - 'messages.0'"},
		{rule: "chat/null-content", broken: list(ask, `{"role":"assistant","content":null}`), kept: list(ask, call,
			result),
			text: "Invalid value for 'content': expected a string, got null.", param: "messages.[1].content"},
		{rule: "chat/part",
			broken: list(`{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://a/b"}}]}`),
			kept:   part(`{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"https://a/b","detail":"low"}}`),
			text:   "Invalid value: 'image_url'. Supported values are: 'text'.", param: "messages[0].content[0].type",
			code: "invalid_value"},
		{rule: "chat/part", broken: part(`{"type":"tool_result","tool_use_id":"x"}`),
			kept:  part(`{"type":"file","file":{"file_id":"f"}}`),
			text:  "Invalid value: 'tool_result'. Supported values are: 'text', 'image_url', 'input_audio', 'file'.",
			param: "messages[0].content[0].type", code: "invalid_value"},
		{rule: "chat/part", broken: part(`{"type":"text","text":"x","cache_control":{}}`),
			kept:  part(`{"type":"text","text":"x"}`),
			text:  "Unknown parameter: 'messages[0].content[0].cache_control'.",
			param: "messages[0].content[0].cache_control",
			code:  "unknown_parameter"},
		{rule: "chat/image", broken: image("data:image/tiff;base64,AA=="), kept: image("data:image/png;base64,AA=="),
			text: "You uploaded an unsupported image. Please make sure your image has of one the following formats: " +
				"['png', 'jpeg', 'gif', 'webp'].", param: "messages", code: "invalid_image_format"},
		{rule: "chat/text-length", model: "deepseek-v4",
			broken: list(`{"role":"user","content":"` + strings.Repeat("a", 10_485_761) + `"}`),
			kept:   list(`{"role":"user","content":"` + strings.Repeat("a", 10_485_760) + `"}`),
			text: "Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760, " +
				"but got a " +
				"string with length 10485761 instead.", param: "messages[0].content", code: "string_above_max_length"},
		{rule: "chat/tool-calls", broken: list(ask, `{"role":"assistant","content":"a","tool_calls":[]}`),
			kept: list(ask, call, result),
			text: "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1, but got " +
				"an empty array instead.",
			param: "messages[1].tool_calls", code: "empty_array"},
		{rule: "chat/tool-calls", broken: list(ask, strings.Replace(call, `"{}"`, `{}`, 1), result), kept: list(ask,
			call, result),
			text: "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an " +
				"object instead.",
			param: "messages[1].tool_calls[0].function.arguments", code: "invalid_type"},
		{rule: "chat/call-id-length", broken: id(strings.Repeat("x", 43)), kept: id(strings.Repeat("x", 40)),
			text: "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length " +
				"40, but got a " +
				"string with length 43 instead.", param: "messages[1].tool_calls[0].id",
			code: "string_above_max_length"},
		{rule: "chat/call-name", broken: list(ask, strings.Replace(call, `"f"`, `"`+strings.Repeat("n", 65)+`"`, 1),
			result), kept: list(ask, call, result),
			text: "Invalid 'messages[1].tool_calls[0].function.name': string too long. Expected a string with " +
				"maximum length 64, " +
				"but got a string with length 65 instead.", param: "messages[1].tool_calls[0].function.name",
			code: "string_above_max_length"},
		{rule: "chat/nine", model: "mistral-large", broken: id("call_1"), kept: id("abcDEF123"),
			text: "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", code: "3280"},
		{rule: "chat/unique", model: "minimax-m3", broken: list(ask, call, result, call, result),
			kept: list(ask, call, result, strings.ReplaceAll(call+","+result, "c1", "c2")),
			text: "invalid params, duplicate tool_call id: c1"},
		{rule: "chat/pairs", broken: list(ask, call, ask), kept: list(ask, call, result, ask), text: open + "c1",
			param: "messages.[2].role"},
		{rule: "chat/pairs", broken: list(ask, call), kept: list(ask, call, result), text: open + "c1",
			param: "messages.[2].role"},
		{rule: "chat/pairs", broken: list(ask, result), kept: list(ask, call, result), text: orphan,
			param: "messages.[1].role"},
		{rule: "chat/pairs", broken: list(call, result, result), kept: list(call, result, call, result),
			text: orphan, param: "messages.[2].role"},
		{rule: "chat/reasoning-content", model: "deepseek-v4", broken: list(ask, call, result),
			kept: list(ask, strings.Replace(call, `null`, `"","reasoning_content":"r"`, 1), result),
			text: "The `reasoning_content` in the thinking mode must be passed back to the API."},
		{rule: "chat/window", opts: []Option{As(Model{Window: 100})},
			broken: list(`{"role":"user","content":"` + strings.Repeat("word", 97) + `"}`),
			kept:   list(`{"role":"user","content":"` + strings.Repeat("word", 93) + `"}`), text: "Input tokens exceed " +
				"the configured " +
				"limit of 100 tokens. Your messages resulted in 104 tokens. Please reduce the length of the messages.",
			param: "messages", code: "context_length_exceeded"},
	}, request("gpt-4o"))
}
