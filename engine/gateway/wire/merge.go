package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// object is a message of Chat Completions under construction.
type object map[string]any

func (o *object) UnmarshalJSON(raw []byte) error {
	m, err := decode(raw)
	*o = m
	return err
}

func decode(raw []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // so that a number keeps its digits
	var m map[string]any
	err := dec.Decode(&m)
	return m, err
}

// encode encodes a value without escaping characters that need it only in HTML.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// text is a string that grows piece by piece.
type text struct{ strings.Builder }

func (t *text) MarshalJSON() ([]byte, error) { return encode(t.String()) }

// once are members that name something: if a stream sends one again, the value does not continue the previous one.
var once = map[string]bool{"id": true, "type": true, "role": true, "index": true, "name": true}

// accumulate adds a delta to the message as OpenAI's own clients do: strings are appended, objects are merged, list
// elements are matched by index, and anything else is replaced.
func (o object) accumulate(delta map[string]any) error { return accumulate(o, delta) }

func accumulate(into, delta map[string]any) error {
	for name, value := range delta {
		switch value := value.(type) {
		case nil:
			if _, ok := into[name]; !ok {
				into[name] = nil
			}
		case string:
			t, ok := into[name].(*text)
			switch {
			case !ok || once[name] && value != "":
				t = new(text)
				into[name] = t
			case once[name]:
				continue
			}
			t.WriteString(value)
		case map[string]any:
			inner, ok := into[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				into[name] = inner
			}
			if err := accumulate(inner, value); err != nil {
				return err
			}
		case []any:
			list, _ := into[name].([]any)
			list, err := accumulateList(list, value)
			if err != nil {
				return err
			}
			into[name] = list
		default:
			into[name] = value
		}
	}
	return nil
}

// accumulateList adds elements to a list, each at its index if it has one.
func accumulateList(list, delta []any) ([]any, error) {
	for _, value := range delta {
		element, ok := value.(map[string]any)
		if !ok {
			list = append(list, value)
			continue
		}
		at := len(list)
		if n, ok := element["index"].(json.Number); ok {
			i, err := n.Int64()
			if err != nil || i < 0 || i >= maxBlocks {
				return nil, fmt.Errorf("%w: index %s", ErrTooLarge, n)
			}
			at = slices.IndexFunc(list, func(v any) bool {
				m, ok := v.(map[string]any)
				return ok && m["index"] == any(n)
			})
			if at < 0 {
				at = len(list)
			}
		}
		if at == len(list) {
			if len(list) >= maxBlocks {
				return nil, ErrTooLarge
			}
			list = append(list, map[string]any{})
		}
		if err := accumulate(list[at].(map[string]any), element); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// MarshalJSON leaves out the indices of calls, which belong to the stream and not to the message.
func (o object) MarshalJSON() ([]byte, error) {
	m := maps.Clone(map[string]any(o))
	if calls, ok := m["tool_calls"].([]any); ok {
		for _, call := range calls {
			if c, ok := call.(map[string]any); ok {
				delete(c, "index")
			}
		}
	}
	return encode(m)
}

// block is one content block of Anthropic's under construction: its initial members, and what was added to them.
type block struct {
	fields fields
	grown  map[string]*text
	listed map[string][]json.RawMessage
	input  *text // the JSON of a call's input
}

// add applies a delta. A delta of an unknown type replaces the members that it names.
func (b *block) add(delta fields) error {
	switch kind := delta.text("type"); kind {
	case "input_json_delta":
		if b.input == nil {
			b.input = new(text)
		}
		b.input.WriteString(delta.text("partial_json"))
	case "text_delta", "thinking_delta", "signature_delta", "compaction_delta":
		for name := range delta {
			if name != "type" && delta.text(name) != "" {
				b.grow(name, delta.text(name))
			}
		}
	case "citations_delta":
		if b.listed == nil {
			b.listed = map[string][]json.RawMessage{}
		}
		if len(b.listed["citations"]) >= maxBlocks {
			return ErrTooLarge
		}
		b.listed["citations"] = append(b.listed["citations"], delta["citation"])
	default:
		for name, value := range delta {
			if name != "type" {
				b.fields[name] = value
			}
		}
	}
	return nil
}

func (b *block) grow(name, piece string) {
	t := b.grown[name]
	if t == nil {
		t = new(text)
		t.WriteString(b.fields.text(name))
		if b.grown == nil {
			b.grown = map[string]*text{}
		}
		b.grown[name] = t
	}
	t.WriteString(piece)
}

// joinBlocks joins blocks into the content of a message. Indices for which no block arrived are skipped.
func joinBlocks(blocks []*block) (json.RawMessage, error) {
	out := make([]json.RawMessage, 0, len(blocks))
	for _, b := range blocks {
		if b == nil {
			continue
		}
		for name, t := range b.grown {
			value, err := encode(t.String())
			if err != nil {
				return nil, err
			}
			b.fields[name] = value
		}
		for name, list := range b.listed {
			value, err := encode(append(b.fields.list(name), list...))
			if err != nil {
				return nil, err
			}
			b.fields[name] = value
		}
		if b.input != nil && b.input.Len() > 0 {
			raw := []byte(b.input.String())
			if !json.Valid(raw) {
				return nil, fmt.Errorf("the input of the call %q is no JSON", b.fields.text("name"))
			}
			b.fields["input"] = raw
		}
		raw, err := encode(b.fields)
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return encode(out)
}
