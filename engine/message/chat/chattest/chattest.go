// Package chattest checks windows against the providers' documentation of their formats. It parses the JSON itself and
// shares no code with the renderer, so that it cannot repeat the renderer's mistakes.
package chattest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// Option relaxes a rule.
type Option func(*rules)

type rules struct{ openTail bool }

// AllowOpenTail permits calls of the last atom without results.
func AllowOpenTail(r *rules) { r.openTail = true }

// Validate returns the first rule of the format that the messages break, or nil. messages is the JSON array sent to the
// provider, and system the system prompt sent with it. A window without messages is valid, because the caller may add
// some.
func Validate(f chat.Format, messages []byte, system string, opts ...Option) error {
	var r rules
	for _, o := range opts {
		o(&r)
	}
	if !utf8.Valid(messages) || !utf8.ValidString(system) {
		return errors.New("not valid UTF-8")
	}
	if system != "" && f != chat.AnthropicMessages {
		return fmt.Errorf("%s has no system prompt beside the messages", f)
	}
	if err := noDuplicateNames(messages); err != nil {
		return err
	}
	var list []message
	d := json.NewDecoder(bytes.NewReader(messages))
	d.UseNumber()
	if err := d.Decode(&list); err != nil {
		return fmt.Errorf("not an array of objects: %w", err)
	}
	for i, m := range list {
		if err := noOwnFields(m); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	switch f {
	case chat.OpenAIChat:
		return r.openai(list)
	case chat.AnthropicMessages:
		return r.anthropic(list)
	case chat.OpenAIResponses:
		return r.responses(list)
	}
	return fmt.Errorf("%q has no messages", f)
}

// message is a decoded JSON object.
type message map[string]any

// str returns a string field, or "" if it is not a string.
func (m message) str(name string) string {
	s, _ := m[name].(string)
	return s
}

// object returns an object field, or nil if it is not an object.
func (m message) object(name string) message {
	o, _ := m[name].(map[string]any)
	return o
}

// parts returns an array field as objects.
func (m message) parts(name string) ([]message, error) {
	list, ok := m[name].([]any)
	if !ok {
		return nil, fmt.Errorf("%s is no array", name)
	}
	out := make([]message, len(list))
	for i, v := range list {
		o, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d] is no object", name, i)
		}
		if out[i] = o; out[i].str("type") == "" {
			return nil, fmt.Errorf("%s[%d] has no type", name, i)
		}
	}
	return out, nil
}

func noOwnFields(m message) error {
	for _, name := range []string{
		"agent", "delegation_id", "reasoning", "tags", "metadata", "created_at", "from_agent", "to_agent",
	} {
		if _, ok := m[name]; ok {
			return fmt.Errorf("the field %s is Mneme's own", name)
		}
	}
	if m.str("type") == "a2a" {
		return errors.New("the type a2a is Mneme's own")
	}
	return nil
}

// noDuplicateNames checks the messages' own fields for duplicate names, which parsers treat differently.
func noDuplicateNames(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	var names []map[string]bool // of the open objects; nil for an array
	expectName := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not valid JSON: %w", err)
		}
		depth := len(names)
		switch token {
		case json.Delim('{'):
			names = append(names, map[string]bool{})
		case json.Delim('['):
			names = append(names, nil)
		case json.Delim('}'), json.Delim(']'):
			names = names[:depth-1]
		default:
			if expectName {
				name := token.(string)
				if depth == 2 && names[1][name] { // [ { : deeper objects may be a tool's own data
					return fmt.Errorf("the name %q appears twice in one message", name)
				}
				names[depth-1][name] = true
				expectName = false
				continue
			}
		}
		expectName = len(names) > 0 && names[len(names)-1] != nil
	}
}

// calls are the calls of one message that wait for their results.
type calls map[string]bool

func (c calls) open(id string) error {
	if id == "" {
		return errors.New("a call has no id")
	}
	if c[id] {
		return fmt.Errorf("the call id %q appears twice", id)
	}
	c[id] = true
	return nil
}

func (c calls) answer(id string) error {
	if !c[id] {
		return fmt.Errorf("the result for %q answers no open call", id)
	}
	delete(c, id)
	return nil
}

// end reports the calls that remain open.
func (c calls) end(allowed bool) error {
	if len(c) > 0 && !allowed {
		return fmt.Errorf("%d calls are not answered", len(c))
	}
	return nil
}
