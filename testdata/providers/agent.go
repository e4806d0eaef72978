package providers

import (
	"encoding/json"
	"fmt"
)

// FromChat converts messages of Chat Completions to another format. Each gives one message, or one item for each call.
// The messages have only texts, calls and results, as recorders write them.
func FromChat(api API, messages []json.RawMessage) ([]json.RawMessage, error) {
	if api == Chat {
		return messages, nil
	}
	var out []json.RawMessage
	add := func(v map[string]any) { out = append(out, encode(v)) }
	for i, raw := range messages {
		m, err := read(raw)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		role, text, calls := m.str("role"), m.str("content"), objects(m.list("tool_calls"))
		switch {
		case role == "tool" && api == Messages:
			add(map[string]any{"role": "user", "content": []any{
				map[string]any{"type": "tool_result", "tool_use_id": m.str("tool_call_id"), "content": text}}})
		case role == "tool":
			add(map[string]any{"type": "function_call_output", "call_id": m.str("tool_call_id"), "output": text})
		case api == Responses:
			if text != "" || len(calls) == 0 {
				add(map[string]any{"role": role, "content": text})
			}
			for _, call := range calls {
				f := call.object("function")
				add(map[string]any{"type": "function_call", "call_id": call.str("id"), "name": f.str("name"),
					"arguments": f.str("arguments")})
			}
		case len(calls) == 0:
			add(map[string]any{"role": role, "content": text})
		default:
			var blocks []any
			if text != "" {
				blocks = append(blocks, map[string]any{"type": "text", "text": text})
			}
			for _, call := range calls {
				f := call.object("function")
				input, err := read([]byte(f.str("arguments")))
				if err != nil {
					return nil, fmt.Errorf("message %d: the arguments of %s: %w", i, f.str("name"), err)
				}
				blocks = append(blocks, map[string]any{"type": "tool_use", "id": call.str("id"), "name": f.str("name"),
					"input": map[string]any(input)})
			}
			add(map[string]any{"role": role, "content": blocks})
		}
	}
	return out, nil
}

// Body returns the request that an agent makes from a window: the unchanged messages, the system prompt if the API has
// a separate place for it, and tools by name.
func Body(api API, model string, messages []json.RawMessage, system json.RawMessage, tools []string) []byte {
	body := map[string]any{"model": model}
	var list []any
	for _, name := range tools {
		schema := map[string]any{"type": "object", "properties": map[string]any{}}
		switch api {
		case Chat:
			list = append(list, map[string]any{"type": "function", "function": map[string]any{"name": name,
				"parameters": schema}})
		case Responses:
			list = append(list, map[string]any{"type": "function", "name": name, "parameters": schema})
		case Messages:
			list = append(list, map[string]any{"name": name, "input_schema": schema})
		}
	}
	if list != nil {
		body["tools"] = list
	}
	if messages == nil {
		messages = []json.RawMessage{}
	}
	switch api {
	case Responses:
		body["input"], body["store"] = messages, false
	case Messages:
		body["max_tokens"] = 1024
		if len(system) > 0 && string(system) != "null" {
			body["system"] = system
		}
		fallthrough
	default:
		body["messages"] = messages
	}
	return encode(body)
}
