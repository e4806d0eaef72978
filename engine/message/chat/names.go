package chat

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/callid"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// OwnNames replaces mapped tool names by the original ones, in the calls and in Raw, and returns those that it
// replaced.
func (m *Message) OwnNames(own callid.Own) (found []string) {
	for i := range m.Calls {
		if name, ok := own[m.Calls[i].Name]; ok {
			m.Calls = slices.Clone(m.Calls)
			m.Calls[i].Name, found = name, append(found, name)
		}
	}
	if found == nil || m.Raw == nil {
		return found
	}
	if m.Format == OpenAIResponses {
		m.Raw = m.rename(m.Raw, func(o *object) bool { return itemKind(o) == ItemCall || itemKind(o) == itemCustomCall })
		return found
	}
	o, _ := readObject(m.Raw)
	if m.Format == AnthropicMessages {
		list := m.rename(o.Get("content"), func(o *object) bool { return o.Text("type") == "tool_use" })
		m.Raw = o.With("content", list)
	} else {
		m.Raw = m.renameCalls(&o, false)
	}
	return found
}

// rename gives the calls in a list the names in Calls.
func (m *Message) rename(list []byte, call func(*object) bool) []byte {
	var out [][]byte
	for from, to := range rawjson.Elements(list) {
		o, _ := readObject(list[from:to])
		raw := o.Raw
		if !call(&o) {
			out = append(out, raw)
			continue
		}
		id := o.Text("id")
		if m.Format == OpenAIResponses {
			id = o.Text("call_id")
		}
		i := slices.IndexFunc(m.Calls, func(c Call) bool { return c.ID == id })
		out = append(out, o.With("name", rawjson.AppendString(nil, m.Calls[i].Name)))
	}
	return rawjson.ArrayOf(out...)
}
