package hard

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
)

// encodeAnthropic writes anthropic.messages, in which one user message may contain several results and a text.
func encodeAnthropic(r *rand.Rand, t *Turn, put func(string, bool)) {
	for at := 0; at < len(t.Messages); {
		group := t.Messages[at : at+1]
		for at+len(group) < len(t.Messages) && r.IntN(4) > 0 && joins(group, t.Messages[at+len(group)]) {
			group = t.Messages[at : at+len(group)+1]
		}
		put(anthropicMessage(r, t, group), true)
		at += len(group)
	}
}

// joins reports whether a message can be in the same posted message as a group of results: it is another result, or the
// user's text after them.
func joins(group []*Message, next *Message) bool {
	for _, m := range group {
		if m.Role != "tool" || m.CallID == next.CallID {
			return false
		}
	}
	says := next.Role == "tool" || next.Role == "user" && next.Parts != nil
	return says && !next.A2A() && next.Delegation == group[0].Delegation
}

// anthropicMessage returns one message for a group: for results and perhaps a user's text, or for a single message.
func anthropicMessage(r *rand.Rand, t *Turn, group []*Message) string {
	role := group[0].Role
	if role == "tool" {
		role = "user"
	}
	members := append(ownMembers(r, t, group[0]), member("role", quote(role)))
	if m := group[0]; len(group) == 1 && m.Role != "tool" && len(m.Calls) == 0 && plain(m.Parts) && r.IntN(2) == 0 {
		return object(append(members, member("content", str(r, joined(m.Parts))))...)
	}
	var blocks []string
	for _, m := range group {
		m.Agent, m.Own = group[0].Agent, group[0].Own // they belong to the message as a whole
		for _, block := range anthropicBlocks(r, m) {
			blocks = append(blocks, block)
			m.Pieces = append(m.Pieces, json.RawMessage(block))
		}
	}
	return object(append(members, member("content", "["+strings.Join(blocks, ",")+"]"))...)
}

func anthropicBlocks(r *rand.Rand, m *Message) []string {
	if m.Role == "tool" {
		if m.Parts == nil {
			return []string{object(member("type", `"tool_result"`), member("tool_use_id", quote(m.CallID)))}
		}
		members := []string{member("type", `"tool_result"`), member("tool_use_id", quote(m.CallID))}
		if plain(m.Parts) && r.IntN(3) > 0 {
			members = append(members, member("content", str(r, joined(m.Parts))))
		} else {
			members = append(members, member("content", "["+strings.Join(textBlocks(r, m.Parts), ",")+"]"))
		}
		if r.IntN(6) == 0 {
			members = append(members, member("is_error", "true"))
		}
		return []string{object(members...)}
	}
	out := textBlocks(r, m.Parts)
	for i := range m.Calls {
		c := &m.Calls[i]
		if !isObject(c.Arguments) {
			c.Arguments = object(member("raw", quote(c.Arguments))) // this format has no arguments of other types
		}
		out = append(out, object(member("type", `"tool_use"`), member("id", quote(c.ID)), member("name", quote(c.Name)),
			member("input", c.Arguments)))
	}
	return out
}

func textBlocks(r *rand.Rand, parts []Part) []string {
	var out []string
	for _, p := range parts {
		switch {
		case p.Image != "":
			out = append(out, object(member("type", `"image"`),
				member("source", object(member("type", `"url"`), member("url", quote(p.Image))))))
		case r.IntN(10) == 0:
			out = append(out, object(member("type", `"text"`), member("text", str(r, p.Text)),
				member("cache_control", `{"type":"ephemeral"}`)))
		default:
			out = append(out, object(member("type", `"text"`), member("text", str(r, p.Text))))
		}
	}
	return out
}

func plain(parts []Part) bool { return len(parts) <= 1 && (len(parts) == 0 || parts[0].Image == "") }

func isObject(s string) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal([]byte(s), &object) == nil && object != nil
}
