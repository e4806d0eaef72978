package chat

import (
	"cmp"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/callid"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// renderResponses renders one message as items.
func renderResponses(m *Message, opts Options) Fragment {
	var l itemList
	switch {
	case m.Raw != nil && m.Format == OpenAIResponses:
		l.posted(m, opts)
	case m.Role == plan.RoleTool:
		l.answer(m, opts)
	default:
		l.message(m)
	}
	return Fragment{Format: OpenAIResponses, Role: m.Role, Bytes: l.bytes, Items: l.count, IDs: l.ids}
}

// itemList collects items, separated by commas, and the positions of call ids in them.
type itemList struct {
	bytes []byte
	count int
	ids   []render.CallID
}

// next separates items.
func (l *itemList) next() {
	if l.count++; l.count > 1 {
		l.bytes = append(l.bytes, ',')
	}
}

// posted adds a message's own items without Mneme's fields. A result of another type than its call gets the type that
// the call requires.
func (l *itemList) posted(m *Message, opts Options) {
	for from, to := range rawjson.Elements(m.Raw) {
		o, _ := readObject(m.Raw[from:to])
		if m.Role == plan.RoleTool && opts.Call != "" && itemKind(&o) != OutputItemOf(opts.Call) {
			l.answer(m, opts)
			return
		}
		if clean := o.Without(isOwn); len(clean) != len(o.Raw) {
			o, _ = readObject(clean)
		}
		o = legalItem(o)
		l.next()
		if f := o.Find("call_id"); f != nil && m.hasIDs() {
			if id, ok := rawjson.String(o.Raw[f.Value:f.End]); ok {
				at := len(l.bytes)
				l.ids = append(l.ids, render.CallID{ID: id, Start: at + f.Value, End: at + f.End, Call: m.Role != plan.RoleTool})
			}
		}
		if l.bytes == nil && len(o.Raw) == len(m.Raw)-2 {
			l.bytes = slices.Clip(o.Raw) // the usual single item, unchanged: no copy
			return
		}
		l.bytes = append(l.bytes, o.Raw...)
	}
}

// hasIDs reports whether a message's items have ids of calls that are answered.
func (m *Message) hasIDs() bool { return m.Role == plan.RoleTool || len(m.Calls) > 0 }

// legalItem returns a function_call under a name that the format allows.
func legalItem(o object) object {
	if name := o.Text("name"); itemKind(&o) == ItemCall && !callid.Legal(name) {
		o, _ = readObject(o.With("name", rawjson.AppendString(nil, callid.Name(name))))
	}
	return o
}

// id adds the id of a call as a JSON string.
func (l *itemList) id(id string, call bool) {
	at := len(l.bytes)
	l.bytes = rawjson.AppendString(l.bytes, id)
	l.ids = append(l.ids, render.CallID{ID: id, Start: at, End: len(l.bytes), Call: call})
}

// answer adds the item that answers a call. It adds none if no text can answer the call.
func (l *itemList) answer(m *Message, opts Options) {
	ps, call := m.parts(), cmp.Or(opts.Call, ItemCall)
	content := appendResponsesContent(nil, ps)
	if call != ItemCall && call != itemCustomCall {
		content = rawjson.AppendString(nil, flat(ps))
	}
	members, ok := ItemAnswer(call, content)
	if !ok {
		return
	}
	l.next()
	l.bytes = rawjson.AppendString(append(l.bytes, `{"type":`...), OutputItemOf(call))
	l.bytes = append(rawjson.AppendString(append(l.bytes, ','), itemAnswerField(OutputItemOf(call))), ':')
	l.id(m.CallID, false)
	l.bytes = append(append(append(l.bytes, ','), members...), '}')
}

// message adds the items of a user's or an assistant's message.
func (l *itemList) message(m *Message) {
	ps := m.parts()
	text := flat(ps)
	if m.Role == plan.RoleUser {
		l.next()
		l.bytes = append(appendResponsesContent(appendRole(l.bytes, "user"), ps), '}')
	} else if text != "" || len(m.Calls) == 0 { // an assistant's content is only text
		l.next()
		l.bytes = append(rawjson.AppendString(appendRole(l.bytes, RoleName(m.Role)), text), '}')
	}
	for i := range m.Calls {
		c := &m.Calls[i]
		l.next()
		l.bytes = append(l.bytes, `{"type":"function_call","call_id":`...)
		l.id(c.ID, true)
		l.bytes = rawjson.AppendString(append(l.bytes, `,"name":`...), callid.Name(c.Name))
		l.bytes = append(rawjson.AppendString(append(l.bytes, `,"arguments":`...), c.Arguments), '}')
	}
}

func appendResponsesContent(dst []byte, ps []part) []byte {
	if plain(ps) {
		return rawjson.AppendString(dst, flat(ps))
	}
	dst = append(dst, '[')
	for i := range ps {
		if i > 0 {
			dst = append(dst, ',')
		}
		if url := ps[i].imageURL(); url != "" {
			dst = rawjson.AppendString(append(dst, `{"type":"input_image","image_url":`...), url)
			dst = append(dst, '}')
			continue
		}
		dst = appendTextPart(dst, "input_text", ps[i].shown())
	}
	return append(dst, ']')
}
