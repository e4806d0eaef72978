package chat

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

func (m *Message) form() EditForm {
	return map[Format]EditForm{AnthropicMessages: Blocks, OpenAIResponses: Items}[m.Format]
}

// Edited returns the message with an edit applied: with other texts of documents, without some parts, and with other
// arguments of calls. All else stays.
func (m *Message) Edited(e *plan.Edit) Message {
	out := *m
	if e == nil {
		return out
	}
	if e.Documents != nil {
		out = out.WithDocuments(e.Documents)
	}
	if e.Strip&plan.PartText != 0 {
		out = out.WithoutDocuments()
	}
	out.Parts &^= e.Strip
	if e.Strip&plan.PartImage != 0 {
		out.Images = 0
	}
	if e.Strip&plan.PartThinking != 0 {
		out.Reasoning = ""
	}
	changes := e.ArgumentsBelow(len(m.Calls))
	if len(changes) > 0 {
		out.Calls = slices.Clone(m.Calls)
	}
	for _, c := range changes {
		out.Calls[c.Call].Arguments = c.Text
	}
	if strip := e.Strip &^ plan.PartText; m.Raw != nil && strip != 0 {
		out.Raw = WithoutParts(m.form(), out.Raw, strip, len(m.Calls) > 0)
	}
	if m.Raw != nil && len(changes) > 0 {
		out.Raw = WithArguments(m.form(), out.Raw, changes)
	}
	return out
}

// Hollow reports whether a message shows nothing: no text, no call, and no part other than thinking.
func (m *Message) Hollow() bool {
	if len(m.Calls) > 0 || m.Parts&^plan.PartThinking != 0 || !blank(m.Shown()) {
		return false
	}
	return !slices.ContainsFunc(m.parts(), func(p part) bool { return p.kind != partText || !blank(p.text) })
}
