// Package align finds the messages of a request that are already stored. Clients of a model's API send their whole
// history again with each call, and rarely byte for byte: they move cache marks, rewrite arguments, and trim or
// summarise the beginning. So messages are compared by a hash of their content (Of), and histories by chains of hashes
// (Roll). Find determines how a request relates to the stored history.
//
// All functions are pure functions of their arguments.
package align

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// Hash identifies the content of a message, or a chain of messages.
type Hash [16]byte

// Roll returns the hash of a chain extended by one message. The chain of no messages is the zero Hash.
func Roll(chain, next Hash) Hash {
	var both [2 * len(Hash{})]byte
	copy(both[copy(both[:], chain[:]):], next[:])
	return sum(both[:])
}

func sum(b []byte) Hash {
	s := sha256.Sum256(b)
	return Hash(s[:len(Hash{})])
}

// Of returns the hash of a message's content: its role, its text, its calls with their arguments as values, the call
// that it answers, and every part that is not text. A text in one block equals the same text as a string. Thinking, its
// signatures, and the members in left are ignored, because clients drop or change them when they send a message again.
func Of(m *chat.Message) Hash {
	b := appendText([]byte{byte(m.Role)}, m.Text)
	b = appendText(b, m.CallID)
	for i := range m.Calls {
		c := &m.Calls[i]
		b = appendText(appendText(append(b, 'c'), c.ID), c.Name)
		b = appendText(b, string(canonical([]byte(c.Arguments))))
	}
	for _, part := range others(m.Raw) {
		b = appendText(append(b, 'p'), string(part))
	}
	return sum(b)
}

// appendText appends a text preceded by its length, so that different lists of texts have different bytes.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// left are members that do not belong to the content of a message, or that clients do not send back as they got them.
var left = map[string]bool{"cache_control": true, "prompt_cache_breakpoint": true, "index": true, "id": true,
	"status": true, "annotations": true, "logprobs": true, "expires_at": true, "phase": true}

// spoken are the types of parts and items that chat.Message covers, or that are not compared.
var spoken = map[string]bool{"text": true, "input_text": true, "output_text": true, "refusal": true, "tool_use": true,
	"thinking": true, "redacted_thinking": true, "reasoning": true, "function_call": true, "": true}

// others returns the parts of a message that its text and calls do not include, in order, each as canonical JSON.
func others(raw []byte) [][]byte {
	// Parts have types. A name may be written with escapes.
	if !bytes.Contains(raw, []byte(`"type"`)) && !bytes.Contains(raw, []byte(`\u`)) {
		return nil
	}
	if o, twice, ok := rawjson.ReadObject(raw); ok && twice == nil && o.Find("role") != nil && !compound(o.Get("content")) &&
		!compound(o.Get("output")) {
		return nil // It is a message without parts, so nothing else of it matters.
	}
	v, ok := decode(raw)
	if !ok {
		return nil
	}
	var out [][]byte
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				walk(element)
			}
		case map[string]any:
			kind, _ := v["type"].(string)
			if _, message := v["role"]; message || kind == "tool_result" || kind == "function_call_output" {
				walk(v["content"])
				walk(v["output"])
				return
			}
			if spoken[kind] {
				return
			}
			out = append(out, appendPart(nil, v, kind))
		}
	}
	walk(v)
	return out
}

func compound(value []byte) bool { return rawjson.IsArray(value) || rawjson.IsObject(value) }

// appendPart appends a part without the ignored members. A reference consists only of its id, and keeps it.
func appendPart(b []byte, part map[string]any, kind string) []byte {
	kept := make(map[string]any, len(part))
	for name, value := range part {
		if !left[name] || name == "id" && kind == "item_reference" {
			kept[name] = value
		}
	}
	return appendValue(b, kept)
}

// canonical returns a JSON value with sorted members, no white space, and numbers as JavaScript would write them. It
// returns raw itself if that is not JSON.
func canonical(raw []byte) []byte {
	v, ok := decode(raw)
	if !ok {
		return raw
	}
	return appendValue(make([]byte, 0, len(raw)), v)
}

func decode(raw []byte) (v any, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil, false
	}
	_, err := dec.Token()
	return v, err != nil // nothing may follow
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		b = append(b, '{')
		for _, name := range names {
			b = appendValue(append(rawjson.AppendString(b, name), ':'), v[name])
			b = append(b, ',')
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for _, element := range v {
			b = append(appendValue(b, element), ',')
		}
		return append(b, ']')
	case string:
		return rawjson.AppendString(b, v)
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return strconv.AppendFloat(b, f, 'g', -1, 64)
		}
		return append(b, v...)
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}
