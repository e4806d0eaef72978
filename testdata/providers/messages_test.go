package providers

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"strings"
	"testing"
)

// picture is a PNG of a size, as base64.
func picture(t *testing.T, width, height int) string {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func TestMessagesRules(t *testing.T) {
	const (
		ask    = `{"role":"user","content":"q"}`
		reply  = `{"role":"assistant","content":"a"}`
		use    = `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]}`
		result = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"}]}`
		tools  = `,"tools":[{"name":"f","input_schema":{"type":"object"}}]`
		cached = `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}`
		hour   = `{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}`
		search = `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`
		linked = `{"type":"image","source":{"type":"url","url":"https://a/b"}}`
		effort = `{"role":"system","content":"s","output_config":{"effort":"low"}}`
		found  = `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}`
	)
	list := func(messages ...string) string {
		return `"max_tokens":9,"messages":[` + strings.Join(messages, ",") + `]` + tools
	}
	user := func(blocks ...string) string { return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}` }
	says := func(blocks ...string) string {
		return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
	}
	swap := func(s, from, to string) string {
		if !strings.Contains(s, from) {
			t.Fatalf("%s has no %s", s, from)
		}
		return strings.ReplaceAll(s, from, to)
	}
	system := func(content string) string { return `{"role":"system","content":"` + content + `"}` }
	img := func(side int) string {
		return `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + picture(t, side,
			1) + `"}}`
	}
	signed := func(text string) string {
		return `{"type":"compaction","content":"sum","signature":"` + seal(condensed{Content: digest(text)}) + `"}`
	}
	holdRules(t, Messages, messagesRules, []ruleCase{
		{rule: "messages/argument", broken: list(ask) + `,"stop":[]`, kept: list(ask) + `,"stop_sequences":[]`,
			text: "stop: Extra inputs are not permitted"},
		{rule: "messages/max-tokens", broken: `"messages":[` + ask + `]`, kept: list(ask), text: "max_tokens: Field " +
			"required"},
		{rule: "messages/max-tokens", model: "claude-haiku-4-5", broken: swap(list(ask), `:9`, `:64001`),
			kept: swap(list(ask), `:9`, `:64000`),
			text: "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens for " +
				"claude-haiku-4-5"},
		{rule: "messages/count", broken: list(), kept: list(ask), text: "messages: at least one message is required"},
		{rule: "messages/role", broken: list(`{"role":"tool","content":"q"}`), kept: list(ask),
			text: "messages.0.role: Input should be 'user' or 'assistant'"},
		{rule: "messages/message-key", broken: list(ask, `{"role":"assistant","content":"a","reasoning_details":[]}`,
			ask), kept: list(ask, reply, ask),
			text: "messages.1.reasoning_details: Extra inputs are not permitted"},
		{rule: "messages/message-key", model: "claude-opus-5", broken: list(ask, effort), kept: list(ask, system("s")),
			text: "messages.1.output_config: Extra inputs are not permitted"},
		{rule: "messages/message-key", model: "claude-opus-5", opts: []Option{Beta("per-turn-control-2026-07-01")},
			broken: list(swap(ask, `"q"`, `"q","output_config":{"effort":"low"}`)), kept: list(ask, effort),
			text: "messages.0.output_config: Extra inputs are not permitted"},
		{rule: "messages/message-key", model: "claude-opus-5", opts: []Option{Beta(effortBeta)},
			broken: list(ask, swap(effort, `"effort"`, `"format"`)), kept: list(ask, effort),
			text: "messages.1.output_config.format: Extra inputs are not permitted"},
		{rule: "messages/first", broken: list(reply, ask), kept: list(ask, ask, reply, reply, ask),
			text: `messages: first message must use the "user" role`},
		{rule: "messages/last", broken: list(ask, reply), kept: list(ask, reply, ask),
			text: "This model does not support assistant message prefill. The conversation must end with a user " +
				"message."},
		{rule: "messages/last", model: "claude-haiku-4-5", broken: list(ask, says(`{"type":"text","text":"a "}`)),
			kept: list(ask, reply),
			text: "messages: final assistant content cannot end with trailing whitespace"},
		{rule: "messages/system-role", model: "claude-opus-5", broken: list(ask, reply, system("s"), ask),
			kept: list(ask, reply, ask, system("s")),
			text: "messages.2: role 'system' must follow a 'user' message or an 'assistant' message ending in a " +
				"server tool result"},
		{rule: "messages/system-role", model: "claude-opus-5", broken: list(ask, use, system("s"), result),
			kept: list(ask, use, result, system("s"), reply, ask),
			text: "messages.2: role 'system' must follow a 'user' message or an 'assistant' message ending in a " +
				"server tool result"},
		{rule: "messages/block-type", broken: list(user(`{"type":"thinking","thinking":"x","signature":"x"}`)),
			kept: list(user(`{"type":"document","source":{}}`)),
			text: "messages.0.content.0: Input tag 'thinking' found using 'type' does not match any of the expected " +
				"tags: " +
				"'text', 'image', 'document', 'search_result', 'tool_result', 'container_upload'"},
		{rule: "messages/block-key", broken: list(ask, swap(use, `"input":{}`,
			`"input":{},"provider_specific_fields":{}`), result), kept: list(ask, use, result),
			text: "messages.1.content.0.tool_use.provider_specific_fields: Extra inputs are not permitted"},
		{rule: "messages/block-key", broken: list(ask,
			says(`{"type":"redacted_thinking","data":"x","cache_control":{"type":"ephemeral"}}`), ask),
			kept: list(user(cached)),
			text: "messages.1.content.0.redacted_thinking.cache_control: Extra inputs are not permitted"},
		{rule: "messages/empty-text", broken: list(`{"role":"user","content":""}`), kept: list(ask),
			text: "messages: text content blocks must be non-empty"},
		{rule: "messages/empty-text", broken: list(ask, `{"role":"assistant","content":" \n"}`, ask), kept: list(ask,
			`{"role":"assistant","content":" a"}`, ask),
			text: "messages: text content blocks must contain non-whitespace text"},
		{rule: "messages/empty-text", broken: list(ask) + `,"system":[{"type":"text","text":""}]`,
			kept: list(ask) + `,"system":"s"`,
			text: "system: text content blocks must be non-empty"},
		{rule: "messages/empty-text", broken: list(user(swap(cached, `"x"`, `""`))), kept: list(user(cached)),
			text: "messages.0.content.0.text: cache_control cannot be set for empty text blocks"},
		{rule: "messages/system", broken: list(ask) + `,"system":[{"type":"image","text":"x"}]`,
			kept: list(ask) + `,"system":[{"type":"text","text":"x"}]`,
			text: "system.0.type: Input should be 'text'"},
		{rule: "messages/tool-name", broken: swap(list(ask), `"f"`, `"f.g"`), kept: list(ask),
			text: "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"},
		{rule: "messages/tool-name", broken: swap(list(ask), `}}]`, `}},{"name":"f","input_schema":{}}]`),
			kept: swap(list(ask), `}}]`, `}},{"name":"g","input_schema":{}}]`),
			text: "tools: Tool names must be unique."},
		{rule: "messages/tools-needed", broken: swap(list(ask, use, result), tools, ""), kept: list(ask, use, result),
			text: "Requests which have `tool_use` or `tool_result` blocks must define tools."},
		{rule: "messages/use-id", broken: swap(list(ask, use, result), "t1", "t.1"), kept: swap(list(ask, use,
			result), "t1", strings.Repeat("t", 200)),
			text: "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"},
		{rule: "messages/use-input", broken: list(ask, swap(use, `{}`, `"{}"`), result), kept: list(ask, use, result),
			text: "messages.1.content.0.tool_use.input: Input should be a valid dictionary"},
		{rule: "messages/use-unique", broken: list(ask, use, result, use, result), kept: list(ask, use, result,
			swap(use, "t1", "t2"), swap(result, "t1", "t2")),
			text: "messages.3.content.0: `tool_use` ids must be unique"},
		{rule: "messages/result-orphan", broken: list(result), kept: list(ask, use, result),
			text: "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` " +
				"blocks: t1. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."},
		{rule: "messages/result-single", broken: list(ask, use, result, result), kept: list(ask, use, result, ask),
			text: "messages.3.content.0: each tool_use must have a single result. Found multiple `tool_result` " +
				"blocks with id: t1"},
		{rule: "messages/use-answered", broken: list(ask, use, ask), kept: list(ask, use, result),
			text: "messages.1: `tool_use` ids were found without `tool_result` blocks " +
				"immediately after: t1. Each `tool_use` block must have a corresponding `tool_result` block in the next " +
				"message."},
		{rule: "messages/use-answered", broken: list(ask, use, ask, result), kept: list(ask, use, result, ask),
			text: "messages.1: `tool_use` ids were found without `tool_result` blocks " +
				"immediately after: t1. Each `tool_use` block must have a corresponding `tool_result` block in the next " +
				"message."},
		{rule: "messages/result-content", broken: list(ask, use, swap(result, `"r"`, `[{"type":"tool_use"}]`)),
			kept: list(ask, use, swap(result, `,"content":"r"`, ``)),
			text: "messages.2.content.0.tool_result.content.0: Input tag 'tool_use' found using 'type' does not " +
				"match any of the expected tags: " +
				"'document', 'image', 'search_result', 'text', 'tool_reference'"},
		{rule: "messages/server-tools", broken: list(ask, says(search), ask), kept: list(ask, says(search, found,
			`{"type":"text","text":"a"}`), ask),
			text: "`web_search` tool use with id `srvtoolu_1` was found without a corresponding " +
				"`web_search_tool_result` block"},
		{rule: "messages/server-tools", broken: list(ask, says(found), ask), kept: list(ask, says(search, found), ask),
			text: "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: " +
				"srvtoolu_1."},
		{rule: "messages/tool-choice", model: "claude-opus-5-5", broken: list(ask) + `,"tool_choice":{"type":"any"}`,
			kept: list(ask) + `,"tool_choice":{"type":"auto"}`,
			text: `tool_choice: type "tool" and "any" are not supported for this model.`},
		{rule: "messages/breakpoints", broken: list(user(many(5, cached))), kept: list(user(many(4, cached))),
			text: "A maximum of 4 blocks with cache_control may be provided. Found 5."},
		{rule: "messages/breakpoints", broken: swap(list(user(many(3, cached)), use, swap(result, `"r"`,
			`[`+cached+`]`)), `{"name"`, `{"cache_control":{"type":"ephemeral"},"name"`),
			kept: list(user(many(3, cached)), use, swap(result, `"r"`, `[`+cached+`]`)), text: "A maximum of 4 " +
				"blocks with cache_control may be provided. Found 5."},
		{rule: "messages/ttl", broken: list(user(hour)) + `,"system":[` + cached + `]`,
			kept: list(user(cached)) + `,"system":[` + hour + `]`,
			text: "messages.0.content.0.text.cache_control.ttl: a ttl='1h' cache_control block must not come after a " +
				"ttl='5m' " +
				"cache_control block. Note that blocks are processed in the following order: `tools`, `system`, " +
				"`messages`."},
		{rule: "messages/cache-control", broken: list(user(swap(cached, "ephemeral", "forever"))),
			kept: list(user(cached)),
			text: `messages.0.content.0.text.cache_control: Input should be {"type": "ephemeral"} with ttl '5m' or '1h'`},
		{rule: "messages/image", broken: list(user(img(8001))), kept: list(user(img(8000))),
			text: "messages.0.content.0.image.source.base64: At least one of the image dimensions exceed max allowed " +
				"size: 8000 pixels"},
		{rule: "messages/image", broken: list(user(many(21, img(2001)))), kept: list(user(many(20, img(2001)))),
			text: "messages.0.content.0.image.source.base64: At least one of the image dimensions exceed max allowed " +
				"size for many-image requests: 2000 pixels"},
		{rule: "messages/image", model: "claude-haiku-4-5", broken: list(user(many(101, linked))),
			kept: list(user(many(100, linked))), text: "messages: too many images: 101 > 100"},
		{rule: "messages/thinking-type", model: "claude-opus-5-5",
			broken: list(ask) + `,"thinking":{"type":"disabled"}`, kept: list(ask) + `,"thinking":{"type":"adaptive"}`,
			text: `"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`},
		{rule: "messages/thinking-type", model: "claude-haiku-4-5",
			broken: list(ask) + `,"thinking":{"type":"adaptive"}`,
			kept:   list(ask) + `,"thinking":{"type":"enabled","budget_tokens":1024}`, text: "adaptive thinking is not " +
				"supported on this model"},
		{rule: "messages/block-binding", model: "claude-opus-5-5",
			broken: list(ask) + `,"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}`,
			kept:   list(ask) + `,"thinking":{"type":"adaptive"}`, text: "thinking.adaptive.block_binding: Extra " +
				"inputs are not permitted"},
		{rule: "messages/sampling", model: "claude-haiku-5-5", broken: list(ask) + `,"temperature":0.5`,
			kept: list(ask) + `,"temperature":1`,
			text: "temperature: not supported for this model"},
		{rule: "messages/thinking-empty", broken: list(ask, says(`{"type":"thinking","thinking":"","signature":""}`),
			ask), kept: list(ask, reply, ask),
			text: "messages.1.content.0.thinking: each thinking block must contain thinking"},
		{rule: "messages/compaction", broken: list(ask, says(signed("sum")), ask), kept: list(says(signed("sum")),
			ask), text: "messages.1.content.0: `compaction` block must be sent " +
			"first, in place of the messages it summarizes; remove those messages", code: "compaction_block_misplaced"},
		{rule: "messages/compaction", broken: list(says(signed("sum"), signed("sum")), ask),
			kept: list(says(signed("sum"), cached), ask),
			text: "messages.0.content.1: a request may hold one `compaction` block",
			code: "compaction_block_ambiguous"},
		{rule: "messages/compaction", broken: list(says(signed("other")), ask), kept: list(says(signed("sum")), ask),
			text: "messages.0.content.0: the `compaction` block's content was " +
				"changed", code: "compaction_content_mismatch"},
		{rule: "messages/compaction", broken: list(says(`{"type":"compaction","content":"sum","signature":"x"}`),
			ask), kept: list(ask, says(`{"type":"compaction","content":"sum"}`), ask),
			text: "messages.0.content.0: Invalid `signature` in `compaction` block",
			code: "compaction_signature_invalid"},
		{rule: "messages/manual-loop", model: "claude-haiku-4-5", broken: list(ask, use,
			result) + `,"thinking":{"type":"enabled","budget_tokens":1024}`,
			kept: list(ask, use, result, reply, ask) + `,"thinking":{"type":"enabled","budget_tokens":1024}`,
			text: "messages.1.content.0.type: Expected `thinking` or " +
				"`redacted_thinking`, but found `tool_use`. When thinking is enabled, a final `assistant` message " +
				"must start with a thinking block " +
				"(preceeding the lastmost set of `tool_use` and `tool_result` blocks)."},
		{rule: "messages/thinking", broken: list(ask,
			says(`{"type":"thinking","thinking":"hm","signature":"foreign"}`, cached), ask), kept: list(ask,
			says(cached), ask),
			text: "messages.1.content.0: Invalid `signature` in `thinking` block"},
		{rule: "messages/window", opts: []Option{As(Model{Window: 100})},
			broken: list(`{"role":"user","content":"` + strings.Repeat("word", 97) + `"}`),
			kept:   list(`{"role":"user","content":"` + strings.Repeat("word", 70) + `"}`), text: "prompt is too long: " +
				"117 tokens > 100 maximum"},
	}, request("claude-sonnet-5"))
}
