package providers

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Reply is the server's answer to a request that it does not refuse.
type Reply struct {
	Parts []Part
	Stop  string   // the provider's stop reason; if empty, it is derived from the parts
	Fail  *Refusal // sent instead of the reply, before a stream begins
	Break *Refusal // sent within the stream, after the parts and instead of the end; a plain answer consists of this error
}

// Part is one part of a reply. Exactly one of its fields is set.
type Part struct {
	Text     string
	Thinking string // Messages: a thinking block; Responses: a reasoning item; Chat: reasoning_content
	Omitted  bool   // thinking whose text is not shown
	Redacted bool   // Messages: a redacted_thinking block; other APIs: same as Omitted
	Call     *Call
}

// Call is a tool call. If the id is empty, the server makes one.
type Call struct{ ID, Name, Arguments string }

// Say returns a reply with a text.
func Say(text string) Reply { return Reply{Parts: []Part{{Text: text}}} }

// Use returns a reply with a tool call.
func Use(name, arguments string) Reply {
	return Reply{Parts: []Part{{Call: &Call{Name: name, Arguments: arguments}}}}
}

// Think adds thinking before a reply's parts.
func Think(text string, then Reply) Reply {
	then.Parts = append([]Part{{Thinking: text, Omitted: text == ""}}, then.Parts...)
	return then
}

func (p Part) thinks() bool { return p.Thinking != "" || p.Omitted || p.Redacted }

// These are the refusals that a script can answer with. Sources: D/errors, D/rate-limits, continue#11472, codex#88.

// Overloaded returns Anthropic's 529, which also occurs within streams.
func Overloaded() *Refusal {
	return &Refusal{Rule: "script", Status: 529, Type: "overloaded_error", Message: "Overloaded"}
}

// RateLimited returns the API's 429.
func RateLimited(api API) *Refusal {
	if api == Messages { // notes
		return &Refusal{Rule: "script", Status: 429, Type: "rate_limit_error", Message: "This request would exceed " +
			"your " +
			"organization's rate limit of 30,000 input tokens per minute (org: test, model: test). For details, " +
			"refer to: " +
			"https://docs.claude.com/en/api/rate-limits."}
	}
	return &Refusal{Rule: "script", Status: 429, Type: "tokens", Code: "rate_limit_exceeded", Message: "Rate limit " +
		"reached " +
		"for gpt-4.1 in organization org-test on tokens per min (TPM): Limit 30000, Used 18928, Requested 11159. " +
		"Please try " +
		"again in 174ms. Visit https://platform.openai.com/account/rate-limits to learn more."}
}

// OutOfQuota returns the 429 with which OpenAI reports an exceeded quota. Waiting does not help.
func OutOfQuota() *Refusal {
	return &Refusal{Rule: "script", Status: 429, Type: "insufficient_quota", Code: "insufficient_quota",
		Message: "You exceeded your current quota, please check your plan and billing details."}
}

// ServerError returns the API's 500.
func ServerError(api API) *Refusal {
	if api == Messages {
		return &Refusal{Rule: "script", Status: 500, Type: "api_error", Message: "Internal server error"}
	}
	return &Refusal{Rule: "script", Status: 500, Type: "server_error", Code: "server_error",
		Message: "The server had an error while processing your request. Sorry about that!"}
}

// answer is a complete reply, from which both the plain and the streamed form are made.
type answer struct {
	api     API
	id      string // unique on its server
	model   string
	created int64
	stop    string
	items   []map[string]any // Messages: content blocks; Responses: output items; Chat: only the message
	usage   map[string]any
	dropped []Transformation
	breaks  *Refusal
	stream  bool
	bill    bool           // Chat: the stream reports usage
	repeats map[string]any // Responses: members of the request that are repeated in the answer
}

// ids makes consecutive ids.
type ids struct{ next int }

func (n *ids) take(prefix string) string {
	n.next++
	return fmt.Sprintf("%s%016x", prefix, n.next)
}

