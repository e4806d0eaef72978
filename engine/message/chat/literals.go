package chat

import "github.com/seed-0906e6bc/mneme/engine/plan/literal"

// Literals returns the literals of the message's text and of the arguments of its calls.
func (m *Message) Literals() literal.List {
	arguments := make([]string, len(m.Calls))
	for i := range m.Calls {
		arguments[i] = m.Calls[i].Arguments
	}
	return literal.Of(m.Text, arguments...)
}
