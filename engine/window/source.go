package window

import (
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
)

// An assembly is a plan.Source: it provides texts and token counts while plans are carried out. Tokens are counted by
// the project's tokenizer, in the requested rendering.
var _ plan.Source = (*assembly)(nil)

// RowText returns the text of a considered row: as stored, or as markdown if that was requested.
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
		if shown := a.markdownOf(r, nil); shown != nil {
			return shown.Text, nil
		}
	}
	return m.Text, nil
}

// load reads the bodies of rows that are not in memory. Rows whose body cannot be read are marked as damaged.
func (a *assembly) load(rows []*cache.Row) error {
	damaged, err := a.svc.views.Load(a.ctx, a.view, rows)
	a.damage += damaged
	return err
}

// body returns a row's message, and reads it if it is not in memory.
func (a *assembly) body(r *cache.Row) (*chat.Message, error) {
	if r.Message.Load() == nil {
		if err := a.load([]*cache.Row{r}); err != nil {
			return nil, err
		}
	}
	if m := r.Message.Load(); m != nil {
		return m, nil
	}
	return nil, errReread
}

// Load reads the bodies of considered rows in one round trip.
func (a *assembly) Load(at []int32) error {
	need := make([]*cache.Row, len(at))
	for i, row := range at {
		need[i] = a.rows[row]
	}
	return a.load(need)
}

// Tool returns the name of the tool whose call the item answers.
func (a *assembly) Tool(it *plan.Item) string { return a.rows[it.Row].Tool }

// tokensOf returns the tokens of a stored message in the requested rendering, from its header.
func (a *assembly) tokensOf(r *cache.Row) uint32 {
	var words uint32
	switch {
	case a.markdown && r.Role == plan.RoleTool:
		words = max(1, a.countedMarkdown(r).Load()) - 1
	case a.format == chat.Text:
		words = a.svc.sessions.LineTokens(&r.Header, a.Encoding)
	default:
		words, _ = a.Counter.Words(&r.Header)
	}
	return a.Scaled(int(words)) + r.Media(a.format, a.Pictures)
}

// countedMarkdown returns the cache entry for the token count of a result as markdown.
func (a *assembly) countedMarkdown(r *cache.Row) *atomic.Uint32 {
	return &r.Body.Markdown[a.format-1][a.Encoding]
}

// countMarkdown counts the tokens of the considered tool results as markdown, for which it reads their bodies. For
// sessions in memory, the counts are cached.
func (a *assembly) countMarkdown() error {
	var need []*cache.Row
	for _, r := range a.rows {
		if r.Role == plan.RoleTool && a.countedMarkdown(r).Load() == 0 && a.repair(r) == nil {
			need = append(need, r, a.rowOf(r.Call))
		}
	}
	if err := a.load(need); err != nil {
		return err
	}
	for i := 0; i < len(need); i += 2 {
		m := a.markdownOf(need[i], nil)
		if m == nil {
			continue // damaged; the tokens of its replacement count
		}
		need[i].MarkdownBytes.Store(uint32(len(m.Text))) // before the tokens, which mark both as known
		words := a.ShownWords(&need[i].Header, m)
		if a.ctx.Err() == nil { // otherwise the count may be too low
			a.countedMarkdown(need[i]).Store(1 + uint32(words))
		}
	}
	return nil
}

// showsDocuments reports whether the window's format shows documents of a tool's message as text, so that they cost the
// same as the message's own.
func (a *assembly) showsDocuments(r *cache.Row, m *chat.Message) bool {
	return m.Role == plan.RoleTool && m.Format != a.format && r.HasDocuments(m)
}

// TokensWith returns the tokens of an item if it had another text.
func (a *assembly) TokensWith(it *plan.Item, text string) (uint32, error) {
	with := uint32(0) // tokens of the reminder before the message
	if shown := a.memories.Of(it); shown != nil {
		with = shown.Tokens
	}
	switch {
	case it.Change == plan.Notice:
		return a.NoticeTokens(text), nil
	case it.Change == plan.Compressed:
		return a.Plain(plan.RoleUser, text), nil
	case it.Change == plan.Answer:
		return a.Plain(it.Role, text), nil
	case a.rows[it.Row].Damaged.Load() || a.format == chat.Text && it.Role != plan.RoleTool:
		return with + a.StandIn(&a.rows[it.Row].Header, text), nil
	}
	r := a.rows[it.Row]
	m, err := a.body(r)
	if err != nil {
		return 0, err
	}
	if it.Edit == nil && !a.showsDocuments(r, m) {
		if a.format == chat.Text {
			return with + a.StandIn(&r.Header, text), nil
		}
		return with + a.Retexted(&r.Header, m, text), nil
	}
	changed := m.Edited(it.Edit)
	changed = changed.WithText(text)
	return with + a.Counter.Shown(&r.Header, &changed), nil
}
