package window

import (
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
)

// overBudget returns the tokens of the mandatory messages in the table, and whether they exceed the budget.
func (a *assembly) overBudget() (needed uint64, over bool) {
	law := a.law(a.limits)
	_, needed = law.Cost(a.table.items, plan.FlagMandatory)
	return needed, a.limits.tokens > 0 && needed > uint64(a.limits.tokens)
}

// shorten cuts texts in the table until the mandatory messages fit, or returns budget_too_small. The result depends
// only on the table and the limits. The decision records that texts were cut, and a replay cuts them first.
func (a *assembly) shorten() error {
	fates, fits, err := plan.Shorten(a.table.items, a.law(a.limits), a)
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

// tooManyTokens returns budget_too_small for mandatory messages with so many tokens.
func (a *assembly) tooManyTokens(needed uint64) error {
	return fault.MustStay("tokens", int(needed)+int(a.limits.primer), int(a.limits.budget))
}

// Truncated returns an item's text cut to at most size tokens, and the tokens of the item with that text. For sessions
// in memory, cut texts are cached.
func (a *assembly) Truncated(it *plan.Item, size int, note string) (string, uint32, error) {
	defer func(charged func(string) int) { a.Count = charged }(a.Count)
	a.Count = a.uncharged
	how := cache.Of{Tokens: uint32(size), Encoding: uint8(a.Encoding), Format: a.format, Scale: a.Settings.TokenScale,
		Pictures: a.Pictures, Markdown: a.markdown, Note: note}
	if it.Change == plan.Unchanged && it.Edit == nil {
		if c := a.rows[it.Row].Cut.Load(); c != nil && c.Of == how {
			return c.Text, c.Tokens, nil
		}
	}
	text, err := plan.TextOf(it, a)
	if err != nil {
		return "", 0, err
	}
	bare, err := a.TokensWith(it, "")
	if err != nil {
		return "", 0, err
	}
	// The tokens of a text are those of its message less those of the message without it, within a few at the seams.
	const few = 4
	scale, has := a.Settings.TokenScale, tokens.Uncounted
	if n := int(it.Tokens) - int(bare); n > size+few {
		has = scale.Within(n)
	}
	cut, _ := tokens.Known(text, has, scale.Within(size), note, a.Count)
	cost, err := a.TokensWith(it, cut)
	if err == nil && it.Change == plan.Unchanged && it.Edit == nil && a.ctx.Err() == nil {
		a.rows[it.Row].Cut.Store(&cache.Cut{Of: how, Text: cut, Tokens: cost})
	}
	return cut, cost, err
}
