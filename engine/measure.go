package engine

import (
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// measure counts a message's tokens in all encodings. Each text is encoded once; what is shared by every message of
// a kind (roles, the words before an earlier question) comes from the tokenizer's memory of short texts.
func (e *Engine) measure(h *header, m *chat.Message) {
	texts := map[string][2]uint32{}
	count := func(encoding int) func(string) int {
		return func(s string) int {
			n, ok := texts[s]
			if !ok {
				n = e.tokens.CountBoth(s)
				texts[s] = n
			}
			return int(n[encoding])
		}
	}
	for i := range Encodings {
		h.tokens[i] = uint32(m.Tokens(count(i)))
		h.content[i] = uint32(count(i)(m.Shown()))
	}
}

// measureQuestion counts a user's message as an earlier question, which names its turn.
func (e *Engine) measureQuestion(h *header, m *chat.Message) {
	if m.Role != plan.RoleUser {
		return
	}
	q := m.Compressed(h.turn, m.Text)
	for i := range Encodings {
		h.compressed[i] = uint32(q.Tokens(e.counter(i)))
	}
}

// counter gives the token count of one encoding as the chat package asks for it.
func (e *Engine) counter(encoding int) func(string) int {
	name := Encodings[encoding]
	return func(s string) int { return e.tokens.Count(name, s) }
}

// lineTokens counts a stored message as a line of flat text: what names its speaker, its text, and the line's end.
// The parts are counted apart, from the header alone; the whole can differ by a token at the seam.
func (e *Engine) lineTokens(h *header, encoding int) uint32 {
	speaker := chat.Speaker(h.role, h.turn, h.tool)
	if h.role == plan.RoleAssistant && h.textBytes == 0 {
		return 0
	}
	return uint32(e.tokens.Count(Encodings[encoding], speaker)) + h.content[encoding] + 1
}
