package chat

import (
	"bytes"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// MaxTags and MaxTagBytes bound the tags of one message.
const (
	MaxTags     = 64
	MaxTagBytes = 128
)

// a2aType is the type of a message from one agent to another.
const a2aType = "a2a"

// localTime is RFC 3339 without a zone. Such a time is read as UTC.
const localTime = "2006-01-02T15:04:05.999999999"

// isOwn reports whether a member of a message is Mneme's own. The member `type` is Mneme's own only with the value a2a,
// because in the Responses format it is the item's type.
func isOwn(o *object, f *field) bool {
	switch string(f.name) {
	case "agent", "delegation_id", "reasoning", "tags", "metadata", "created_at", "from_agent", "to_agent":
		return true
	case "type":
		s, _ := decodeString(o.raw[f.value:f.end])
		return s == a2aType
	}
	return false
}

// readOwn reads Mneme's own fields of one object into the message. Fields that it does not carry stay as they are.
func (m *Message) readOwn(o *object) *problem {
	for i := range o.fields {
		f := &o.fields[i]
		value := o.raw[f.value:f.end]
		if value[0] == 'n' || !isOwn(o, f) {
			continue
		}
		var p *problem
		switch string(f.name) {
		case "agent":
			m.Agent, p = readID(f.name, value)
		case "delegation_id":
			m.Delegation, p = readID(f.name, value)
		case "from_agent":
			m.From, p = readID(f.name, value)
		case "to_agent":
			m.To, p = readID(f.name, value)
		case "reasoning":
			m.Reasoning, p = readString(f.name, value)
		case "tags":
			m.Tags, p = readTags(value)
		case "metadata":
			if !isObject(value) {
				p = &problem{CodeInvalidField, "metadata must be an object or null"}
			}
			m.Metadata = value
		case "created_at":
			m.CreatedAt, p = readTime(value)
		}
		if p != nil {
			return p
		}
	}
	return nil
}

func readString(name, value []byte) (string, *problem) {
	s, ok := decodeString(value)
	if !ok {
		return "", &problem{CodeInvalidField, string(name) + " must be a string or null"}
	}
	return s, nil
}

func readID(name, value []byte) (string, *problem) {
	s, p := readString(name, value)
	if p == nil && !ident.ValidID(s) {
		p = &problem{CodeInvalidID, string(name) + " must be 1 to 128 of the characters A-Z a-z 0-9 . _ : @ -"}
	}
	return s, p
}

func readTags(value []byte) ([]string, *problem) {
	if !isArray(value) {
		return nil, &problem{CodeInvalidField, "tags must be an array of strings or null"}
	}
	var tags []string
	for from, to := range elements(value) {
		tag, ok := decodeString(value[from:to])
		switch {
		case !ok:
			return nil, &problem{CodeInvalidField, "tags must be an array of strings or null"}
		case tag == "" || len(tag) > MaxTagBytes:
			return nil, &problem{CodeInvalidTags, fmt.Sprintf("a tag must have 1 to %d bytes", MaxTagBytes)}
		case len(tags) == MaxTags:
			return nil, &problem{CodeInvalidTags, fmt.Sprintf("a message may carry at most %d tags", MaxTags)}
		}
		tags = append(tags, tag)
	}
	return tags, nil
}

func readTime(value []byte) (time.Time, *problem) {
	s, _ := decodeString(value)
	for _, layout := range []string{time.RFC3339Nano, localTime} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, &problem{CodeInvalidCreatedAt,
		"created_at must be a time in RFC 3339, for example 2026-01-31T12:00:00Z"}
}

// checkA2A sets the kind of a message of type a2a, and refuses one without a sender or recipient or with calls.
func (m *Message) checkA2A(o *object) *problem {
	if value := o.get("type"); value == nil || !bytes.HasPrefix(value, []byte{'"'}) || o.text("type") != a2aType {
		return nil
	}
	switch {
	case m.From == "" || m.To == "":
		return &problem{CodeInvalidA2A, "a message of type a2a needs from_agent and to_agent"}
	case len(m.Calls) > 0 || m.CallID != "":
		return &problem{CodeInvalidA2A, "a message of type a2a can hold neither tool calls nor a tool result"}
	}
	m.Kind = plan.KindA2A
	return nil
}
