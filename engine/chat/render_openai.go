package chat

import "github.com/seed-0906e6bc/mneme/engine/plan"

// renderOpenAI renders one message of a chat completion.
func renderOpenAI(m *Message) Fragment {
	fr := Fragment{format: OpenAIChat, role: m.Role, items: 1}
	if m.Raw != nil && m.Format == OpenAIChat {
		fr.bytes = m.posted()
		return fr
	}
	ps := m.parts()
	dst := appendRole(make([]byte, 0, len(m.Text)+len(m.Text)/8+128), RoleName(m.Role))
	switch text := flat(ps); {
	case m.Role == plan.RoleUser && !plain(ps):
		dst = appendOpenAIParts(dst, ps)
	case m.Role == plan.RoleAssistant && text == "" && len(m.Calls) > 0:
		dst = append(dst, "null"...)
	default: // only a user's content may hold more than text
		dst = AppendString(dst, text)
	}
	if m.Role == plan.RoleTool {
		dst = AppendString(append(dst, `,"tool_call_id":`...), m.CallID)
	}
	if m.Role == plan.RoleAssistant && len(m.Calls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for i := range m.Calls {
			if i > 0 {
				dst = append(dst, ',')
			}
			c := &m.Calls[i]
			dst = AppendString(append(dst, `{"id":`...), c.ID)
			dst = AppendString(append(dst, `,"type":"function","function":{"name":`...), c.Name)
			dst = AppendString(append(dst, `,"arguments":`...), c.Arguments)
			dst = append(dst, "}}"...)
		}
		dst = append(dst, ']')
	}
	fr.bytes = append(dst, '}')
	return fr
}

func appendOpenAIParts(dst []byte, ps []part) []byte {
	dst = append(dst, '[')
	for i := range ps {
		if i > 0 {
			dst = append(dst, ',')
		}
		if url := ps[i].imageURL(); url != "" {
			dst = AppendString(append(dst, `{"type":"image_url","image_url":{"url":`...), url)
			dst = append(dst, "}}"...)
			continue
		}
		dst = appendTextPart(dst, "text", ps[i].shown())
	}
	return append(dst, ']')
}

// imageURL is an image part's URL, "" for other parts and where the image has none.
func (p *part) imageURL() string {
	if p.kind != partImage {
		return ""
	}
	return p.source().dataURL()
}
