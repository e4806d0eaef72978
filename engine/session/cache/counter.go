package cache

import (
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Counter says what messages cost in one rendering. Tokens are those of the models that the project speaks to, words are
// those of the tokenizer, before they are scaled.
type Counter struct {
	Format   chat.Format
	Encoding int // in project.Encodings
	Scale    project.Scale
	Pictures tokens.Rule
	Count    func(string) int // the words of a text
	// Reasoning says that a chat window shows the reasoning of assistants as content.
	Reasoning bool
}

// Scaled is a count of words in tokens.
func (c *Counter) Scaled(words int) uint32 { return c.Scale.Of(words) }

// QuestionAs counts a stored user's message as an earlier question.
func (c *Counter) QuestionAs(h *transcript.Header) uint32 {
	if c.Format != chat.Text {
		return c.Scaled(int(h.Compressed[c.Encoding]))
	}
	return c.Scaled(c.Count(plan.EarlierQuestion(h.Turn)) + int(h.Content[c.Encoding]) + 1)
}

// Plain counts a message that is nothing but a text.
func (c *Counter) Plain(role plan.Role, text string) uint32 {
	return c.Scaled(c.PlainWords(role, text))
}

// PlainWords counts it before it is scaled.
func (c *Counter) PlainWords(role plan.Role, text string) int {
	if c.Format == chat.Text {
		return c.Count(text) + 1
	}
	n := tokens.Plain(role, text, c.Count)
	if c.Format == chat.AnthropicMessages && role != plan.RoleTool && strings.TrimSpace(text) == "" {
		n += c.Count(chat.Placeholder)
	}
	return n
}

// StandIn counts what stands in for a stored message and is nothing but a text.
func (c *Counter) StandIn(h *transcript.Header, text string) uint32 {
	if c.Format == chat.Text {
		return c.Scaled(c.Count(chat.Speaker(h.Role, h.Turn, h.Tool)) + c.Count(text) + 1)
	}
	return c.Plain(h.Role, text)
}

// Words counts a stored message in a format that has messages, and the part of it that is the message's own text.
func (c *Counter) Words(h *transcript.Header) (words, text uint32) {
	words, text = h.Words(c.Format, c.Encoding)
	if c.showsReasoning(h.Role) && h.Costs != nil {
		words += h.Costs.Thinking[c.Encoding]
	}
	return words, text
}

func (c *Counter) showsReasoning(role plan.Role) bool {
	return c.Reasoning && c.Format == chat.OpenAIChat && role == plan.RoleAssistant
}

// Retexted counts a stored message as if it had another text.
func (c *Counter) Retexted(h *transcript.Header, m *chat.Message, text string) uint32 {
	changed := *m
	changed.Text = text // its bytes are made where the window is rendered
	words, own := c.Words(h)
	n := int(words-own) + c.Count(changed.Shown())
	if c.Format == chat.AnthropicMessages && changed.Empty() {
		n += c.Count(chat.Placeholder)
	}
	return c.Scaled(n) + h.Media(c.Format, c.Pictures)
}

// Shown counts a message as it is shown in the place of a stored one.
func (c *Counter) Shown(h *transcript.Header, m *chat.Message) uint32 {
	n := c.Scaled(c.ShownWords(h, m))
	if c.Format != chat.Text {
		n += uint32(tokens.Of(c.Format, m).Media(c.Pictures))
	}
	return n
}

// ShownWords counts it without what no tokenizer counts.
func (c *Counter) ShownWords(h *transcript.Header, m *chat.Message) int {
	switch {
	case c.showsReasoning(m.Role):
		return tokens.Of(c.Format, m).Words(c.Count) + c.Count(m.Reasoning)
	case c.Format != chat.Text:
		return tokens.Of(c.Format, m).Words(c.Count)
	case m.Bare():
		return c.Count(m.Text) + 1
	case m.Role == plan.RoleAssistant && m.Flat() == "":
		return 0 // it has no line
	}
	return c.Count(chat.Speaker(h.Role, h.Turn, h.Tool)) + c.Count(m.Flat()) + 1
}

// NoticeTokens counts a system-class message.
func (c *Counter) NoticeTokens(text string) uint32 { return c.Scaled(c.NoticeWords(text)) }

// NoticeWords counts it before it is scaled.
func (c *Counter) NoticeWords(text string) int {
	if c.Format == chat.Text {
		return c.Count(text) + 1
	}
	return tokens.Notice(text, c.Count)
}

// QuestionTokens counts a user message that is a turn's earlier question. Both tokenizers begin a new piece at the blank
// before the text, so the text, which other turns may show too, is counted apart.
func (c *Counter) QuestionTokens(turn uint32, text string) uint32 {
	words := plan.EarlierQuestion(turn)
	last := len(words) - 1
	return c.Scaled(c.PlainWords(plan.RoleUser, words[:last]) + c.Count(words[last:]+text))
}
