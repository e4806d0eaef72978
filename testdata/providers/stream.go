package providers

import "strings"

// event is one server-sent event. Events of Chat Completions have no name.
type event struct {
	name string
	data []byte
}

// pieces splits a text as streams do. An empty text has no pieces.
func pieces(text string) []string {
	const size = 16
	var out []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// events returns an answer as a stream. A break comes after the parts and ends the stream.
func (a *answer) events() []event {
	switch a.api {
	case Chat:
		return a.chatEvents()
	case Responses:
		return a.responsesEvents()
	}
	return a.messagesEvents()
}

// chatEvents returns the events as oa and its _streaming.py read them.
func (a *answer) chatEvents() []event {
	var out []event
	send := func(choices []any, usage any) {
		chunk := map[string]any{"id": a.id, "object": "chat.completion.chunk", "created": a.created, "model": a.model,
			"choices": choices}
		if a.bill {
			chunk["usage"] = usage
		}
		out = append(out, event{"", encode(chunk)})
	}
	delta := func(d map[string]any, finish any) {
		send([]any{map[string]any{"index": 0, "delta": d, "logprobs": nil, "finish_reason": finish}}, nil)
	}
	message := object(a.items[0])
	delta(map[string]any{"role": "assistant", "content": ""}, nil)
	for _, text := range pieces(message.str("reasoning_content")) {
		delta(map[string]any{"reasoning_content": text}, nil)
	}
	for _, text := range pieces(message.str("content")) {
		delta(map[string]any{"content": text}, nil)
	}
	for i, call := range objects(message.list("tool_calls")) {
		function := call.object("function")
		delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": call.str("id"), "type": "function",
			"function": map[string]any{"name": function.str("name"), "arguments": ""}}}}, nil)
		for _, text := range pieces(function.str("arguments")) {
			delta(map[string]any{"tool_calls": []any{map[string]any{"index": i,
				"function": map[string]any{"arguments": text}}}}, nil)
		}
	}
	if a.breaks != nil {
		return append(out, event{"", a.breaks.body(Chat, "")})
	}
	delta(map[string]any{}, a.stop)
	if a.bill {
		send([]any{}, a.usage)
	}
	return append(out, event{"", []byte("[DONE]")})
}

