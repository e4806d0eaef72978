package chat

import (
	"bytes"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// MaxTags and MaxTagBytes limit the tags of one message.
const (
	MaxTags     = 64
	MaxTagBytes = 128
)

// a2aType is the type of a message from one agent to another.
const a2aType = "a2a"

// localTime is RFC 3339 without a zone. Such a time is read as UTC.
const localTime = "2006-01-02T15:04:05.999999999"

// isOwn reports whether a member of a message is Mneme's own. The member type is Mneme's own only with the value a2a,
// because in the Responses format it is the item's type. In an item of a type that Mneme does not read, a member with
// one of Mneme's names is Mneme's own only if its value has the JSON type that Mneme's would have.
func isOwn(o *object, f *field) bool {
	own := byte('"')
	switch string(f.Name) {
	case "agent", "delegation_id", "reasoning", "created_at", "from_agent", "to_agent", "decision_id":
	case "hidden":
		kind := o.Text("type")
		return kind == a2aType || !opaqueItem(kind)
	case "tags":
		own = '['
	case "metadata":
		own = '{'
	case "is_error", "status":
		return isChatResult(o)
	case "type":
		s, _ := rawjson.String(o.Raw[f.Value:f.End])
		return s == a2aType
	default:
		return false
	}
	kind := o.Text("type")
	return o.Raw[f.Value] == own || kind == a2aType || !opaqueItem(kind)
}

// isChatResult reports whether an object is a tool message of Chat Completions. OpenAI has no member for failed calls,
// so is_error and status are Mneme's own there. In other formats they are the provider's.
func isChatResult(o *object) bool { return o.Text("role") == "tool" }

// readOwn reads Mneme's own fields of one object into the message. Fields that are absent keep their values.
func (m *Message) readOwn(o *object) *problem {
	for i := range o.Fields {
		f := &o.Fields[i]
		value := o.Raw[f.Value:f.End]
		if value[0] == 'n' || !isOwn(o, f) {
			continue
		}
		var p *problem
		switch string(f.Name) {
		case "agent":
			m.Agent, p = readID(f.Name, value)
		case "delegation_id":
			m.Delegation, p = readID(f.Name, value)
		case "from_agent":
			m.From, p = readID(f.Name, value)
		case "to_agent":
			m.To, p = readID(f.Name, value)
		case "decision_id":
			m.Decision, p = readID(f.Name, value)
		case "hidden":
			if value[0] != 't' && value[0] != 'f' {
				p = &problem{CodeInvalidField, "hidden must be true, false or null"}
			}
			m.Hidden = m.Hidden || value[0] == 't'
		case "reasoning":
			m.Reasoning, p = readString(f.Name, value)
		case "tags":
			m.Tags, p = readTags(value)
		case "metadata":
			if !rawjson.IsObject(value) {
				p = &problem{CodeInvalidField, "metadata must be an object or null"}
			}
			m.Metadata = value
		case "created_at":
			m.CreatedAt, p = readTime(value)
		case "is_error":
			if value[0] != 't' && value[0] != 'f' {
				p = &problem{CodeInvalidField, "is_error must be true, false or null"}
			}
			m.IsError = m.IsError || value[0] == 't'
		case "status":
			var status string
			status, p = readString(f.Name, value)
			m.IsError = m.IsError || status == "error"
		}
		if p != nil {
			return p
		}
	}
	return nil
}

func readString(name, value []byte) (string, *problem) {
	s, ok := rawjson.String(value)
	if !ok {
		return "", &problem{CodeInvalidField, string(name) + " must be a string or null"}
	}
	return s, nil
}

func readID(name, value []byte) (string, *problem) {
	s, p := readString(name, value)
	if p == nil && !ident.ValidID(s) {
		p = &problem{CodeInvalidID, string(name) + " " + ident.IDRule}
	}
	return s, p
}

func readTags(value []byte) ([]string, *problem) {
	if !rawjson.IsArray(value) {
		return nil, &problem{CodeInvalidField, "tags must be an array of strings or null"}
	}
	var tags []string
	for from, to := range rawjson.Elements(value) {
		tag, ok := rawjson.String(value[from:to])
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
	s, _ := rawjson.String(value)
	for _, layout := range []string{time.RFC3339Nano, localTime} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, &problem{CodeInvalidCreatedAt,
		"created_at must be a time in RFC 3339, for example 2026-01-31T12:00:00Z"}
}

// checkA2A sets the kind of a message of type a2a. It rejects one that has calls, or no sender or recipient.
func (m *Message) checkA2A(o *object) *problem {
	if value := o.Get("type"); value == nil || !bytes.HasPrefix(value, []byte{'"'}) || o.Text("type") != a2aType {
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
