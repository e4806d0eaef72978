package engine

import (
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Tokenizer counts tokens, safe for concurrent use.
type Tokenizer interface {
	// Count counts in one encoding, by its name; CountBoth in all of Encodings, in that order.
	Count(encoding, text string) int
	CountBoth(text string) [2]uint32
}

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
	question := "): " + m.Text
	for i := range Encodings {
		h.tokens[i] = uint32(m.Tokens(count(i)))
		h.content[i] = uint32(count(i)(m.Flat()))
		if m.Role == plan.RoleUser {
			h.compressed[i] = uint32(count(i)(question))
		}
	}
}

// measureQuestion completes the count of a user's message as an earlier question, which names its turn. The tokenizers
// always part a number from what stands around it, so the pieces count as the whole does.
func (e *Engine) measureQuestion(h *header) {
	if h.role != plan.RoleUser {
		return
	}
	head, _, _ := strings.Cut(plan.EarlierQuestion(h.turn), strconv.FormatUint(uint64(h.turn), 10))
	for i := range Encodings {
		count := e.counter(i)
		h.compressed[i] += uint32(chat.TokensPerMessage + count("user") + count(head) + count(strconv.FormatUint(uint64(h.turn), 10)))
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
	if h.role == plan.RoleAssistant && h.content[encoding] == 0 {
		return 0
	}
	return uint32(e.tokens.Count(Encodings[encoding], speaker)) + h.content[encoding] + 1
}
