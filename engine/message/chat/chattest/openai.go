package chattest

import (
	"errors"
	"fmt"
)

// openai checks a chat completion: the tool messages that answer the calls of an assistant message directly follow it,
// one per call.
func (r rules) openai(list []message) error {
	open := calls{}
	for i, m := range list {
		role := m.str("role")
		if role != "tool" {
			if err := open.end(false); err != nil {
				return fmt.Errorf("message %d: a %s message comes while %w", i, role, err)
			}
		}
		if err := openaiMessage(m, role, open); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return open.end(r.openTail)
}

func openaiMessage(m message, role string, open calls) error {
	if err := openaiContent(m, role); err != nil {
		return err
	}
	switch role {
	case "system", "developer", "user":
		return nil
	case "tool":
		return open.answer(m.str("tool_call_id"))
	case "assistant":
		return openaiCalls(m, open)
	}
	return fmt.Errorf("the role %q is unknown", role)
}

func openaiContent(m message, role string) error {
	switch content := m["content"].(type) {
	case nil, string:
		return nil
	case []any:
		_ = content
	default:
		return errors.New("content is neither a string nor an array")
	}
	parts, err := m.parts("content")
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, ok := p["text"].(string); p.str("type") == "text" && !ok {
			return errors.New("a text part has no text")
		}
		if role != "user" && p.str("type") == "input_text" {
			return errors.New("a part of another format")
		}
	}
	return nil
}

func openaiCalls(m message, open calls) error {
	if m["tool_calls"] == nil {
		return nil
	}
	list, ok := m["tool_calls"].([]any)
	if !ok {
		return errors.New("tool_calls is no array")
	}
	for _, v := range list {
		call, _ := v.(map[string]any)
		c := message(call)
		kind, arguments := "function", "arguments"
		if c.str("type") == "custom" {
			kind, arguments = "custom", "input"
		}
		if c.object(kind).str("name") == "" {
			return errors.New("a call has no name")
		}
		if v := c.object(kind)[arguments]; v != nil {
			if _, ok := v.(string); !ok {
				return errors.New("a call's arguments are no string")
			}
		}
		if err := open.open(c.str("id")); err != nil {
			return err
		}
	}
	return nil
}
