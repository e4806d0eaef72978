package window

import (
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Call returns a call of an item's message, or the call that the message answers.
func (a *assembly) Call(it *plan.Item, call int) (c plan.Called, index int, ok bool, err error) {
	r := a.rows[it.Row]
	switch {
	case it.Change == plan.Answer:
		index, ok = int(it.Call), call == 0
	case r.Role == plan.RoleTool:
		index, ok = int(r.CallIndex), call == 0
		r = a.rowOf(r.Call)
	default:
		index, ok = call, call < int(r.Calls)
	}
	if !ok || r == nil || r.Damaged.Load() {
		return c, 0, false, nil
	}
	m, err := a.body(r)
	if err != nil || index >= len(m.Calls) {
		return c, 0, false, err
	}
	return plan.Called{Name: m.Calls[index].Name, Arguments: m.Calls[index].Arguments}, index, true, nil
}

// Edited returns the text and tokens of an item's message with its edit.
func (a *assembly) Edited(it *plan.Item) (text string, tokens uint32, empty bool, err error) {
	r := a.rows[it.Row]
	m, err := a.shown(it, r)
	if err != nil {
		return "", 0, false, err
	}
	return m.Text, a.Counter.Shown(&r.Header, m), m.Hollow(), nil
}

// Thinking returns the text of an item's thinking, unless a step stripped it.
func (a *assembly) Thinking(it *plan.Item) (string, error) {
	r := a.rows[it.Row]
	if r.Damaged.Load() || it.Role != plan.RoleAssistant || it.Edit != nil && it.Edit.Strip&plan.PartThinking != 0 {
		return "", nil
	}
	m, err := a.body(r)
	if err != nil {
		return "", err
	}
	return m.Reasoning, nil
}

// DocumentTexts returns the texts of the documents of a tool's message with all changes so far.
func (a *assembly) DocumentTexts(it *plan.Item) ([]string, error) {
	documents, _, err := a.documentsOf(it)
	if err != nil || len(documents) == 0 {
		return nil, err
	}
	texts := make([]string, len(documents))
	for i := range documents {
		texts[i] = documents[i].Text
	}
	return texts, nil
}
