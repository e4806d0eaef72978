package hard

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// encode writes the turn's messages in its format, with an occasional system message among them.
func encode(r *rand.Rand, t *Turn) {
	put := func(object string, first bool) { // the first object of a message
		if first && t.Format != Anthropic && r.IntN(12) == 0 {
			t.Skipped = append(t.Skipped, len(t.Input))
			role := []string{"system", "developer"}[r.IntN(2)]
			t.Input = append(t.Input, json.RawMessage(`{"role":"`+role+`","content":"You are terse."}`))
		}
		t.Input = append(t.Input, json.RawMessage(object))
	}
	switch t.Format {
	case Anthropic:
		encodeAnthropic(r, t, put)
	case Responses:
		encodeResponses(r, t, put)
	default:
		for _, m := range t.Messages {
			object := chatMessage(r, t, m)
			m.Posted = json.RawMessage(object)
			put(object, true)
		}
	}
}

// member is one "key":value of an object.
func member(key, value string) string { return `"` + key + `":` + value }

func object(members ...string) string { return "{" + strings.Join(members, ",") + "}" }

// str writes a JSON string in one of the ways that clients do.
func str(r *rand.Rand, s string) string {
	if r.IntN(4) == 0 {
		return escaped(s)
	}
	return quote(s)
}

// ownMembers returns members that only this server reads.
func ownMembers(r *rand.Rand, t *Turn, m *Message) []string {
	var out []string
	add := func(key, value string) { out = append(out, member(key, value)) }
	if m.Agent != t.Agent {
		add("agent", quote(m.Agent))
	}
	if m.Delegation != t.Delegation || m.Delegation != "" && r.IntN(4) == 0 {
		add("delegation_id", quote(m.Delegation))
	}
	if m.Own.Reasoning != "" && t.Format != Responses {
		add("reasoning", str(r, m.Own.Reasoning))
	}
	if m.Own.Tags != nil {
		tags, _ := json.Marshal(m.Own.Tags)
		add("tags", string(tags))
	}
	if m.Own.Metadata != nil {
		add("metadata", string(m.Own.Metadata))
	}
	if m.Own.CreatedAt != "" {
		add("created_at", quote(m.Own.CreatedAt))
	}
	if m.A2A() {
		add("type", `"a2a"`)
		add("from_agent", quote(m.From))
		add("to_agent", quote(m.To))
	}
	return out
}

// chatMessage returns a message of openai.chat, with its members in any order.
func chatMessage(r *rand.Rand, t *Turn, m *Message) string {
	members := append(ownMembers(r, t, m), member("role", quote(m.Role)))
	if m.Role == "tool" {
		members = append(members, member("tool_call_id", quote(m.CallID)))
	}
	if len(m.Calls) > 0 {
		var calls []string
		for _, c := range m.Calls {
			calls = append(calls, object(member("id", quote(c.ID)), member("type", `"function"`),
				member("function", object(member("name", quote(c.Name)), member("arguments", str(r, c.Arguments))))))
		}
		members = append(members, member("tool_calls", "["+strings.Join(calls, ",")+"]"))
	}
	members = append(members, content(r, m, chatPart)...)
	if r.IntN(15) == 0 {
		members = append(members, member("x_vendor", `{"a":1.0,"agent":"kept","big":1e300}`))
	}
	if m.Role == "user" && r.IntN(15) == 0 {
		members = append(members, member("name", `"Zoë"`))
	}
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return object(members...)
}

// content writes the content member: null, a string, or a list of parts.
func content(r *rand.Rand, m *Message, part func(*rand.Rand, *Message, Part) string) []string {
	if m.Parts == nil {
		if len(m.Calls) > 0 && r.IntN(2) == 0 {
			return nil
		}
		return []string{member("content", []string{`null`, `""`}[r.IntN(2)])}
	}
	if len(m.Parts) == 1 && m.Parts[0].Image == "" && r.IntN(5) > 0 {
		return []string{member("content", str(r, m.Parts[0].Text))}
	}
	var parts []string
	for _, p := range m.Parts {
		parts = append(parts, part(r, m, p))
	}
	return []string{member("content", "["+strings.Join(parts, ",")+"]")}
}

func chatPart(r *rand.Rand, _ *Message, p Part) string {
	if p.Image != "" {
		return object(member("type", `"image_url"`), member("image_url", object(member("url", quote(p.Image)))))
	}
	return object(member("type", `"text"`), member("text", str(r, p.Text)))
}

// responsesPart returns one part of a message item.
func responsesPart(r *rand.Rand, m *Message, p Part) string {
	switch {
	case p.Image != "":
		return object(member("type", `"input_image"`), member("image_url", quote(p.Image)))
	case m.Role == "assistant":
		return object(member("type", `"output_text"`), member("text", str(r, p.Text)), member("annotations", "[]"))
	default:
		return object(member("type", `"input_text"`), member("text", str(r, p.Text)))
	}
}

// encodeResponses writes items. One message may need several.
func encodeResponses(r *rand.Rand, t *Turn, put func(string, bool)) {
	for _, m := range t.Messages {
		own := ownMembers(r, t, m)
		item := func(members ...string) {
			m.Pieces = append(m.Pieces, json.RawMessage(object(members...)))
			put(object(slices.Concat(own, members)...), len(m.Pieces) == 1)
		}
		if m.Own.Reasoning != "" {
			item(member("type", `"reasoning"`), member("id", quote(fmt.Sprintf("rs_%d", m.Seq))),
				member("summary", "["+object(member("type", `"summary_text"`), member("text", quote(m.Own.Reasoning)))+"]"))
		}
		if m.Role == "tool" {
			item(member("type", `"function_call_output"`), member("call_id", quote(m.CallID)),
				member("output", str(r, joined(m.Parts))))
			m.Parts = []Part{{Text: joined(m.Parts)}}
			continue
		}
		if len(m.Calls) == 0 || m.Parts != nil {
			members := []string{member("role", quote(m.Role))}
			if !m.A2A() && (m.Role == "assistant" || r.IntN(2) == 0) {
				members = append(members, member("type", `"message"`))
			}
			item(append(members, textMember(r, m)...)...)
		}
		for _, c := range m.Calls {
			item(member("type", `"function_call"`), member("call_id", quote(c.ID)), member("name", quote(c.Name)),
				member("arguments", str(r, c.Arguments)))
		}
	}
}

// textMember returns content that is not null, because message items do not allow null.
func textMember(r *rand.Rand, m *Message) []string {
	if m.Parts == nil {
		return []string{member("content", `""`)}
	}
	return content(r, m, responsesPart)
}

// joined returns the text of parts as one string.
func joined(parts []Part) string {
	var texts []string
	for _, p := range parts {
		if p.Image == "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}
