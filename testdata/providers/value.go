package providers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// object is a JSON object. Missing members and members of another type are read as empty, so that each rule can read
// what it needs and leave types to the rule that checks them.
type object map[string]any

func (o object) str(key string) string    { s, _ := o[key].(string); return s }
func (o object) object(key string) object { return asObject(o[key]) }
func (o object) list(key string) []any    { l, _ := o[key].([]any); return l }
func (o object) has(key string) bool      { return o[key] != nil }
func (o object) flag(key string) bool     { b, _ := o[key].(bool); return b }

func (o object) number(key string) (float64, bool) {
	n, ok := o[key].(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

func asObject(v any) object { o, _ := v.(map[string]any); return o }

// objects returns the elements of a list, with an empty object for each that is not an object.
func objects(list []any) []object {
	out := make([]object, len(list))
	for i, v := range list {
		out[i] = asObject(v)
	}
	return out
}

// unknown returns the members that are not allowed, in order.
func (o object) unknown(allowed ...string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(allowed, key) {
			out = append(out, key)
		}
	}
	return out
}

// without returns a copy without some members.
func (o object) without(keys ...string) object {
	out := maps.Clone(o)
	for _, key := range keys {
		delete(out, key)
	}
	return out
}

// read decodes a request body, which must be one JSON object in UTF-8 without lone surrogates.
func read(body []byte) (object, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("not UTF-8")
	}
	if at := loneSurrogate(body); at >= 0 {
		return nil, fmt.Errorf("no low surrogate in string: line 1 column %d (char %d)", at+1, at)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	if out == nil || d.More() {
		return nil, errors.New("the body is not one object")
	}
	return out, nil
}

var surrogate = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)

// loneSurrogate returns the position of a \uD800 to \uDFFF that is not half of a pair, or -1. Go's decoder would
// replace it silently.
func loneSurrogate(body []byte) int {
	high := -1 // position of the previous escape, if it was the first half of a pair
	for _, at := range surrogate.FindAllIndex(body, -1) {
		escape := strings.ToLower(string(body[at[0]:at[1]]))
		low := len(escape) == 6 && escape >= `\udc00` && escape <= `\udfff`
		switch {
		case high >= 0 && (!low || high+6 != at[0]):
			return high
		case low && high < 0:
			return at[0]
		}
		high = -1
		if len(escape) == 6 && escape >= `\ud800` && escape <= `\udbff` {
			high = at[0]
		}
	}
	return high
}
