package window

import (
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
)

// overBudget returns the tokens of the mandatory messages in the table, and whether they exceed the budget.
func (a *assembly) overBudget() (needed uint64, over bool) {
	law := a.law(a.limits)
	_, needed = law.Cost(a.table.guarded, plan.FlagMandatory)
	return needed, a.limits.tokens > 0 && needed > uint64(a.limits.tokens)
}

// shorten cuts texts in the table until the mandatory messages fit, or returns budget_too_small. The result depends
// only on the table and the limits. The decision records that texts were cut, and a replay cuts them first.
func (a *assembly) shorten() error {
	fates, fits, err := plan.Shorten(a.table.guarded, a.law(a.limits), a)
	if err != nil {
		return err
	}
	if !fits {
		needed, _ := a.overBudget()
		return a.tooManyTokens(needed)
	}
	for _, f := range fates {
		a.table.fates[f.Row] = f.Fate
	}
	a.shortened = true
	return nil
}

// tooManyTokens returns budget_too_small for mandatory messages with n tokens.
func (a *assembly) tooManyTokens(needed uint64) error {
	return fault.MustStay("tokens", int(needed)+int(a.limits.primer), int(a.limits.budget))
}

// Truncated shortens an item's texts. For sessions in memory, the result is cached.
func (a *assembly) Truncated(it *plan.Item, size int, note string) (plan.Cut, error) {
	defer func(charged func(string) int) { a.Count = charged }(a.Count)
	a.Count = a.uncharged
	how := cache.Of{Limit: uint32(size), Encoding: uint8(a.Encoding), Format: a.format, Scale: a.Settings.TokenScale,
		Pictures: a.Pictures, Markdown: a.markdown, Note: note}
	stored := it.Change == plan.Unchanged && it.Edit == nil
	if stored {
		if c := a.rows[it.Row].Cut.Load(); c != nil && c.Of == how {
			return c.Cut, nil
		}
	}
	cut, err := a.truncate(it, size, note)
	if err == nil && stored && a.ctx.Err() == nil {
		a.rows[it.Row].Cut.Store(&cache.Cut{Of: how, Cut: cut})
	}
	return cut, err
}

func (a *assembly) truncate(it *plan.Item, size int, note string) (cut plan.Cut, err error) {
	if cut.Text, err = plan.TextOf(it, a); err != nil {
		return cut, err
	}
	documents, _, err := a.documentsOf(it)
	if err != nil {
		return cut, err
	}
	with, limit := *it, a.Settings.TokenScale.Within(size)
	if len(documents) > 0 {
		cut.Text, cut.Documents = a.truncateAll(cut.Text, documents, limit, note)
		if cut.Documents != nil {
			with.Edit = with.Edit.WithDocuments(cut.Documents)
		}
	} else {
		bare, err := a.TokensWith(it, "")
		if err != nil {
			return cut, err
		}
		// The tokens of a text are those of its message minus those of the message without it, give or take a few at
		// the seams.
		const few = 4
		has := tokens.Uncounted
		if n := int(it.Tokens) - int(bare); n > size+few {
			has = a.Settings.TokenScale.Within(n)
		}
		cut.Text, _ = tokens.Known(cut.Text, has, limit, note, a.Count)
	}
	cut.Tokens, err = a.TokensWith(&with, cut.Text)
	return cut, err
}

// truncateAll shortens a text and the texts of the documents that the window shows, to limit words together. The second
// result is nil if no document is shortened.
func (a *assembly) truncateAll(text string, documents []document, limit int, note string) (string, []string) {
	texts := make([]string, 0, 1+len(documents))
	texts = append(texts, text)
	for i := range documents {
		if documents[i].shown {
			texts = append(texts, documents[i].Text)
			continue
		}
		texts = append(texts, "")
	}
	shortened := false
	for i, share := range tokens.Shares(texts, limit, a.Count) {
		whole := texts[i]
		if texts[i], _ = tokens.Known(whole, tokens.Uncounted, share, note, a.Count); texts[i] == "" && whole != "" {
			texts[i] = plan.Placeholder // Anthropic allows no empty text
		}
		shortened = shortened || i > 0 && texts[i] != whole
	}
	if !shortened {
		return texts[0], nil
	}
	for i := range documents {
		if !documents[i].shown {
			texts[1+i] = documents[i].Text
		}
	}
	return texts[0], texts[1:]
}

// document is a text in a tool's message in addition to the message's own.
type document struct {
	chat.Document
	shown bool // in the window's format
}

// documentsOf returns the documents of a tool's message with all changes so far, and whether it has others that are not
// text.
func (a *assembly) documentsOf(it *plan.Item) (documents []document, others bool, err error) {
	if it.Role != plan.RoleTool || it.Change > plan.Retexted || a.rows[it.Row].Damaged.Load() {
		return nil, false, nil
	}
	r := a.rows[it.Row]
	m, err := a.body(r)
	if err != nil || !r.HasDocuments(m) {
		return nil, false, err
	}
	list, others := m.Documents()
	var edit plan.Edit
	if it.Edit != nil {
		edit = *it.Edit
	}
	for i := range list {
		d := document{list[i], m.Format == a.format || !list[i].File}
		if edit.Documents != nil {
			d.Text = edit.Documents[i]
		}
		if edit.Strip&(plan.PartText|d.Part) != 0 {
			d.shown = false
		}
		documents = append(documents, d)
	}
	return documents, others, nil
}

// Documents describes the documents of a tool's message.
func (a *assembly) Documents(it *plan.Item) (bytes int, held plan.Flags, err error) {
	held = it.Flags & (plan.FlagImage | plan.FlagAudio | plan.FlagDocument)
	documents, others, err := a.documentsOf(it)
	if err != nil || len(documents) == 0 {
		return 0, held, err
	}
	for i := range documents {
		if documents[i].shown {
			bytes += len(documents[i].Text)
		} else if documents[i].File {
			others = true
		}
	}
	if !others {
		held &^= plan.FlagDocument
	}
	return bytes, held, nil
}

// Bare returns the tokens of an item without its text and the texts of a tool's documents.
func (a *assembly) Bare(it *plan.Item) (uint32, error) {
	documents, _, err := a.documentsOf(it)
	if err != nil || len(documents) == 0 {
		tokens, err := a.TokensWith(it, "")
		return tokens, err
	}
	texts := make([]string, len(documents))
	for i := range documents {
		texts[i] = documents[i].Text
		if documents[i].shown {
			texts[i] = plan.Placeholder
		}
	}
	bare := *it
	bare.Edit = bare.Edit.WithDocuments(texts)
	return a.TokensWith(&bare, "")
}
