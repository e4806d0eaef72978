package chat

import (
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// renderText renders the line that the flat text shows for a message. An assistant message without text has none.
func renderText(m *Message, opts Options) Fragment {
	fr := Fragment{Format: Text, Role: m.Role}
	text, speaker := m.Flat(), ""
	if !m.bare {
		speaker = Speaker(m.Role, opts.Turn, opts.Tool)
	}
	if m.Role == plan.RoleAssistant && blank(text) {
		return fr
	}
	fr.Bytes = append(append(make([]byte, 0, len(speaker)+len(text)), speaker...), text...)
	fr.Items = 1
	return fr
}

// Speaker returns what the flat text puts before a message. tool is the name of the tool whose call a tool message
// answers.
func Speaker(role plan.Role, turn uint32, tool string) string {
	switch role {
	case plan.RoleUser:
		return "User (turn " + strconv.FormatUint(uint64(turn), 10) + "): "
	case plan.RoleAssistant:
		return "Assistant: "
	}
	return "Tool " + tool + ": "
}

// Flat returns a message's content as the flat text shows it, without its speaker.
func (m *Message) Flat() string { return m.sender() + flat(m.parts()) }
