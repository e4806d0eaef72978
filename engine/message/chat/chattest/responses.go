package chattest

import (
	"errors"
	"fmt"
)

// responses checks items: each call is followed by its output, and a reasoning item is followed by the assistant's
// message or call that it belongs to.
func (r rules) responses(list []message) error {
	open := calls{}
	reasoning := false // the previous item was one
	for i, m := range list {
		kind := m.str("type")
		if kind == "" {
			kind = "message"
		}
		assistants := kind == "function_call" || kind == "reasoning" || kind == "message" &&
			m.str("role") == "assistant"
		if reasoning && !assistants {
			return fmt.Errorf("item %d: a reasoning item comes before a %s", i, kind)
		}
		if !assistants && kind != "function_call_output" {
			if err := open.end(false); err != nil {
				return fmt.Errorf("item %d: a %s comes while %w", i, kind, err)
			}
		}
		if err := responsesItem(m, kind, open); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		reasoning = kind == "reasoning"
	}
	if reasoning {
		return errors.New("a reasoning item comes last")
	}
	return open.end(r.openTail)
}

func responsesItem(m message, kind string, open calls) error {
	switch kind {
	case "message":
		switch m.str("role") {
		case "user", "assistant", "system", "developer":
			return responsesContent(m, "content")
		}
		return fmt.Errorf("the role %q is unknown", m.str("role"))
	case "function_call":
		if m.str("name") == "" {
			return errors.New("a call has no name")
		}
		if _, ok := m["arguments"].(string); !ok && m["arguments"] != nil {
			return errors.New("a call's arguments are no string")
		}
		return open.open(m.str("call_id"))
	case "function_call_output":
		if err := open.answer(m.str("call_id")); err != nil {
			return err
		}
		return responsesContent(m, "output")
	case "reasoning":
		return nil
	}
	return fmt.Errorf("the item type %q is unknown", kind)
}

func responsesContent(m message, name string) error {
	switch m[name].(type) {
	case nil, string:
		return nil
	}
	_, err := m.parts(name)
	return err
}
