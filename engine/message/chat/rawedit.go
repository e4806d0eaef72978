package chat

// This file changes messages as they were posted, apart from their texts: it removes parts, and replaces the arguments
// of calls. All else stays, byte for byte. The functions are pure, and their input must be valid JSON.

import (
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// EditForm is how a provider's format writes a message.
type EditForm uint8

const (
	Chat   EditForm = iota // an object with content and tool_calls
	Blocks                 // an object whose content also contains calls and results
	Items                  // a list of objects
)

type editObject = rawjson.Object

func readEdit(raw []byte) editObject {
	o, _, _ := rawjson.ReadObject(raw)
	return o
}

// PartOf returns the kind of a content part of a given type, as policies know it, or 0. No two formats use one name for
// different things.
func PartOf(typ string) plan.Parts {
	switch typ {
	case "image_url", "input_image", "image", "computer_screenshot":
		return plan.PartImage
	case "input_audio":
		return plan.PartAudio
	case "file", "input_file", "document", "container_upload":
		return plan.PartDocument
	case "thinking", "redacted_thinking":
		return plan.PartThinking
	}
	return 0
}

// WithoutParts removes parts from a message. calls says whether it makes calls.
func WithoutParts(form EditForm, raw []byte, parts plan.Parts, calls bool) []byte {
	if form == Items {
		return itemsWithout(raw, parts)
	}
	o := readEdit(raw)
	o = readEdit(o.Without(func(_ *editObject, f *rawjson.Field) bool {
		switch string(f.Name) {
		case "reasoning", "reasoning_content":
			return parts&plan.PartThinking != 0
		case "audio":
			return parts&plan.PartAudio != 0 && form == Chat
		}
		return false
	}))
	content, changed := contentWithout(o.Get("content"), parts)
	switch {
	case !changed:
		return o.Raw
	case form == Chat && string(content) == "[]" && calls:
		content = []byte("null") // a call needs no content, and an empty list is not valid
	}
	return o.With("content", content)
}

// contentWithout removes parts from a content, and from the results in it.
func contentWithout(value []byte, parts plan.Parts) (_ []byte, changed bool) {
	if !rawjson.IsArray(value) {
		return value, false
	}
	var kept [][]byte
	for from, to := range rawjson.Elements(value) {
		p := readEdit(value[from:to])
		typ := p.Text("type")
		if PartOf(typ)&parts != 0 {
			changed = true
			continue
		}
		if typ == "tool_result" {
			if inner, cut := contentWithout(p.Get("content"), parts); cut {
				kept, changed = append(kept, p.With("content", inner)), true
				continue
			}
		}
		kept = append(kept, p.Raw)
	}
	if !changed {
		return value, false
	}
	return rawjson.ArrayOf(kept...), true
}

// itemsWithout removes parts from Responses items. If it removes reasoning, it also removes the ids of the other items:
// a provider refuses an item whose id it knows to follow a missing reasoning item. A screenshot that is required is
// replaced by a one-pixel image.
func itemsWithout(raw []byte, parts plan.Parts) []byte {
	var out [][]byte
	thought := false
	for from, to := range rawjson.Elements(raw) {
		o := readEdit(raw[from:to])
		if needsNextItem(o.Text("type"), o.Text("id")) && parts&plan.PartThinking != 0 {
			thought = true
			continue
		}
		for _, name := range [...]string{"content", "output"} {
			value := o.Get(name)
			if rawjson.IsObject(value) {
				if p := readEdit(value); PartOf(p.Text("type"))&parts != 0 {
					o = readEdit(o.With(name, p.With("image_url", rawjson.AppendString(nil, NoScreen))))
				}
			} else if value, cut := contentWithout(value, parts); cut {
				o = readEdit(o.With(name, value))
			}
		}
		out = append(out, o.Raw)
	}
	for i := range out {
		o := readEdit(out[i])
		if thought {
			out[i] = o.Without(func(_ *editObject, f *rawjson.Field) bool { return string(f.Name) == "id" })
		}
	}
	return rawjson.ArrayOf(out...)
}

// WithArguments replaces the arguments of calls of a message. changes are in ascending order of the calls, all of which
// the message makes.
func WithArguments(form EditForm, raw []byte, changes []plan.Argument) []byte {
	switch form {
	case Items:
		return withCalls(raw, changes, isCallItem, itemWithArguments)
	case Blocks:
		o := readEdit(raw)
		return o.With("content", withCalls(o.Get("content"), changes,
			func(o *editObject) bool { return o.Text("type") == "tool_use" },
			func(o *editObject, text string) []byte { return o.With("input", AppendInput(nil, text)) }))
	}
	o := readEdit(raw)
	if call := functionCallOf(&o); call != nil {
		body := readEdit(call)
		return o.With(functionCall, body.With("arguments", rawjson.AppendString(nil, changes[0].Text)))
	}
	return o.With("tool_calls", withCalls(o.Get("tool_calls"), changes, func(*editObject) bool { return true },
		func(o *editObject, text string) []byte {
			kind, name := "function", "arguments"
			if o.Text("type") == "custom" {
				kind, name = "custom", "input"
			}
			body := readEdit(o.Get(kind))
			return o.With(kind, body.With(name, rawjson.AppendString(nil, text)))
		}))
}

// AppendInput appends a call's arguments as the object that Anthropic requires. It wraps arguments that are not an
// object.
func AppendInput(dst []byte, arguments string) []byte {
	raw := []byte(arguments)
	switch {
	case strings.TrimSpace(arguments) == "":
		return append(dst, "{}"...)
	case !rawjson.Valid(raw) || !rawjson.NumbersReadable(raw) || rawjson.LoneSurrogate(raw):
		return append(rawjson.AppendString(append(dst, `{"arguments":`...), arguments), '}')
	case raw[rawjson.SkipSpace(raw, 0)] != '{':
		return append(append(append(dst, `{"arguments":`...), raw...), '}')
	}
	return append(dst, raw...)
}

// isCallItem reports whether a Responses item is one of its message's calls.
func isCallItem(o *editObject) bool {
	kind := o.Text("type")
	return kind == ItemCall || OutputItemOf(kind) != "" && o.Text(itemIDField(kind)) != ""
}

// itemWithArguments sets the arguments of a call item, if its type has any: as a string if they were one, and as JSON
// otherwise.
func itemWithArguments(o *editObject, text string) []byte {
	value := rawjson.AppendString(nil, text)
	for _, name := range itemArguments() {
		was := o.Get(name)
		if was == nil {
			continue
		}
		if _, words := rawjson.String(was); !words && rawjson.Valid([]byte(text)) {
			value = []byte(text)
		}
		return o.With(name, value)
	}
	return o.With("arguments", value)
}

// withCalls changes calls in a list that may have other elements too.
func withCalls(list []byte, changes []plan.Argument, isCall func(*editObject) bool, change func(*editObject, string) []byte,
) []byte {
	var out [][]byte
	call := 0
	for from, to := range rawjson.Elements(list) {
		o := readEdit(list[from:to])
		element := o.Raw
		if isCall(&o) {
			if len(changes) > 0 && changes[0].Call == call {
				element, changes = change(&o, changes[0].Text), changes[1:]
			}
			call++
		}
		out = append(out, element)
	}
	return rawjson.ArrayOf(out...)
}
