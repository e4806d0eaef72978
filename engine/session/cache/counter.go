package cache

import (
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Counter counts the tokens of messages in one rendering. "Words" are counts by the tokenizer; "tokens" are words
// scaled to the project's models.
type Counter struct {
	Format    chat.Format
	Encoding  int // in project.Encodings
	Scale     project.Scale
	Pictures  tokens.Rule
	Count     func(string) int // counts the words of a text
	Reasoning ReasoningShown   // of assistants, in a chat window
}

// Scaled converts a count of words to tokens.
func (c *Counter) Scaled(words int) uint32 { return c.Scale.Of(words) }

// QuestionAs counts a stored user message rendered as an earlier question.
func (c *Counter) QuestionAs(h *transcript.Header) uint32 {
	if c.Format != chat.Text {
		return c.Scaled(int(h.Compressed[c.Encoding]))
	}
	return c.Scaled(c.Count(plan.EarlierQuestion(h.Turn)) + int(h.Content[c.Encoding]) + 1)
}

// Plain counts a message that consists of one text.
func (c *Counter) Plain(role plan.Role, text string) uint32 {
	return c.Scaled(c.PlainWords(role, text))
}

// PlainWords is Plain before scaling.
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

// StandIn counts a plain text that replaces a stored message.
func (c *Counter) StandIn(h *transcript.Header, text string) uint32 {
	if c.Format == chat.Text {
		return c.Scaled(c.Count(chat.Speaker(h.Role, h.Turn, h.Tool)) + c.Count(text) + 1)
	}
	return c.Plain(h.Role, text)
}

// Words counts a stored message in a format that has messages. The second result is the part that the message's own
// text accounts for.
func (c *Counter) Words(h *transcript.Header) (words, text uint32) {
	words, text = h.Words(c.Format, c.Encoding)
	if c.ShowsReasoning(h.Role, h.Flags) && h.Costs != nil {
		words += h.Costs.Thinking[c.Encoding]
	}
	return words, text
}

// ReasoningShown says whose reasoning a chat window shows.
type ReasoningShown uint8

// The messages of assistants whose reasoning is shown.
const (
	NoReasoning      ReasoningShown = iota
	PendingReasoning                // those of the request
	AllReasoning
)

// ShowsReasoning reports whether a window shows the reasoning of a message with these flags.
func (c *Counter) ShowsReasoning(role plan.Role, flags plan.Flags) bool {
	return c.Format == chat.OpenAIChat && role == plan.RoleAssistant &&
		(c.Reasoning == AllReasoning || c.Reasoning == PendingReasoning && flags&plan.FlagPending != 0)
}

// Retexted counts a stored message with its text replaced.
func (c *Counter) Retexted(h *transcript.Header, m *chat.Message, text string) uint32 {
	changed := *m
	changed.Text = text // its bytes are made when the window is rendered
	words, own := c.Words(h)
	n := int(words-own) + c.Count(changed.Shown())
	if c.Format == chat.AnthropicMessages && changed.Empty() {
		n += c.Count(chat.Placeholder)
	}
	return c.Scaled(n) + h.Media(c.Format, c.Pictures)
}

// Shown counts a message that replaces a stored one in a window.
func (c *Counter) Shown(h *transcript.Header, m *chat.Message) uint32 {
	n := c.Scaled(c.ShownWords(h, m))
	if c.Format != chat.Text {
		n += uint32(tokens.Of(c.Format, m).Media(c.Pictures))
	}
	return n
}

// ShownWords is Shown before scaling, without pictures, pages and sound, which no tokenizer counts.
func (c *Counter) ShownWords(h *transcript.Header, m *chat.Message) int {
	switch {
	case c.ShowsReasoning(m.Role, h.Flags):
		return tokens.Of(c.Format, m).Words(c.Count) + c.Count(m.Reasoning)
	case c.Format != chat.Text:
		return tokens.Of(c.Format, m).Words(c.Count)
	case m.Bare():
		return c.Count(m.Flat()) + 1
	case m.Role == plan.RoleAssistant && m.Flat() == "":
		return 0 // it has no line
	}
	return c.Count(chat.Speaker(h.Role, h.Turn, h.Tool)) + c.Count(m.Flat()) + 1
}

// NoticeTokens counts a system-class message.
func (c *Counter) NoticeTokens(text string) uint32 { return c.Scaled(c.NoticeWords(text)) }

// NoticeWords is NoticeTokens before scaling.
func (c *Counter) NoticeWords(text string) int {
	if c.Format == chat.Text {
		return c.Count(text) + 1
	}
	return tokens.Notice(text, c.Count)
}

// QuestionTokens counts a user message rendered as an earlier question of a turn. Both tokenizers start a new piece at
// the blank before the text, so the text is counted separately, and its count can be reused for other turns.
func (c *Counter) QuestionTokens(turn uint32, text string) uint32 {
	words := plan.EarlierQuestion(turn)
	last := len(words) - 1
	return c.Scaled(c.PlainWords(plan.RoleUser, words[:last]) + c.Count(words[last:]+text))
}
