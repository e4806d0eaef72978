package transcript

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// Element is an element of a posted list, with the messages parsed from it. A message of a model call passes through
// several packages; as an Element it is parsed, hashed and counted once. Elements do not change, so they may be shared.
//
// In OpenAI's Responses the elements are items, and an item can only be parsed together with its neighbours. Elements
// of that format are never parsed.
type Element struct {
	Raw  json.RawMessage
	read *reading // nil if it has not been parsed
}

// reading is the result of parsing an element.
type reading struct {
	messages []chat.Parsed // with index 0
	known    []*known      // by message
	skipped  []chat.Skipped
	repaired bool // the messages were parsed with repairs
}

// known is what has been computed from a message.
type known struct {
	said   align.Hash
	header atomic.Pointer[Header] // nil if it has not been counted
}

// ElementsOf returns the elements of a posted list, without parsing them.
func ElementsOf(list []json.RawMessage) []*Element {
	out := make([]*Element, len(list))
	for i, raw := range list {
		out[i] = &Element{Raw: raw}
	}
	return out
}

// Raw returns a list as it was posted.
func Raw(list []*Element) []json.RawMessage {
	out := make([]json.RawMessage, len(list))
	for i, e := range list {
		out[i] = e.Raw
	}
	return out
}

// Read parses those elements of a list that have not been parsed, with repairs. It returns a new list and does not
// change the given one. The parsed messages do not alias the posted bytes. The error is that of ParseRepaired.
func Read(f chat.Format, list []*Element) ([]*Element, error) {
	var fresh []json.RawMessage
	var at []int
	if f != chat.OpenAIResponses {
		for i, e := range list {
			if e.read == nil {
				fresh = append(fresh, slices.Clone(e.Raw))
				at = append(at, i)
			}
		}
	}
	if fresh == nil {
		return list, nil
	}
	parsed, skipped, err := ParseRepaired(f, fresh)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(list)
	for n, i := range at {
		out[i] = &Element{Raw: fresh[n], read: new(reading)}
	}
	for _, m := range parsed {
		r := out[at[m.Index]].read
		m.Index = 0
		r.messages = append(r.messages, m)
		k := new(known)
		if !m.Hidden {
			k.said = align.Of(&m.Message)
		}
		r.known = append(r.known, k)
	}
	for _, s := range skipped {
		r := out[at[s.Index]].read
		r.repaired = r.repaired || s.Code != chat.CodeSystemNotStored
		s.Index = 0
		r.skipped = append(r.skipped, s)
	}
	return out, nil
}

// Unread returns the elements without what was parsed from them.
func Unread(list []*Element) []*Element {
	out := make([]*Element, len(list))
	for i, e := range list {
		out[i] = &Element{Raw: e.Raw}
	}
	return out
}

// Messages returns the messages parsed from an element, and their hashes. They must not be changed.
func (e *Element) Messages() (messages []chat.Parsed, said []align.Hash) {
	if e.read == nil {
		return nil, nil
	}
	for _, k := range e.read.known {
		said = append(said, k.said)
	}
	return e.read.messages, said
}

// Only returns an element with only the n-th message of a parsed one.
func (e *Element) Only(n int) *Element {
	r := e.read
	return &Element{Raw: r.messages[n].Raw,
		read: &reading{messages: r.messages[n : n+1 : n+1], known: r.known[n : n+1 : n+1]}}
}

// IsRead reports whether the element has been parsed.
func (e *Element) IsRead() bool { return e.read != nil }

// Decided returns the element with the decision whose window a model answered with it. An element that already names a
// decision is returned unchanged.
func (e *Element) Decided(id string) *Element {
	raw, ok := withMember(e.Raw, "decision_id", rawjson.AppendString(nil, id))
	if !ok {
		return e
	}
	out := &Element{Raw: raw}
	if r := e.read; r != nil && len(r.messages) == 1 && !r.repaired && bytes.Equal(r.messages[0].Raw, bytes.TrimSpace(e.Raw)) {
		m := r.messages[0]
		m.Raw = raw
		m.Decision = id
		out.read = &reading{messages: []chat.Parsed{m}, known: []*known{{said: r.known[0].said}}, skipped: r.skipped}
	}
	return out
}

// Undecided returns the element without the decision that it names.
func (e *Element) Undecided() *Element {
	o, twice, ok := rawjson.ReadObject(e.Raw)
	if !ok || twice != nil || o.Get("decision_id") == nil {
		return e
	}
	return &Element{Raw: o.Without(func(_ *rawjson.Object, f *rawjson.Field) bool { return string(f.Name) == "decision_id" })}
}

// Dated returns the element with the time at which it was written. An element that has a time is returned unchanged.
func (e *Element) Dated(at time.Time) *Element {
	raw, ok := withMember(e.Raw, "created_at", rawjson.AppendString(nil, at.UTC().Format(time.RFC3339Nano)))
	if !ok {
		return e
	}
	return &Element{Raw: raw}
}

// Hide returns the element as one that clients do not have.
func (e *Element) Hide() *Element {
	raw, ok := withMember(e.Raw, "hidden", []byte("true"))
	if !ok {
		return e
	}
	return &Element{Raw: raw}
}

// withMember returns an object with one more member; false if it already has that member.
func withMember(raw []byte, name string, value []byte) ([]byte, bool) {
	o, twice, ok := rawjson.ReadObject(bytes.TrimSpace(raw))
	if !ok || twice != nil || o.Get(name) != nil {
		return nil, false
	}
	return o.With(name, value), true
}

// TurnOf returns a turn of parsed elements, and what was skipped of them. It returns nil if an element has not been
// parsed or, with mode "", if one was repaired: then the list has to be parsed.
func TurnOf(list []*Element, mode string) (*Turn, []chat.Skipped) {
	if len(list) == 0 || len(list) > MaxPosted {
		return nil, nil
	}
	t := new(Turn)
	var skipped []chat.Skipped
	for i, e := range list {
		if e.read == nil || e.read.repaired && mode != ModeRepair {
			return nil, nil
		}
		for _, m := range e.read.messages {
			m.Index = i
			t.Messages = append(t.Messages, m)
		}
		t.known = append(t.known, e.read.known...)
		for _, s := range e.read.skipped {
			s.Index = i
			skipped = append(skipped, s)
		}
	}
	return t, skipped
}
