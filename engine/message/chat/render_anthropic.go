package chat

import (
	"github.com/seed-0906e6bc/mneme/engine/message/callid"
	"github.com/seed-0906e6bc/mneme/engine/plan"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// renderAnthropic renders one message of the Messages API, and its blocks for merging with a neighbour's.
func renderAnthropic(m *Message) Fragment {
	var b blockList
	if m.Raw != nil && m.Format == AnthropicMessages {
		raw := m.posted().Raw
		legal := b.posted(m, raw)
		fr := b.fragment(m.Role)
		if legal && len(fr.Bytes) > 0 {
			fr.Bytes = raw
		}
		return fr
	}
	ps := m.parts()
	switch m.Role {
	case plan.RoleUser:
		b.parts(ps)
	case plan.RoleTool:
		b.toolResult(m, ps)
	default: // an assistant's content is only text
		b.text(flat(ps))
		for i := range m.Calls {
			b.toolUse(m.Calls[i])
		}
	}
	return b.fragment(m.Role)
}

// blockList collects content blocks, separated by commas, and the positions of call ids in them.
type blockList struct {
	bytes []byte
	ids   []render.CallID
}

// posted adds a posted message's blocks and rewrites those that break a rule. It reports whether none did.
func (b *blockList) posted(m *Message, raw []byte) (legal bool) {
	o, _ := readObject(raw)
	content := o.Get("content")
	if s, ok := rawjson.String(content); ok || !rawjson.IsArray(content) {
		b.text(s)
		return true
	}
	legal = true
	for from, to := range rawjson.Elements(content) {
		p, _ := readPart(AnthropicMessages, content[from:to])
		switch {
		case p.kind == partText && blank(p.text):
			legal = false
		case p.kind == partCall && !rawjson.IsObject(p.o.Get("input")):
			b.toolUse(toolUse(&p))
			legal = false
		case p.kind == partCall:
			if name := p.o.Text("name"); !callid.Legal(name) {
				p.o, _ = readObject(p.o.With("name", rawjson.AppendString(nil, callid.Name(name))))
				legal = false
			}
			b.raw(&p, p.o.Find("id"), true)
		case p.kind == partResult && blankInside(p.o.Get("content")):
			b.toolResult(m, m.parts())
			legal = false
		case p.kind == partResult:
			b.raw(&p, p.o.Find("tool_use_id"), false)
		default:
			b.raw(&p, nil, false)
		}
	}
	return legal
}

// blankInside reports whether a result's content has an empty text block.
func blankInside(content []byte) bool {
	if !rawjson.IsArray(content) {
		return false
	}
	for from, to := range rawjson.Elements(content) {
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

// raw adds a posted block as it is. id is its member with a call id, if any.
func (b *blockList) raw(p *part, id *field, call bool) {
	b.next()
	if id != nil {
		s, _ := rawjson.String(p.o.Raw[id.Value:id.End])
		b.ids = append(b.ids, render.CallID{ID: s, Start: len(b.bytes) + id.Value, End: len(b.bytes) + id.End, Call: call})
	}
	b.bytes = append(b.bytes, p.o.Raw...)
}

// id adds a call's id as a JSON string.
func (b *blockList) id(id string, call bool) {
	at := len(b.bytes)
	b.bytes = rawjson.AppendString(b.bytes, id)
	b.ids = append(b.ids, render.CallID{ID: id, Start: at, End: len(b.bytes), Call: call})
}

// text adds a text block, unless it would be empty.
func (b *blockList) text(s string) {
	if !blank(s) {
		b.next()
		b.bytes = appendTextPart(b.bytes, "text", s)
	}
}

// parts adds texts and images. It adds the names of parts that Anthropic cannot represent.
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
			b.bytes = append(rawjson.AppendString(b.bytes, source.mediaType), `,"data":`...)
			b.bytes = append(rawjson.AppendString(b.bytes, source.data), "}}"...)
		case source.url != "":
			b.next()
			b.bytes = append(b.bytes, `{"type":"image","source":{"type":"url","url":`...)
			b.bytes = append(rawjson.AppendString(b.bytes, source.url), "}}"...)
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
			b.bytes = rawjson.AppendString(append(b.bytes, `,"content":`...), s)
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
	b.bytes = rawjson.AppendString(append(b.bytes, `,"name":`...), callid.Name(c.Name))
	b.bytes = append(AppendInput(append(b.bytes, `,"input":`...), c.Arguments), '}')
}

// Input returns a call's arguments as the object that Anthropic's format requires.
func Input(arguments string) []byte { return AppendInput(nil, arguments) }

// fragment returns a message with the blocks. Without blocks it has no bytes.
func (b *blockList) fragment(r plan.Role) Fragment {
	fr := Fragment{Format: AnthropicMessages, Role: r, Items: 1, Blocks: b.bytes, IDs: b.ids}
	if len(b.bytes) > 0 {
		fr.Bytes = append(appendRole(make([]byte, 0, len(b.bytes)+40), render.AnthropicRole(r)), '[')
		fr.Bytes = append(append(fr.Bytes, b.bytes...), "]}"...)
	}
	return fr
}
