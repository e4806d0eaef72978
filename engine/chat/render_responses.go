package chat

import "github.com/seed-0906e6bc/mneme/engine/plan"

// renderResponses renders one message as items.
func renderResponses(m *Message) Fragment {
	fr := Fragment{format: OpenAIResponses, role: m.Role}
	if m.Raw != nil && m.Format == OpenAIResponses {
		fr.bytes, fr.items = postedItems(m.Raw)
		return fr
	}
	ps := m.parts()
	dst := make([]byte, 0, len(m.Text)+len(m.Text)/8+128)
	if m.Role == plan.RoleTool {
		dst = AppendString(append(dst, `{"type":"function_call_output","call_id":`...), m.CallID)
		dst = append(dst, `,"output":`...)
		dst = append(appendResponsesContent(dst, ps), '}')
		fr.bytes, fr.items = dst, 1
		return fr
	}
	if text := flat(ps); m.Role == plan.RoleUser {
		dst = append(appendResponsesContent(appendRole(dst, "user"), ps), '}')
		fr.items++
	} else if text != "" || len(m.Calls) == 0 { // an assistant's content is text alone
		dst = append(AppendString(appendRole(dst, RoleName(m.Role)), text), '}')
		fr.items++
	}
	for i := range m.Calls {
		if fr.items > 0 {
			dst = append(dst, ',')
		}
		c := &m.Calls[i]
		dst = AppendString(append(dst, `{"type":"function_call","call_id":`...), c.ID)
		dst = AppendString(append(dst, `,"name":`...), c.Name)
		dst = append(AppendString(append(dst, `,"arguments":`...), c.Arguments), '}')
		fr.items++
	}
	fr.bytes = dst
	return fr
}

// postedItems cuts Mneme's own fields out of each item.
func postedItems(raw []byte) (items []byte, count int) {
	for from, to := range elements(raw) {
		o, _ := readObject(raw[from:to])
		clean := o.without(isOwn)
		if count == 0 && len(clean) == len(raw)-2 {
			return clean, 1 // the usual single item, nothing cut: no copy
		}
		if count > 0 {
			items = append(items, ',')
		}
		items = append(items, clean...)
		count++
	}
	return items, count
}

func appendResponsesContent(dst []byte, ps []part) []byte {
	if plain(ps) {
		return AppendString(dst, flat(ps))
	}
	dst = append(dst, '[')
	for i := range ps {
		if i > 0 {
			dst = append(dst, ',')
		}
		if url := ps[i].imageURL(); url != "" {
			dst = AppendString(append(dst, `{"type":"input_image","image_url":`...), url)
			dst = append(dst, '}')
			continue
		}
		dst = appendTextPart(dst, "input_text", ps[i].shown())
	}
	return append(dst, ']')
}
