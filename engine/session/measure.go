package session

import (
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/project"
)

// Tokenizer counts tokens, safe for concurrent use.
type Tokenizer interface {
	// Count counts in one encoding, by its name; CountBoth in all of Encodings, in that order.
	Count(encoding, text string) int
	CountBoth(text string) [2]uint32
}

// measure counts a message's tokens in all encodings. Each text is encoded once; what is shared by every message of
// a kind (roles, the words before an earlier question) comes from the tokenizer's memory of short texts.
func (svc *Service) measure(h *Header, m *chat.Message) {
	texts := map[string][2]uint32{}
	count := func(encoding int) func(string) int {
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
		h.Tokens[i] = uint32(m.Tokens(count(i)))
		h.Content[i] = uint32(count(i)(m.Flat()))
		if m.Role == plan.RoleUser {
			h.Compressed[i] = uint32(count(i)(question))
		}
	}
}

// measureQuestion completes the count of a user's message as an earlier question, which names its turn. The tokenizers
// always part a number from what stands around it, so the pieces count as the whole does.
func (svc *Service) measureQuestion(h *Header) {
	if h.Role != plan.RoleUser {
		return
	}
	head, _, _ := strings.Cut(plan.EarlierQuestion(h.Turn), strconv.FormatUint(uint64(h.Turn), 10))
	for i := range project.Encodings {
		count := svc.Counter(i)
		h.Compressed[i] += uint32(chat.TokensPerMessage + count("user") + count(head) + count(strconv.FormatUint(uint64(h.Turn), 10)))
	}
}

// Counter gives the token count of one encoding as the chat package asks for it.
func (svc *Service) Counter(encoding int) func(string) int {
	name := project.Encodings[encoding]
	return func(s string) int { return svc.tokens.Count(name, s) }
}

// LineTokens counts a stored message as a line of flat text: what names its speaker, its text, and the line's end.
// The parts are counted apart, from the header alone; the whole can differ by a token at the seam.
func (svc *Service) LineTokens(h *Header, encoding int) uint32 {
	speaker := chat.Speaker(h.Role, h.Turn, h.Tool)
	if h.Role == plan.RoleAssistant && h.Content[encoding] == 0 {
		return 0
	}
	return uint32(svc.tokens.Count(project.Encodings[encoding], speaker)) + h.Content[encoding] + 1
}
