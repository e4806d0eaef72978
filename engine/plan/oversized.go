package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// ShortLength is a length in tokens. The host cuts an oversized text to this length, doubled or halved any number of
// times. Because few lengths are possible, the next window, whose budget is usually similar, cuts the text in the same
// way.
const ShortLength = 256

// Shorten cuts the texts of mandatory messages until they fit into the budget: first tool results with their documents,
// largest first, and then the texts of assistants. If texts of at least ShortLength allow it, it leaves a quarter of the budget to the
// rest of the history. User messages are not changed. items is a table before the first step; it is changed in place.
// Shorten returns the fates of the rows that it cut, and whether the mandatory messages now fit.
func Shorten(items []Item, law Law, src Source) (fates []RowFate, fits bool, err error) {
	s := shortening{items: items, law: law, src: src}
	if err := s.measure(); err != nil {
		return nil, false, err
	}
	budget := int64(law.BudgetTokens)
	for _, attempt := range [...]struct {
		target int64
		least  uint32
	}{{budget - budget/4, ShortLength}, {budget, ShortLength}, {budget, 1}} {
		// A sender's name may share a token with the text after it, so a cut text can cost a little more than computed.
		for target := attempt.target; s.lengths(target, attempt.least); {
			if err := s.cut(); err != nil {
				return nil, false, err
			}
			_, tokens := law.Cost(items, FlagMandatory)
			if tokens <= uint64(budget) {
				return s.fates(), true, nil
			}
			target -= int64(tokens) - budget
		}
	}
	return s.fates(), false, nil
}

// shortening is the state of Shorten.
type shortening struct {
	items   []Item
	law     Law
	src     Source
	results []shortened
	texts   []shortened // of assistants
	rest    int64       // tokens of the mandatory messages without these texts
}

// shortened is one text.
type shortened struct {
	at     int    // index of its item
	was    Item   // before it was cut
	size   uint32 // its tokens
	length uint32 // tokens to cut it to
}

// measure reads the texts that may be cut.
func (s *shortening) measure() error {
	var rows []int32
	may := func(it *Item) bool {
		return it.Flags&FlagMandatory != 0 && (it.Role == RoleTool || it.Role == RoleAssistant) &&
			(it.Change == Unchanged || it.Change == Retexted)
	}
	for i := range s.items {
		if it := &s.items[i]; may(it) && it.Change == Unchanged {
			rows = append(rows, it.Row)
		}
	}
	if err := s.src.Load(rows); err != nil {
		return err
	}
	_, tokens := s.law.Cost(s.items, FlagMandatory)
	s.rest = int64(tokens)
	for i := range s.items {
		it := &s.items[i]
		if !may(it) {
			continue
		}
		bare, err := s.src.Bare(it)
		if err != nil {
			return err
		}
		if bare >= it.Tokens {
			continue
		}
		t := shortened{at: i, was: *it, size: it.Tokens - bare}
		s.rest -= int64(t.size)
		if it.Role == RoleTool {
			s.results = append(s.results, t)
		} else {
			s.texts = append(s.texts, t)
		}
	}
	return nil
}

// lengths computes the lengths, none below least, to which the texts must be cut so that the mandatory messages have at
// most target tokens. It reports whether that is possible.
func (s *shortening) lengths(target int64, least uint32) bool {
	for _, texts := range [...][]shortened{s.results, s.texts} {
		for i := range texts {
			texts[i].length = texts[i].size
		}
	}
	room := target - s.rest
	return lower(s.results, room-sum(s.texts), least) || lower(s.texts, room-sum(s.results), least)
}

func sum(texts []shortened) (n int64) {
	for i := range texts {
		n += int64(texts[i].length)
	}
	return n
}

// lower halves the largest length repeatedly until the sum of all lengths is at most room. Every changed length is
// ShortLength times a power of two. It reports whether it succeeded.
func lower(texts []shortened, room int64, least uint32) bool {
	total, longest := sum(texts), uint32(ShortLength)
	order := make([]int, len(texts))
	for i := range texts {
		for order[i] = i; longest < texts[i].length && longest <= 1<<30; {
			longest *= 2
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(texts[b].length, texts[a].length) })
	for length := longest; length >= least && total > room; length /= 2 {
		for _, i := range order {
			if total > room && texts[i].length > length {
				total -= int64(texts[i].length - length)
				texts[i].length = length
			}
		}
	}
	return total <= room
}

// cut cuts the texts of the items to the computed lengths.
func (s *shortening) cut() error {
	for _, texts := range [...][]shortened{s.results, s.texts} {
		for i := range texts {
			t := &texts[i]
			it := &s.items[t.at]
			*it = t.was
			if t.length == t.size {
				continue
			}
			_, held, err := s.src.Documents(&t.was)
			if err != nil {
				return err
			}
			cut, err := s.src.Truncated(&t.was, int(t.length), stay(held))
			if err != nil {
				return err
			}
			it.Change, it.Text, it.TextBytes, it.Tokens, it.Step = Retexted, cut.Text, uint32(len(cut.Text)), cut.Tokens, -1
			it.Edit = it.Edit.cut(&cut)
			it.Reason = fmt.Sprintf("oversized: what must stay exceeds the budget of %d tokens; its text of %d is cut "+
				"to %d", s.law.BudgetTokens, t.size, t.length)
		}
	}
	return nil
}

// fates returns the fates of the rows whose texts were cut.
func (s *shortening) fates() (fates []RowFate) {
	for _, texts := range [...][]shortened{s.results, s.texts} {
		for i := range texts {
			if t := &texts[i]; t.length < t.size {
				it := &s.items[t.at]
				fates = append(fates, RowFate{it.Row, Fate{Action: Truncate, Step: -1, Reason: it.Reason}})
			}
		}
	}
	return fates
}
