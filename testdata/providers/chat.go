package providers

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// chatRequest is a request to Chat Completions.
type chatRequest struct {
	*options
	body     object
	model    *Model
	messages []object
}

func readChat(body []byte, o *options) (*chatRequest, *Refusal) {
	fields, refusal := readOpenAI(body)
	if refusal != nil {
		return nil, refusal
	}
	m, refusal := o.modelOf(Chat, fields)
	if refusal != nil {
		refusal.Rule = "chat/model"
		return nil, refusal
	}
	r := &chatRequest{o, fields, m, objects(fields.list("messages"))}
	return r, apply(chatRules, r)
}

// readOpenAI decodes a body. The text of its refusal is unquoted. A lone surrogate is refused as bad JSON.
func readOpenAI(body []byte) (object, *Refusal) {
	fields, err := read(body)
	if err != nil {
		refusal := refuse("We could not parse the JSON body of your request. (HINT: This likely means you aren't " +
			"using " +
			"your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid " +
			"JSON.)")
		refusal.Rule = "openai/json"
		return nil, refusal
	}
	return fields, nil
}

// chatRules are the requests that Chat Completions refuses. oa are the types of openai 3.54.0.
var chatRules = []rule[*chatRequest]{
	// oa completion_create_params; the text of langchain_dart#712, Easy-open-ai#38.
	{"chat/argument", func(r *chatRequest) *Refusal {
		switch extra := r.body.unknown(chatArguments...); len(extra) {
		case 0:
			return nil
		case 1:
			return refuse("Unrecognized request argument supplied: %s", extra[0])
		default:
			return refuse("Unrecognized request arguments supplied: %s", strings.Join(extra, ", "))
		}
	}},
	// Unquoted: the list is required (oa) and not empty.
	{"chat/empty", func(r *chatRequest) *Refusal {
		if !r.body.has("messages") {
			return refuse("Missing required parameter: 'messages'.").at("messages").coded("missing_required_parameter")
		}
		if len(r.messages) == 0 {
			return emptyArray("messages")
		}
		return nil
	}},
	// genkit#6303, docker-agent#4162, bolna#1019: function tools on gpt-6 models.
	{"chat/gpt6-tools", func(r *chatRequest) *Refusal {
		if r.model.NoChatTools && len(r.body.list("tools")) > 0 {
			return refuse("Function tools with reasoning_effort are not supported for %s in /v1/chat/completions. To "+
				"use "+
				"function tools, use /v1/responses or set reasoning_effort to 'none'.",
				r.model.ID).at("reasoning_effort")
		}
		return nil
	}},
	// bolna#1019: max_tokens, stop and a temperature other than 1 on gpt-6 models. Unquoted.
	{"chat/gpt6-parameters", func(r *chatRequest) *Refusal {
		if !r.model.NoOldParameters {
			return nil
		}
		for _, key := range []string{"max_tokens", "stop"} {
			if r.body.has(key) {
				return refuse("Unsupported parameter: '%s' is not supported with this model.", key).at("%s", key).
					coded("unsupported_parameter")
			}
		}
		if t, ok := r.body.number("temperature"); ok && t != 1 {
			return refuse("Unsupported value: 'temperature' does not support %v with this model. Only the default (1) "+
				"value is supported.", t).at("temperature").coded("unsupported_value")
		}
		return nil
	}},
	// zed#32946, Tools4AI#16: at most 128 tools.
	{"chat/tools", func(r *chatRequest) *Refusal {
		return maxLength("tools", len(r.body.list("tools")), 128,
			"array")
	}},
	// oa function_definition: names of tools.
	{"chat/tool-name", func(r *chatRequest) *Refusal {
		for i, tool := range objects(r.body.list("tools")) {
			at := fmt.Sprintf("tools[%d].function.name", i)
			if refusal := toolName(at, tool.object("function").str("name")); refusal != nil {
				return refusal
			}
		}
		return nil
	}},
	// oa completion_create_params: stop has at most 4 members, metadata at most 16.
	{"chat/bounds", func(r *chatRequest) *Refusal {
		if refusal := maxLength("stop", len(r.body.list("stop")), 4, "array"); refusal != nil {
			return refusal
		}
		if n := len(r.body.object("metadata")); n > 16 {
			return refuse("Invalid 'metadata': too many properties. Expected an object with at most 16 properties, "+
				"but "+
				"got an object with %d properties instead.", n).at("metadata").coded("object_above_max_properties")
		}
		return nil
	}},
	// oa chat message params: the roles. Unquoted.
	{"chat/role", eachMessage(func(r *chatRequest, i int, m object) *Refusal {
		if slices.Contains([]string{"system", "assistant", "user", "function", "tool", "developer"}, m.str("role")) {
			return nil
		}
		return invalidValue(m.str("role"), "'system', 'assistant', 'user', 'function', 'tool', and 'developer'").
			at("messages[%d].role", i)
	})},
	// oa chat message params; the text of transitive-bullshit/agentic#531 (2023, second-hand). How the server treats
	// unknown members today is not documented, so windows should have none.
	{"chat/message-key", eachMessage(func(r *chatRequest, i int, m object) *Refusal {
		allowed := append([]string{"role", "content", "name"}, chatMembers[m.str("role")]...)
		if r.model.ReasoningContent {
			allowed = append(allowed, "reasoning_content")
		}
		if extra := m.unknown(allowed...); len(extra) > 0 {
			return refuse("Additional properties are not allowed ('%s' was unexpected) - 'messages.%d'", extra[0], i)
		}
		return nil
	})},
	// vercel/ai#13744, llama_index#17555: null content without calls.
	{"chat/null-content", eachMessage(func(r *chatRequest, i int, m object) *Refusal {
		if !m.has("content") && !m.has("tool_calls") && !m.has("function_call") && !m.has("refusal") &&
			!m.has("audio") {
			return refuse("Invalid value for 'content': expected a string, got null.").at("messages.[%d].content", i)
		}
		return nil
	})},
	// oa chat message params: which parts each role may have, and their form. Unquoted.
	{"chat/part", eachMessage(chatParts)},
	// OVIS: at most 1,500 images; PNG, JPEG, WebP and still GIF. Unquoted.
	{"chat/image", func(r *chatRequest) *Refusal {
		var urls []string
		for _, m := range r.messages {
			for _, p := range objects(m.list("content")) {
				if p.str("type") == "image_url" {
					urls = append(urls, p.object("image_url").str("url"))
				}
			}
		}
		return openAIImages("messages", urls)
	}},
	// clio#41, bluebox#31 (second-hand): a text has at most 10,485,760 characters.
	{"chat/text-length", eachMessage(func(r *chatRequest, i int, m object) *Refusal {
		return maxLength(fmt.Sprintf("messages[%d].content", i), len(m.str("content")), 10_485_760, "string")
	})},
	// oa chat_completion_message_tool_call_param: the form of calls. Unquoted.
	{"chat/tool-calls", eachCall(func(r *chatRequest, at string, call object) *Refusal {
		if call == nil {
			return emptyArray(at)
		}
		kind := call.str("type")
		if kind != "function" && kind != "custom" {
			return invalidValue(kind, "'function' and 'custom'").at("%s.type", at)
		}
		if kind == "custom" {
			return nil
		}
		return isString(at+".function.arguments", call.object("function")["arguments"])
	})},
	// vercel/ai#5171, agno#5382: a call id has at most 40 characters.
	{"chat/call-id-length", eachCall(func(r *chatRequest, at string, call object) *Refusal {
		return maxLength(at+".id", len(call.str("id")), 40, "string")
	})},
	// oa function_definition: names in calls.
	{"chat/call-name", eachCall(func(r *chatRequest, at string, call object) *Refusal {
		if call.str("type") == "custom" {
			return toolName(at+".custom.name", call.object("custom").str("name"))
		}
		return toolName(at+".function.name", call.object("function").str("name"))
	})},
	// eca#233: Mistral's call ids.
	{"chat/nine", eachCall(func(r *chatRequest, at string, call object) *Refusal {
		if id := call.str("id"); r.model.NineCallIDs && !nine.MatchString(id) {
			return refuse("Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", id).coded("3280")
		}
		return nil
	})},
	// GCMP#120 (second-hand): MiniMax refuses repeated ids. OpenAI documents nothing.
	{"chat/unique", func(r *chatRequest) *Refusal {
		seen := map[string]bool{}
		return eachCall(func(r *chatRequest, at string, call object) *Refusal {
			if id := call.str("id"); r.model.UniqueCallIDs && seen[id] {
				return refuse("invalid params, duplicate tool_call id: %s", id)
			}
			seen[call.str("id")] = true
			return nil
		})(r)
	}},
	// sdcb/chats#132, CLIProxyAPI#2798 and morphic#136, smarter#264: results follow their calls immediately.
	{"chat/pairs", chatPairs},
	// opencode#24722, api-docs.deepseek.com thinking_mode: the client sends reasoning_content back with tool calls.
	{"chat/reasoning-content", eachMessage(func(r *chatRequest, i int, m object) *Refusal {
		if r.model.ReasoningContent && len(m.list("tool_calls")) > 0 && !m.has("reasoning_content") {
			return refuse("The `reasoning_content` in the thinking mode must be passed back to the API.")
		}
		return nil
	})},
	// archi#497: more tokens than the window.
	{"chat/window", func(r *chatRequest) *Refusal {
		if n := r.tokens(); r.model.Window > 0 && n > r.model.Window {
			return refuse("Input tokens exceed the configured limit of %d tokens. Your messages resulted in %d "+
				"tokens. "+
				"Please reduce the length of the messages.", r.model.Window,
				n).at("messages").coded("context_length_exceeded")
		}
		return nil
	}},
}

var (
	nine        = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
	chatMembers = map[string][]string{"assistant": {"refusal", "audio", "tool_calls", "function_call"},
		"tool": {"tool_call_id"}}
	chatArguments = []string{"messages", "model", "audio", "frequency_penalty", "function_call", "functions",
		"logit_bias",
		"logprobs", "max_completion_tokens", "max_tokens", "metadata", "modalities", "n", "parallel_tool_calls",
		"prediction",
		"presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort",
		"response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options",
		"temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options"}
)