// responsesEvents returns the response stream events of oa: numbered, and without a [DONE].
func (a *answer) responsesEvents() []event {
	var out []event
	send := func(name string, fields map[string]any) {
		fields["type"], fields["sequence_number"] = name, len(out)
		out = append(out, event{name, encode(fields)})
	}
	send("response.created", map[string]any{"response": a.response("in_progress", nil, nil)})
	send("response.in_progress", map[string]any{"response": a.response("in_progress", nil, nil)})
	for i, item := range a.items {
		o := object(item)
		at := func(fields map[string]any) map[string]any {
			fields["output_index"], fields["item_id"] = i, o.str("id")
			return fields
		}
		begun := clone(item)
		switch kind(o) {
		case "message":
			begun["content"], begun["status"] = []any{}, "in_progress"
		case "function_call":
			begun["arguments"], begun["status"] = "", "in_progress"
		case "reasoning":
			begun["summary"], begun["encrypted_content"] = []any{}, "" // encrypted_content comes with .done (notes)
		}
		send("response.output_item.added", map[string]any{"output_index": i, "item": begun})
		switch kind(o) {
		case "message":
			part := asObject(o.list("content")[0])
			empty := map[string]any{"type": "output_text", "text": "", "annotations": []any{}}
			send("response.content_part.added", at(map[string]any{"content_index": 0, "part": empty}))
			for _, text := range pieces(part.str("text")) {
				send("response.output_text.delta", at(map[string]any{"content_index": 0, "delta": text,
					"logprobs": []any{}}))
			}
			send("response.output_text.done", at(map[string]any{"content_index": 0, "text": part.str("text"),
				"logprobs": []any{}}))
			send("response.content_part.done", at(map[string]any{"content_index": 0, "part": part}))
		case "function_call":
			for _, text := range pieces(o.str("arguments")) {
				send("response.function_call_arguments.delta", at(map[string]any{"delta": text}))
			}
			send("response.function_call_arguments.done", at(map[string]any{"arguments": o.str("arguments"),
				"name": o.str("name")}))
		case "reasoning":
			for j, part := range objects(o.list("summary")) {
				empty := map[string]any{"type": "summary_text", "text": ""}
				send("response.reasoning_summary_part.added", at(map[string]any{"summary_index": j, "part": empty}))
				for _, text := range pieces(part.str("text")) {
					send("response.reasoning_summary_text.delta", at(map[string]any{"summary_index": j, "delta": text}))
				}
				send("response.reasoning_summary_text.done", at(map[string]any{"summary_index": j,
					"text": part.str("text")}))
				send("response.reasoning_summary_part.done", at(map[string]any{"summary_index": j, "part": part}))
			}
		}
		send("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	if a.breaks != nil {
		send("error", map[string]any{"code": orNull(a.breaks.Code), "message": a.breaks.Message,
			"param": orNull(a.breaks.Param)})
		failed := a.response("failed", a.items, nil)
		failed["error"] = map[string]any{"code": either(a.breaks.Code, "server_error"), "message": a.breaks.Message}
		send("response.failed", map[string]any{"response": failed})
		return out
	}
	end := a.response(a.stop, a.items, a.usage)
	status, _ := end["status"].(string)
	send("response."+status, map[string]any{"response": end})
	return out
}

// messagesEvents returns the events that D/streaming describes, with one ping.
func (a *answer) messagesEvents() []event {
	var out []event
	send := func(name string, fields map[string]any) {
		fields["type"] = name
		out = append(out, event{name, encode(fields)})
	}
	begun := a.message(nil)
	usage := object(a.usage)
	begun["usage"] = map[string]any(usage.without("output_tokens"))
	begun["usage"].(map[string]any)["output_tokens"] = 1
	send("message_start", map[string]any{"message": begun})
	send("ping", map[string]any{})
	for i, item := range a.items {
		b, start := object(item), clone(item)
		var deltas []map[string]any
		split := func(kind, member, text string) {
			for _, piece := range pieces(text) {
				deltas = append(deltas, map[string]any{"type": kind, member: piece})
			}
		}
		switch b.str("type") {
		case "text":
			start["text"] = ""
			split("text_delta", "text", b.str("text"))
		case "thinking": // without thinking_delta if the text is not shown
			start["thinking"], start["signature"] = "", ""
			split("thinking_delta", "thinking", b.str("thinking"))
			deltas = append(deltas, map[string]any{"type": "signature_delta", "signature": b.str("signature")})
		case "tool_use":
			start["input"] = map[string]any{}
			deltas = append(deltas, map[string]any{"type": "input_json_delta", "partial_json": ""})
			split("input_json_delta", "partial_json", string(encode(b["input"])))
		case "compaction":
			start["content"] = nil
			deltas = append(deltas, map[string]any{"type": "compaction_delta", "content": b.str("content")})
		}
		send("content_block_start", map[string]any{"index": i, "content_block": start})
		for _, d := range deltas {
			send("content_block_delta", map[string]any{"index": i, "delta": d})
		}
		send("content_block_stop", map[string]any{"index": i})
	}
	if a.breaks != nil {
		return append(out, event{"error", a.breaks.body(Messages, "")})
	}
	send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": a.stop, "stop_sequence": nil},
		"usage": a.usage})
	send("message_stop", map[string]any{})
	return out
}

// wire returns the bytes of the stream.
func wire(events []event) string {
	var b strings.Builder
	for _, e := range events {
		if e.name != "" {
			b.WriteString("event: " + e.name + "\n")
		}
		b.WriteString("data: " + string(e.data) + "\n\n")
	}
	return b.String()
}