// answer makes an answer of Chat Completions.
func (r *chatRequest) answer(reply Reply, n *ids) *answer {
	message := map[string]any{"role": "assistant", "content": nil, "refusal": nil}
	out, stop := 0, "stop"
	var calls []any
	for _, p := range reply.Parts {
		switch {
		case p.thinks():
			out += r.count(p.Thinking)
			if r.model.ReasoningContent {
				message["reasoning_content"] = p.Thinking
			}
		case p.Call != nil:
			id := p.Call.ID
			if id == "" {
				id = n.take("call_")
			}
			calls = append(calls, map[string]any{"id": id, "type": "function",
				"function": map[string]any{"name": p.Call.Name, "arguments": p.Call.Arguments}})
			out += r.count(p.Call.Name) + r.count(p.Call.Arguments)
			stop = "tool_calls"
		default:
			text, _ := message["content"].(string)
			message["content"] = text + p.Text
			out += r.count(p.Text)
		}
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	in := r.tokens()
	return &answer{api: Chat, id: n.take("chatcmpl-"), model: r.model.ID, stop: either(reply.Stop, stop),
		items: []map[string]any{message}, breaks: reply.Break, stream: r.body.flag("stream"),
		bill: r.body.object("stream_options").flag("include_usage"),
		usage: map[string]any{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out,
			"prompt_tokens_details": map[string]any{"cached_tokens": 0, "audio_tokens": 0}}}
}

// answer makes an answer of Responses. The ids of items after a reasoning item contain its id.
func (r *responsesRequest) answer(reply Reply, n *ids) *answer {
	state, made, out := r.end, "", 0
	var items []map[string]any
	add := func(item map[string]any, prefix string) {
		id := n.take(prefix)
		if made != "" {
			id += "_" + made
		}
		item["id"], item["status"] = id, "completed"
		items = append(items, item)
		state = digest(state, canonical(item))
	}
	for _, p := range reply.Parts {
		switch {
		case p.thinks():
			made = n.take("rs_")
			items = append(items, r.reason(state, made, p.Thinking))
			out += r.count(p.Thinking)
		case p.Call != nil:
			id := p.Call.ID
			if id == "" {
				id = n.take("call_")
			}
			add(map[string]any{"type": "function_call", "call_id": id, "name": p.Call.Name,
				"arguments": p.Call.Arguments}, "fc_")
			out += r.count(p.Call.Name) + r.count(p.Call.Arguments)
		default:
			add(map[string]any{"type": "message", "role": "assistant", "content": []any{
				map[string]any{"type": "output_text", "text": p.Text, "annotations": []any{}}}}, "msg_")
			out += r.count(p.Text)
		}
	}
	in := r.tokens()
	// oa response: tools and tool_choice are those of the request.
	repeats := map[string]any{"tools": []any{}, "tool_choice": "auto"}
	for name := range repeats {
		if r.body.has(name) {
			repeats[name] = r.body[name]
		}
	}
	return &answer{api: Responses, repeats: repeats, id: n.take("resp_"), model: r.model.ID, stop: either(reply.Stop, "completed"),
		items: items, breaks: reply.Break, stream: r.body.flag("stream"), dropped: r.removed,
		usage: map[string]any{"input_tokens": in, "output_tokens": out,
			"total_tokens": in + out, "input_tokens_details": map[string]any{"cached_tokens": 0},
			"output_tokens_details": map[string]any{"reasoning_tokens": 0}}}
}

// answer makes an answer of Messages. Thinking is bound to the blocks before it in the answer, too.
func (r *messagesRequest) answer(reply Reply, n *ids) *answer {
	p, out, stop := r.end, 0, "end_turn"
	var blocks []map[string]any
	for _, part := range reply.Parts {
		var b map[string]any
		switch {
		case part.Redacted:
			b = p.redact(r.model)
		case part.thinks():
			b = p.think(r.model, part.Thinking, part.Omitted)
			out += r.count(part.Thinking)
		case part.Call != nil:
			id := part.Call.ID
			if id == "" {
				id = n.take("toolu_")
			}
			input, err := read([]byte(part.Call.Arguments))
			if err != nil {
				panic("providers: arguments of " + part.Call.Name + " are no JSON object: " + part.Call.Arguments)
			}
			b = map[string]any{"type": "tool_use", "id": id, "name": part.Call.Name, "input": map[string]any(input)}
			out += r.count(part.Call.Name) + r.count(part.Call.Arguments)
			stop = "tool_use"
		default:
			b = map[string]any{"type": "text", "text": part.Text}
			out += r.count(part.Text)
		}
		blocks = append(blocks, b)
		p.add("assistant", b)
	}
	if c := r.body.object("compaction"); c != nil {
		blocks, stop = []map[string]any{r.compact(reply)}, "compaction"
	}
	return &answer{api: Messages, id: n.take("msg_"), model: r.model.ID, stop: either(reply.Stop, stop), items: blocks,
		breaks: reply.Break, stream: r.body.flag("stream"), dropped: r.dropped,
		usage: map[string]any{"input_tokens": r.tokens(), "output_tokens": out,
			"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}}
}

// compact returns the signed block that replaces all messages of a request (ODC). The reply's texts are the summary.
func (r *messagesRequest) compact(reply Reply) map[string]any {
	text := ""
	for _, p := range reply.Parts {
		text += p.Text
	}
	return map[string]any{"type": "compaction", "content": text,
		"signature": seal(condensed{Base: r.base(), State: r.end.state, Content: digest(text)})}
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// plain returns the whole answer as one JSON object.
func (a *answer) plain() []byte {
	switch a.api {
	case Chat:
		return encode(map[string]any{"id": a.id, "object": "chat.completion", "created": a.created, "model": a.model,
			"choices": []any{map[string]any{"index": 0, "message": a.items[0], "logprobs": nil,
				"finish_reason": a.stop}},
			"usage": a.usage})
	case Responses:
		return encode(a.response(a.stop, a.items, a.usage))
	}
	out := a.message(a.items)
	out["stop_reason"], out["usage"] = a.stop, a.usage
	return encode(out)
}

// response returns the response object of Responses, with a status.
func (a *answer) response(status string, items []map[string]any, usage map[string]any) map[string]any {
	if items == nil {
		items = []map[string]any{}
	}
	out := map[string]any{"id": a.id, "object": "response", "created_at": a.created, "status": status, "model": a.model,
		"output": items, "error": nil, "incomplete_details": nil, "usage": usage}
	if status != "completed" && status != "in_progress" && status != "failed" { // the reason of an incomplete one
		out["status"], out["incomplete_details"] = "incomplete", map[string]any{"reason": status}
	}
	if len(a.dropped) > 0 {
		out["input_transformations"] = a.dropped
	}
	maps.Copy(out, a.repeats)
	return out
}

// message returns the message object of Messages, without its end.
func (a *answer) message(blocks []map[string]any) map[string]any {
	if blocks == nil {
		blocks = []map[string]any{}
	}
	out := map[string]any{"id": a.id, "type": "message", "role": "assistant", "model": a.model, "content": blocks,
		"stop_reason": nil, "stop_sequence": nil}
	if len(a.dropped) > 0 {
		out["input_transformations"] = a.dropped
	}
	return out
}

// clone copies a value through JSON.
func clone(v map[string]any) map[string]any {
	var out map[string]any
	if err := json.Unmarshal(encode(v), &out); err != nil {
		panic(err)
	}
	return out
}
