package chat

import (
	"bytes"

	"github.com/seed-0906e6bc/mneme/engine/message/callid"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// isLeftOutOfChat reports whether a window leaves out a member of a message: Mneme's own ones, reasoning that only some
// providers accept back, and members without information.
func isLeftOutOfChat(o *object, f *field) bool {
	switch string(f.Name) {
	case "refusal", "annotations":
		return o.Raw[f.Value] == 'n'
	case "tool_calls":
		return o.Raw[f.Value] == 'n' || o.Raw[rawjson.SkipSpace(o.Raw, f.Value+1)] == ']'
	case "reasoning_content":
		return true
	}
	return isOwn(o, f)
}

// chatID returns a call id that Chat Completions allow.
func chatID(id string) string { return callid.Short(id, callid.MostInChat) }

// legalChat changes what the format does not allow in a posted message: long call ids, tool names, and null content if
// there is nothing else.
func (m *Message) legalChat(o object) []byte {
	switch {
	case functionCallOf(&o) != nil || o.Text("role") == functionRole: // They have no ids.
		return o.Raw
	case m.Role == plan.RoleTool && chatID(m.CallID) != m.CallID:
		o, _ = readObject(o.With("tool_call_id", rawjson.AppendString(nil, chatID(m.CallID))))
	case len(m.Calls) > 0:
		return m.legalCalls(&o)
	}
	if o.Get("content") == nil && o.Get("refusal") == nil && o.Get("audio") == nil {
		return o.With("content", []byte(`""`))
	}
	return o.Raw
}

// legalCalls changes the ids and names of calls that the format does not allow.
func (m *Message) legalCalls(o *object) []byte {
	legal := true
	for i := range m.Calls {
		c := &m.Calls[i]
		legal = legal && chatID(c.ID) == c.ID && callid.Legal(c.Name)
	}
	if legal {
		return o.Raw
	}
	return m.renameCalls(o, true)
}

// renameCalls gives the calls of a chat message the names in Calls or, for a window, valid names and ids.
func (m *Message) renameCalls(o *object, legal bool) []byte {
	if call := functionCallOf(o); call != nil {
		body, _ := readObject(call)
		return o.With(functionCall, body.With("name", rawjson.AppendString(nil, m.Calls[0].Name)))
	}
	var calls [][]byte
	list := o.Get("tool_calls")
	for from, to := range rawjson.Elements(list) {
		call, _ := readObject(list[from:to])
		kind, c := "function", m.Calls[len(calls)]
		if call.Text("type") == "custom" {
			kind = "custom"
		}
		if legal {
			c.ID, c.Name = chatID(c.ID), callid.Name(c.Name)
		}
		body, _ := readObject(call.Get(kind))
		call, _ = readObject(call.With(kind, body.With("name", rawjson.AppendString(nil, c.Name))))
		calls = append(calls, call.With("id", rawjson.AppendString(nil, c.ID)))
	}
	return o.With("tool_calls", rawjson.ArrayOf(calls...))
}

// renderOpenAI renders one message of a chat completion.
func renderOpenAI(m *Message) Fragment {
	fr := Fragment{Format: OpenAIChat, Role: m.Role, Items: 1}
	if m.Role == plan.RoleAssistant {
		fr.Reasoning = m.reasoning()
	}
	if m.Raw != nil && m.Format == OpenAIChat {
		fr.Bytes = m.legalChat(m.posted())
		return fr
	}
	ps := m.parts()
	dst := appendRole(make([]byte, 0, len(m.Text)+len(m.Text)/8+128), RoleName(m.Role))
	switch text := flat(ps); {
	case m.Role == plan.RoleUser && !plain(ps):
		dst = appendOpenAIParts(dst, ps)
	case m.Role == plan.RoleAssistant && text == "" && len(m.Calls) > 0:
		dst = append(dst, "null"...)
	default: // only a user's content may have more than text
		dst = rawjson.AppendString(dst, text)
	}
	if m.Role == plan.RoleTool {
		dst = rawjson.AppendString(append(dst, `,"tool_call_id":`...), chatID(m.CallID))
	}
	if m.Role == plan.RoleAssistant && len(m.Calls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for i := range m.Calls {
			if i > 0 {
				dst = append(dst, ',')
			}
			c := &m.Calls[i]
			dst = rawjson.AppendString(append(dst, `{"id":`...), chatID(c.ID))
			dst = rawjson.AppendString(append(dst, `,"type":"function","function":{"name":`...), callid.Name(c.Name))
			dst = rawjson.AppendString(append(dst, `,"arguments":`...), c.Arguments)
			dst = append(dst, "}}"...)
		}
		dst = append(dst, ']')
	}
	fr.Bytes = append(dst, '}')
	return fr
}

// reasoning returns the reasoning of a message, which may have been posted as an empty text, or nil.
func (m *Message) reasoning() *string {
	if m.Reasoning == "" && (m.Raw == nil || !bytes.Contains(m.Raw, []byte(`"reasoning`))) {
		return nil
	}
	if m.Reasoning == "" {
		o, _ := readObject(m.Raw)
		_, content := rawjson.String(o.Get("reasoning_content"))
		_, own := rawjson.String(o.Get("reasoning"))
		if !content && !own {
			return nil
		}
	}
	text := m.Reasoning
	return &text
}

func appendOpenAIParts(dst []byte, ps []part) []byte {
	dst = append(dst, '[')
	for i := range ps {
		if i > 0 {
			dst = append(dst, ',')
		}
		if url := ps[i].imageURL(); url != "" {
			dst = rawjson.AppendString(append(dst, `{"type":"image_url","image_url":{"url":`...), url)
			dst = append(dst, "}}"...)
			continue
		}
		dst = appendTextPart(dst, "text", ps[i].shown())
	}
	return append(dst, ']')
}

// imageURL returns an image part's URL, or "" for other parts and if the image has none.
func (p *part) imageURL() string {
	if p.kind != partImage {
		return ""
	}
	return p.source().dataURL()
}
