package transcript

import (
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/project"
)

// Tokenizer counts tokens, safe for concurrent use.
type Tokenizer interface {
	// Count counts in one encoding, by its name.
	Count(encoding, text string) int
	// CountBoth counts in both of project.Encodings, in that order.
	CountBoth(text string) [2]uint32
}

// count fills in a header's counts of the message's tokens. Each text is encoded once; what is shared by every message
// of a kind (roles, the words before an earlier question) comes from the tokenizer's memory of short texts.
func (svc *Service) count(h *Header, m *chat.Message) {
	texts := map[string][2]uint32{}
	in := func(encoding int) func(string) int {
		return func(s string) int {
			n, ok := texts[s]
			if !ok {
				n = svc.tokens.CountBoth(s)
				texts[s] = n
			}
			return int(n[encoding])
		}
	}
	question := "): " + m.Text
	for i := range project.Encodings {
		h.Tokens[i] = uint32(m.Tokens(in(i)))
		h.Content[i] = uint32(in(i)(m.Flat()))
		if m.Role == plan.RoleUser {
			h.Compressed[i] = uint32(in(i)(question))
		}
	}
}

// countQuestion completes the count of a user's message as an earlier question, which names its turn. The tokenizers
// always part a number from what stands around it, so the pieces count as the whole does.
func (svc *Service) countQuestion(h *Header) {
	if h.Role != plan.RoleUser {
		return
	}
	turn := strconv.FormatUint(uint64(h.Turn), 10)
	before, _, _ := strings.Cut(plan.EarlierQuestion(h.Turn), turn)
	for i := range project.Encodings {
		count := svc.Counter(i)
		h.Compressed[i] += uint32(chat.TokensPerMessage + count("user") + count(before) + count(turn))
	}
}

// Counter gives the token count of one of project.Encodings as the chat package asks for it.
func (svc *Service) Counter(encoding int) func(string) int {
	name := project.Encodings[encoding]
	return func(s string) int { return svc.tokens.Count(name, s) }
}

// LineTokens counts a stored message as a line of flat text: what names its speaker, its text, and the line's end.
// The parts are counted apart, from the header alone; the whole can differ by a token at the seam.
func (svc *Service) LineTokens(h *Header, encoding int) uint32 {
	if h.Role == plan.RoleAssistant && h.Content[encoding] == 0 {
		return 0
	}
	speaker := chat.Speaker(h.Role, h.Turn, h.Tool)
	return uint32(svc.Counter(encoding)(speaker)) + h.Content[encoding] + 1
}
