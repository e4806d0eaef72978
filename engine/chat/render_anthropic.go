package chat

import (
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// renderAnthropic renders one message of the Messages API, and its blocks for merging with a neighbour's.
func renderAnthropic(m *Message) Fragment {
	var b blockList
	if m.Raw != nil && m.Format == AnthropicMessages {
		raw := m.posted()
		legal := b.posted(m, raw)
		fr := b.fragment(m.Role)
		if legal && len(fr.bytes) > 0 {
			fr.bytes = raw
		}
		return fr
	}
	ps := m.parts()
	switch m.Role {
	case plan.RoleUser:
		b.parts(ps)
	case plan.RoleTool:
		b.toolResult(m, ps)
	default: // an assistant's content is text alone
		b.text(flat(ps))
		for i := range m.Calls {
			b.toolUse(m.Calls[i])
		}
	}
	return b.fragment(m.Role)
}

// blockList collects content blocks, separated by commas, and where the ids of calls stand in them.
type blockList struct {
	bytes []byte
	ids   []callID
}

// posted takes over a posted message's blocks, those that break a rule made again. It reports whether none did.
func (b *blockList) posted(m *Message, raw []byte) (legal bool) {
	o, _ := readObject(raw)
	content := o.get("content")
	if s, ok := decodeString(content); ok || !isArray(content) {
		b.text(s)
		return true
	}
	legal = true
	for from, to := range elements(content) {
		p, _ := readPart(AnthropicMessages, content[from:to])
		switch {
		case p.kind == partText && blank(p.text):
			legal = false
		case p.kind == partCall && !isObject(p.o.get("input")):
			b.toolUse(toolUse(&p))
			legal = false
		case p.kind == partCall:
			b.raw(&p, p.o.find("id"), true)
		case p.kind == partResult && blankInside(p.o.get("content")):
			b.toolResult(m, m.parts())
			legal = false
		case p.kind == partResult:
			b.raw(&p, p.o.find("tool_use_id"), false)
		default:
			b.raw(&p, nil, false)
		}
	}
	return legal
}

// blankInside reports whether a result's content holds an empty text block.
func blankInside(content []byte) bool {
	if !isArray(content) {
		return false
	}
	for from, to := range elements(content) {
		if p, bad := readPart(AnthropicMessages, content[from:to]); bad == nil && p.kind == partText && blank(p.text) {
			return true
		}
	}
	return false
}

// next separates blocks.
func (b *blockList) next() {
	if len(b.bytes) > 0 {
		b.bytes = append(b.bytes, ',')
	}
}

// raw adds a posted block as it is; id is its member that holds a call's id, if any.
func (b *blockList) raw(p *part, id *field, call bool) {
	b.next()
	if id != nil {
		s, _ := decodeString(p.o.raw[id.value:id.end])
		b.ids = append(b.ids, callID{s, len(b.bytes) + id.value, len(b.bytes) + id.end, call})
	}
	b.bytes = append(b.bytes, p.o.raw...)
}

// id adds a call's id as a JSON string.
func (b *blockList) id(id string, call bool) {
	at := len(b.bytes)
	b.bytes = AppendString(b.bytes, id)
	b.ids = append(b.ids, callID{id, at, len(b.bytes), call})
}

// text adds a text block, unless it would be an empty one.
func (b *blockList) text(s string) {
	if !blank(s) {
		b.next()
		b.bytes = appendTextPart(b.bytes, "text", s)
	}
}

// parts adds texts and images; what Anthropic cannot hold is named.
func (b *blockList) parts(ps []part) {
	for i := range ps {
		p := &ps[i]
		if p.kind != partImage {
			b.text(p.shown())
			continue
		}
		source := p.source()
		switch {
		case source.data != "":
			b.next()
			b.bytes = append(b.bytes, `{"type":"image","source":{"type":"base64","media_type":`...)
			b.bytes = append(AppendString(b.bytes, source.mediaType), `,"data":`...)
			b.bytes = append(AppendString(b.bytes, source.data), "}}"...)
		case source.url != "":
			b.next()
			b.bytes = append(b.bytes, `{"type":"image","source":{"type":"url","url":`...)
			b.bytes = append(AppendString(b.bytes, source.url), "}}"...)
		default:
			b.text(p.shown())
		}
	}
}

func (b *blockList) toolResult(m *Message, ps []part) {
	b.next()
	b.bytes = append(b.bytes, `{"type":"tool_result","tool_use_id":`...)
	b.id(m.CallID, false)
	if plain(ps) {
		if s := flat(ps); !blank(s) {
			b.bytes = AppendString(append(b.bytes, `,"content":`...), s)
		}
	} else {
		var inner blockList
		inner.parts(ps)
		b.bytes = append(append(b.bytes, `,"content":[`...), inner.bytes...)
		b.bytes = append(b.bytes, ']')
	}
	if m.IsError {
		b.bytes = append(b.bytes, `,"is_error":true`...)
	}
	b.bytes = append(b.bytes, '}')
}

func (b *blockList) toolUse(c Call) {
	b.next()
	b.bytes = append(b.bytes, `{"type":"tool_use","id":`...)
	b.id(c.ID, true)
	b.bytes = AppendString(append(b.bytes, `,"name":`...), c.Name)
	b.bytes = append(appendInput(append(b.bytes, `,"input":`...), c.Arguments), '}')
}

// appendInput appends a call's arguments as the object that Anthropic asks for, wrapping what is none.
func appendInput(dst []byte, arguments string) []byte {
	raw := []byte(arguments)
	switch {
	case blank(arguments):
		return append(dst, "{}"...)
	case !json.Valid(raw) || !NumbersReadable(raw):
		return append(AppendString(append(dst, `{"arguments":`...), arguments), '}')
	case raw[skipSpace(raw, 0)] != '{':
		return append(append(append(dst, `{"arguments":`...), raw...), '}')
	}
	return append(dst, raw...)
}

// fragment makes a message of the blocks; without any it has no bytes.
func (b *blockList) fragment(r plan.Role) Fragment {
	fr := Fragment{format: AnthropicMessages, role: r, items: 1, blocks: b.bytes, ids: b.ids}
	if len(b.bytes) > 0 {
		fr.bytes = append(appendRole(make([]byte, 0, len(b.bytes)+40), anthropicRole(r)), '[')
		fr.bytes = append(append(fr.bytes, b.bytes...), "]}"...)
	}
	return fr
}

// anthropicRole is who speaks: results are the user's.
func anthropicRole(r plan.Role) string {
	if r == plan.RoleAssistant {
		return "assistant"
	}
	return "user"
}
