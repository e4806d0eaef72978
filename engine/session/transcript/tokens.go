package transcript

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Tokenizer counts tokens. It is safe for concurrent use.
type Tokenizer interface {
	// Count counts in the encoding with the given name.
	Count(encoding, text string) int
	// CountUntil counts like Count, and calls stop repeatedly while the text is long. If stop returns true, it returns
	// at once with whole false.
	CountUntil(encoding, text string, stop func() bool) (n int, whole bool)
	// CountBehind counts a text by itself, and the same text after a prefix, in both of project.Encodings, in that
	// order. If the context ends first, it returns the context's error.
	CountBehind(ctx context.Context, prefix, text string) (alone, behind [2]uint32, err error)
}

// countedText is a text with its tokens in each of project.Encodings.
type countedText struct {
	text   string
	tokens [2]uint32
}

// usual holds counts that are needed for nearly every message and never change.
type usual struct {
	roles    []countedText // the names of the roles
	question [2]uint32     // an empty user message rendered as an earlier question, up to the number of its turn
}

func (svc *Service) countUsual() (u usual) {
	for _, r := range [...]plan.Role{plan.RoleUser, plan.RoleAssistant, plan.RoleTool, plan.RoleSystem} {
		u.roles = append(u.roles, countedText{text: chat.RoleName(r)})
	}
	before, _, _ := strings.Cut(plan.EarlierQuestion(0), "0")
	for i := range project.Encodings {
		count := svc.counter(i)
		for j := range u.roles {
			u.roles[j].tokens[i] = uint32(count(u.roles[j].text))
		}
		u.question[i] = uint32(tokens.Plain(plan.RoleUser, "", count) + count(before))
	}
	return u
}

// counting counts the texts of one message, each of them once.
type counting struct {
	ctx    context.Context
	svc    *Service
	texts  []countedText
	many   map[string][2]uint32 // by text; nil while there are few
	failed error
}

// fewTexts is how many texts are searched linearly before a map is used.
const fewTexts = 16

// behind counts a text, and returns how many tokens it adds after a prefix.
func (c *counting) behind(prefix, text string) [2]uint32 {
	alone, behind, err := c.svc.tokens.CountBehind(c.ctx, prefix, text)
	if err != nil {
		c.failed = err
	}
	if c.many == nil && len(c.texts) == fewTexts {
		c.many = make(map[string][2]uint32, 2*fewTexts)
		for _, t := range c.texts {
			c.many[t.text] = t.tokens
		}
	}
	if c.many != nil {
		c.many[text] = alone
	} else {
		c.texts = append(c.texts, countedText{text, alone})
	}
	return behind
}

// of returns the tokens of a text. After a failure, it counts no further texts.
func (c *counting) of(text string) [2]uint32 {
	if tokens, ok := c.known(text); ok || c.failed != nil {
		return tokens
	}
	c.behind("", text)
	tokens, _ := c.known(text)
	return tokens
}

// known returns the tokens of a text that was counted before.
func (c *counting) known(text string) ([2]uint32, bool) {
	for _, t := range c.svc.usual().roles {
		if t.text == text {
			return t.tokens, true
		}
	}
	if c.many != nil {
		tokens, ok := c.many[text]
		return tokens, ok
	}
	for i := range c.texts {
		if c.texts[i].text == text {
			return c.texts[i].tokens, true
		}
	}
	return [2]uint32{}, false
}

// count fills in a header's counts of the message's tokens. Each text is encoded once, including a user's text, which
// is also counted as part of an earlier question.
func (svc *Service) count(ctx context.Context, h *Header, m *chat.Message) error {
	c := counting{ctx: ctx, svc: svc, texts: make([]countedText, 0, 4)}
	if m.Role == plan.RoleUser {
		h.Compressed = c.behind("): ", m.Text)
	}
	in := [2]func(string) int{}
	for i := range in {
		in[i] = func(s string) int { return int(c.of(s)[i]) }
	}
	own := cmp.Or(m.Format, chat.OpenAIChat)
	bill := tokens.Of(own, m)
	if !bill.OneForAll(m) {
		h.Costs = new(Costs)
	}
	flat := m.Flat()
	for i, count := range in {
		h.Tokens[i] = uint32(bill.Words(count) + bill.Media(tokens.Current))
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
				in1 = tokens.Of(f+1, m)
			}
			h.Costs.fill(int(f), in1, in)
		}
	}
	return c.failed
}

// countQuestion completes the count of a user message as an earlier question, which contains the number of its turn.
// The tokenizers always separate a number from its surroundings, so the parts can be counted separately.
func (svc *Service) countQuestion(h *Header) {
	if h.Role != plan.RoleUser {
		return
	}
	turn := strconv.FormatUint(uint64(h.Turn), 10)
	for i := range project.Encodings {
		h.Compressed[i] += svc.usual().question[i] + uint32(svc.tokens.Count(project.Encodings[i], turn))
	}
}

// counter returns a function that counts short texts in one of project.Encodings, as package chat needs it.
func (svc *Service) counter(encoding int) func(string) int {
	name := project.Encodings[encoding]
	return func(s string) int { return svc.tokens.Count(name, s) }
}

// Counter returns a function that counts in one of project.Encodings, as package chat needs it. Once the context has
// ended, its results for long texts are too low: callers must check the context before they use or store a count.
func (svc *Service) Counter(ctx context.Context, encoding int) func(string) int {
	name := project.Encodings[encoding]
	return func(s string) int {
		n, _ := svc.tokens.CountUntil(name, s, func() bool { return ctx.Err() != nil })
		return n
	}
}

// CountUntil counts in one of project.Encodings, and calls stop repeatedly while the text is long. If stop returns
// true, it returns at once with whole false.
func (svc *Service) CountUntil(encoding int, text string, stop func() bool) (n int, whole bool) {
	return svc.tokens.CountUntil(project.Encodings[encoding], text, stop)
}

// LineTokens counts a stored message as a line of flat text: the name of its speaker, its text, and a line break. It
// adds up the counts of these parts from the header; the count of the whole line can differ by a token at each seam.
func (svc *Service) LineTokens(h *Header, encoding int) uint32 {
	if h.Role == plan.RoleAssistant && h.Content[encoding] == 0 {
		return 0
	}
	speaker := chat.Speaker(h.Role, h.Turn, h.Tool)
	return uint32(svc.counter(encoding)(speaker)) + h.Content[encoding] + 1
}
