package window

import (
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
)

// Sees reports whether the viewer may see an item.
func (a *assembly) Sees(it *plan.Item) bool {
	law := a.law(a.limits)
	return law.MaySee(it.Delegation)
}

// Literals returns the literals of considered rows as stored.
func (a *assembly) Literals(at []int32) ([]literal.List, error) {
	var need []*cache.Row
	for _, row := range at {
		if r := a.rows[row]; !r.Header.Literals.Known() && r.Body.Literals.Load() == nil {
			need = append(need, r)
		}
	}
	if err := a.load(need); err != nil {
		return nil, err
	}
	for _, r := range need {
		m, err := a.body(r)
		if err != nil {
			return nil, err
		}
		list := m.Literals()
		r.Body.Literals.Store(&list)
	}
	lists := make([]literal.List, len(at))
	for i, row := range at {
		r := a.rows[row]
		if lists[i] = r.Header.Literals; !lists[i].Known() {
			lists[i] = *r.Body.Literals.Load()
		}
	}
	return lists, nil
}

// howShort says how the window's texts are shortened to n tokens.
func (a *assembly) howShort(size uint32) cache.Of {
	return cache.Of{Limit: size, Encoding: uint8(a.Encoding), Format: a.format, Scale: a.Settings.TokenScale}
}

// Ledger returns the text of a ledger that fits into a number of tokens. Consecutive windows usually have the same.
func (a *assembly) Ledger(l *plan.Ledger, size uint32) (text string, cost uint32, without int) {
	defer func(charged func(string) int) { a.Count = charged }(a.Count)
	a.Count = a.uncharged
	how, whole, kept := a.howShort(size), l.Text(0), &a.rows[l.Row].Body.Ledger
	if was := kept.Load(); was != nil && was.Of == how && was.Whole == whole {
		return was.Text, was.Tokens, was.Without
	}
	without = l.Fit(int(size), func(text string) int { return int(a.Scaled(a.Count(text))) })
	text = l.Text(without)
	cost = a.NoticeTokens(text)
	if a.ctx.Err() == nil { // otherwise counts may be too low
		kept.Store(&cache.Ledger{Of: how, Whole: whole, Text: text, Tokens: cost, Without: without})
	}
	return text, cost, without
}

// ShortQuestion shortens the text of an earlier question, whose message may cost plan.QuestionOverhead more.
func (a *assembly) ShortQuestion(it *plan.Item, text string, size uint32) (short string, cost uint32) {
	defer func(charged func(string) int) { a.Count = charged }(a.Count)
	a.Count = a.uncharged
	how, kept := a.howShort(size), &a.rows[it.Row].Question
	if was := kept.Load(); was != nil && was.Of == how && was.Whole == text {
		return was.Text, was.Tokens
	}
	most := size + plan.QuestionOverhead
	room := int(size)
	for {
		short = tokens.Short(text, a.Settings.TokenScale.Within(room), a.Count)
		if cost = a.QuestionTokens(it.Turn, short); cost <= most || room == 0 {
			break
		}
		room = max(0, room-int(cost-most))
	}
	if a.ctx.Err() == nil {
		kept.Store(&cache.Question{Of: how, Whole: text, Text: short, Tokens: cost})
	}
	return short, cost
}
