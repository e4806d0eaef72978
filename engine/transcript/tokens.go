package transcript

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/tally"
)

// Tokenizer counts tokens, safe for concurrent use.
type Tokenizer interface {
	// Count counts in one encoding, by its name.
	Count(encoding, text string) int
	// CountUntil counts as Count does, and asks stop again and again while the text is long. Where stop says true, it
	// returns at once, and whole is false.
	CountUntil(encoding, text string, stop func() bool) (n int, whole bool)
	// CountBehind counts a text alone and together with a prefix in front of it, in both of project.Encodings, in
	// that order. Where the context ends before, it returns the context's error.
	CountBehind(ctx context.Context, prefix, text string) (alone, behind [2]uint32, err error)
}

// count fills in a header's counts of the message's tokens. Each text is encoded once, a user's too, which is also
// counted as the end of an earlier question.
func (svc *Service) count(ctx context.Context, h *Header, m *chat.Message) (failed error) {
	texts := map[string][2]uint32{}
	encode := func(prefix, text string) (behind [2]uint32) {
		alone, behind, err := svc.tokens.CountBehind(ctx, prefix, text)
		if err != nil {
			failed = err
		}
		texts[text] = alone
		return behind
	}
	if m.Role == plan.RoleUser {
		h.Compressed = encode("): ", m.Text)
	}
	in := [2]func(string) int{}
	for i := range in {
		in[i] = func(s string) int {
			if _, ok := texts[s]; !ok && failed == nil {
				encode("", s)
			}
			return int(texts[s][i])
		}
	}
	own := cmp.Or(m.Format, chat.OpenAIChat)
	bill := tally.Of(own, m)
	if !bill.OneForAll(m) {
		h.Costs = new(Costs)
	}
	flat := m.Flat()
	for i, count := range in {
		h.Tokens[i] = uint32(bill.Words(count) + bill.Media(tally.Current))
		h.Content[i] = uint32(count(flat))
		if h.Costs != nil {
			thinking := bill.Thinking(count)
			if thinking == 0 {
				thinking = count(m.Reasoning)
			}
			h.Costs.Thinking[i] = uint32(thinking)
		}
	}
	if h.Costs != nil {
		for f := range chat.Format(Formats) {
			in1 := bill
			if f+1 != own {
				in1 = tally.Of(f+1, m)
			}
			h.Costs.fill(int(f), in1, in)
		}
	}
	return failed
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
		count := svc.counter(i)
		h.Compressed[i] += uint32(tally.Plain(plan.RoleUser, "", count) + count(before) + count(turn))
	}
}

// counter gives the token count of short texts in one of project.Encodings as the chat package asks for it.
func (svc *Service) counter(encoding int) func(string) int {
	name := project.Encodings[encoding]
	return func(s string) int { return svc.tokens.Count(name, s) }
}

// Counter gives the token count of one of project.Encodings as the chat package asks for it. Once the context has
// ended, what it gives for long texts is too low: a caller looks at the context before it uses or keeps a count.
func (svc *Service) Counter(ctx context.Context, encoding int) func(string) int {
	name := project.Encodings[encoding]
	return func(s string) int {
		n, _ := svc.tokens.CountUntil(name, s, func() bool { return ctx.Err() != nil })
		return n
	}
}

// CountUntil counts in one of project.Encodings, and asks stop again and again while the text is long. Where stop says
// true, it returns at once, and whole is false.
func (svc *Service) CountUntil(encoding int, text string, stop func() bool) (n int, whole bool) {
	return svc.tokens.CountUntil(project.Encodings[encoding], text, stop)
}

// LineTokens counts a stored message as a line of flat text: what names its speaker, its text, and the line's end.
// The parts are counted apart, from the header alone; the whole can differ by a token at the seam.
func (svc *Service) LineTokens(h *Header, encoding int) uint32 {
	if h.Role == plan.RoleAssistant && h.Content[encoding] == 0 {
		return 0
	}
	speaker := chat.Speaker(h.Role, h.Turn, h.Tool)
	return uint32(svc.counter(encoding)(speaker)) + h.Content[encoding] + 1
}
