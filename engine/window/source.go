package window

import (
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
	"github.com/seed-0906e6bc/mneme/engine/view"
)

// An assembly is a plan.Source: it tells plans of texts and of what they cost. Costs are counted in the rendering asked
// for, in the project's tokenizer.
var _ plan.Source = (*assembly)(nil)

// RowText is the text of a considered row, as stored or, where markdown was asked for, as it is shown.
func (a *assembly) RowText(at int32) (string, error) {
	r := a.rows[at]
	m, err := a.body(r)
	if err != nil {
		return "", err
	}
	if a.markdown && r.Role == plan.RoleTool {
		if _, err := a.body(a.rowOf(r.Call)); err != nil {
			return "", err
		}
		if shown := a.markdownOf(r); shown != nil {
			return shown.Text, nil
		}
	}
	return m.Text, nil
}

// load fetches the bodies of rows that are not in memory. One that cannot be read is marked damaged.
func (a *assembly) load(rows []*view.Row) error {
	damaged, err := a.svc.views.Load(a.ctx, a.view, rows)
	a.damage += damaged
	return err
}

// body gives a row's message, fetching it where it is not in memory.
func (a *assembly) body(r *view.Row) (*chat.Message, error) {
	if r.Message.Load() == nil {
		if err := a.load([]*view.Row{r}); err != nil {
			return nil, err
		}
	}
	if m := r.Message.Load(); m != nil {
		return m, nil
	}
	return nil, errReread
}

// Load fetches the bodies of considered rows in one round trip.
func (a *assembly) Load(at []int32) error {
	need := make([]*view.Row, len(at))
	for i, row := range at {
		need[i] = a.rows[row]
	}
	return a.load(need)
}

// Tool names the tool that an item answers for.
func (a *assembly) Tool(it *plan.Item) string { return a.rows[it.Row].Tool }

// Truncate cuts a text to at most that many tokens.
func (a *assembly) Truncate(text string, tokens int) string {
	return chat.Truncate(text, tokens, a.count)
}

// tokensOf counts a stored message in the rendering asked for, from its header.
func (a *assembly) tokensOf(r *view.Row) uint32 {
	if a.markdown && r.Role == plan.RoleTool {
		return max(1, a.countedMarkdown(r).Load()) - 1
	}
	if a.format == chat.Text {
		return a.svc.sessions.LineTokens(&r.Header, a.Encoding)
	}
	n := r.Tokens[a.Encoding]
	if a.format == chat.AnthropicMessages && r.Flags&transcript.FlagEmpty != 0 {
		n += uint32(chat.PlaceholderTokens(a.count))
	}
	return n
}

// countedMarkdown is where a result's token count as markdown is remembered.
func (a *assembly) countedMarkdown(r *view.Row) *atomic.Uint32 {
	if a.format == chat.Text {
		return &r.Body.Markdown[1][a.Encoding]
	}
	return &r.Body.Markdown[0][a.Encoding]
}

// compressedTokens counts a user's message as an earlier question in the rendering asked for.
func (a *assembly) compressedTokens(r *view.Row) uint32 {
	if a.format != chat.Text {
		return r.Compressed[a.Encoding]
	}
	return uint32(a.count(plan.EarlierQuestion(r.Turn))) + r.Header.Content[a.Encoding] + 1
}

// messageTokens counts a message that is nothing but a text, in the rendering asked for.
func (a *assembly) messageTokens(role plan.Role, text string) uint32 {
	if a.format == chat.Text {
		return uint32(a.count(text)) + 1
	}
	return a.renderedTokens(&chat.Message{Role: role, Text: text})
}

// renderedTokens counts a message in the format asked for, which is one that has messages.
func (a *assembly) renderedTokens(m *chat.Message) uint32 {
	n := m.Tokens(a.count)
	if a.format == chat.AnthropicMessages && m.Empty() {
		n += chat.PlaceholderTokens(a.count)
	}
	return uint32(n)
}

// countMarkdown counts the considered tool results as markdown, which takes their bodies; once for a session in memory.
func (a *assembly) countMarkdown() error {
	var need []*view.Row
	for _, r := range a.rows {
		if r.Role == plan.RoleTool && a.countedMarkdown(r).Load() == 0 && a.repair(r) == nil {
			need = append(need, r, a.rowOf(r.Call))
		}
	}
	if err := a.load(need); err != nil {
		return err
	}
	for i := 0; i < len(need); i += 2 {
		m := a.markdownOf(need[i])
		if m == nil {
			continue // damaged: its tokens are those of what replaces it
		}
		need[i].MarkdownBytes.Store(uint32(len(m.Text)))         // before the tokens, which say that both are known
		if tokens := a.tokensOfMarkdown(m); a.ctx.Err() == nil { // else they may be too few
			a.countedMarkdown(need[i]).Store(1 + tokens)
		}
	}
	return nil
}

func (a *assembly) tokensOfMarkdown(m *chat.Message) uint32 {
	if a.format == chat.Text {
		return uint32(a.count(m.Text)) + 1
	}
	return uint32(m.Tokens(a.count))
}

// TokensWith counts an item as if it had another text.
func (a *assembly) TokensWith(it *plan.Item, text string) (uint32, error) {
	switch {
	case it.Change == plan.Notice:
		return a.NoticeTokens(text), nil
	case it.Change == plan.Compressed:
		return a.messageTokens(plan.RoleUser, text), nil
	case it.Change == plan.Answer:
		return a.messageTokens(it.Role, text), nil
	case a.rows[it.Row].Damaged.Load() || a.format == chat.Text:
		return a.retextedTokens(a.rows[it.Row], text), nil
	}
	m, err := a.body(a.rows[it.Row])
	if err != nil {
		return 0, err
	}
	changed := *m
	changed.Text = text // its bytes are made where the window is rendered
	return a.renderedTokens(&changed), nil
}

// retextedTokens counts what stands in for a stored message and is nothing but a text.
func (a *assembly) retextedTokens(r *view.Row, text string) uint32 {
	if a.format == chat.Text {
		return uint32(a.count(chat.Speaker(r.Role, r.Turn, r.Tool)) + a.count(text) + 1)
	}
	return a.messageTokens(r.Role, text)
}

// NoticeTokens counts a system-class message.
func (a *assembly) NoticeTokens(text string) uint32 {
	if a.format == chat.Text {
		return uint32(a.count(text)) + 1
	}
	return uint32(chat.NoticeTokens(text, a.count))
}

// QuestionTokens counts a user message that is a turn's earlier question. Both tokenizers begin a new piece at the blank
// before the text, so the text, which other turns may show too, is counted apart.
func (a *assembly) QuestionTokens(turn uint32, text string) uint32 {
	words := plan.EarlierQuestion(turn)
	last := len(words) - 1
	return a.messageTokens(plan.RoleUser, words[:last]) + uint32(a.count(words[last:]+text))
}
