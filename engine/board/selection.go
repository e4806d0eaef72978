package board

import (
	"context"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Filter selects entries. The zero value selects all.
type Filter struct {
	IsChat *bool
	Tags   []string   // the entry has all of them
	Text   string     // the entry contains all words of the text
	Since  *time.Time // the entry was made then or later
	Until  *time.Time // the entry was made before
}

// maxFilterTerms is the maximum number of tags and words in one filter.
const maxFilterTerms = 32

func (f *Filter) check() (words []string, err error) {
	words = Words(f.Text, maxFilterTerms+1)
	switch {
	case len(words) > maxFilterTerms:
		return nil, fault.InvalidField("q", "too_many", "must be at most %d words", maxFilterTerms)
	case len(f.Tags) > maxFilterTerms:
		return nil, fault.InvalidField("tags", "too_many", "must be at most %d", maxFilterTerms)
	case f.Text != "" && len(words) == 0:
		return nil, fault.InvalidField("q", "invalid_value", "must contain a letter or a digit")
	}
	return words, nil
}

// Selection is a filter in terms of the index: the entries numbered First to Last that have all of some terms and lack
// another term. Callers may narrow it.
type Selection struct {
	First, Last uint64
	// Counted means that the number of selected entries is known or not needed. Page then reads only as much as it
	// needs.
	Counted bool

	db      *records.DB
	tenant  string
	series  ident.Incarnation
	all     []string
	lacking string // "" means none
	total   uint64 // if Counted
}

// Choose returns the selection of a series' current entries that match a filter. It returns too_many or invalid_value
// if the filter is invalid.
func Choose(ctx context.Context, db *records.DB, tenant string, of *Series, f *Filter) (*Selection, error) {
	words, err := f.check()
	if err != nil {
		return nil, err
	}
	s := &Selection{First: 1, Last: of.Last, db: db, tenant: tenant, series: of.Incarnation}
	for _, tag := range f.Tags {
		s.all = append(s.all, termTag+tag)
	}
	for _, word := range words {
		s.all = append(s.all, termWord+word)
	}
	if s.Counted = s.all == nil && f.Since == nil && f.Until == nil; s.Counted {
		s.total = of.Entries
	}
	if f.IsChat != nil && *f.IsChat {
		s.all, s.total = append(s.all, TermChat), of.Chat
	} else if f.IsChat != nil {
		s.lacking, s.total = TermChat, of.Entries-of.Chat
	}
	if len(s.all) == 0 {
		s.all = []string{TermAll}
	}
	slices.Sort(s.all)
	s.all = slices.Compact(s.all)
	return s, s.bound(ctx, f)
}

// bound narrows a selection to the times of a filter. Times never decrease, so a range of times is a range of numbers.
func (s *Selection) bound(ctx context.Context, f *Filter) error {
	if f.Since == nil && f.Until == nil {
		return nil
	}
	first := records.EntryTime.Under(s.series)
	first.Limit, first.KeysOnly = 1, true
	last := first
	last.Reverse = true
	if f.Since != nil {
		first.From = records.EntryTime.Key(s.series, ceilMS(*f.Since), 0)
	}
	if f.Until != nil {
		last.To = records.EntryTime.Key(s.series, ceilMS(*f.Until), 0)
	}
	r, err := s.db.Store.Read(ctx, s.tenant, store.Query{Ranges: []store.Range{first, last}})
	if err != nil {
		return err
	}
	if len(r.Ranges[0]) == 0 || len(r.Ranges[1]) == 0 {
		s.Last = 0
		return nil
	}
	_, _, oldest, _ := records.EntryTime.Split(r.Ranges[0][0].Key)
	_, _, newest, _ := records.EntryTime.Split(r.Ranges[1][0].Key)
	s.First, s.Last = oldest, min(s.Last, newest)
	return nil
}

// ceilMS returns the first millisecond not before t, because the times of entries are in milliseconds. The result is
// never before 1970.
func ceilMS(t time.Time) time.Time {
	return records.TimeOf(max(0, t.Add(time.Millisecond-1).UnixMilli()))
}

// found are the selected numbers of one block.
type found struct {
	block uint64
	Block
}

// find reads the blocks from low to high in one snapshot and returns those that contain selected numbers, in ascending
// order.
func (s *Selection) find(ctx context.Context, low, high uint64) ([]found, error) {
	terms := s.all
	if s.lacking != "" {
		terms = append(slices.Clip(terms), s.lacking)
	}
	q := store.Query{Ranges: make([]store.Range, len(terms))}
	for i, term := range terms {
		q.Ranges[i] = store.Range{From: records.Postings.Key(s.series, term, low),
			To: records.Postings.Key(s.series, term, high+1)}
	}
	r, err := s.db.Store.Read(ctx, s.tenant, q)
	if err != nil {
		return nil, err
	}
	var out []found
	for _, it := range r.Ranges[0] {
		f := found{block: blockOf(it)}
		if f.Block, err = DecodePostings(it); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	for i, items := range r.Ranges[1:] {
		lacking := i+1 == len(s.all)
		byBlock := map[uint64]store.Item{}
		for _, it := range items {
			byBlock[blockOf(it)] = it
		}
		kept := out[:0]
		for _, f := range out {
			it, ok := byBlock[f.block]
			if !ok && !lacking {
				continue
			}
			has, err := DecodePostings(it)
			if err != nil {
				return nil, err
			}
			if lacking {
				f.AndNot(&has)
			} else {
				f.And(&has)
			}
			kept = append(kept, f)
		}
		out = kept
	}
	for i := range out {
		out[i].Between(out[i].block, s.First, s.Last)
	}
	return out, nil
}

// blockOf returns the number of the block in the key of postings.
func blockOf(it store.Item) uint64 {
	_, _, block, _ := records.Postings.Split(it.Key)
	return block
}

// Page returns the selected numbers on a page, in order, and how many are selected in all. If the selection is Counted,
// it reads only as much of the index as the page needs: one block, then four, then sixteen.
func (s *Selection) Page(ctx context.Context, ascending bool, skip, limit int) (seqs []uint64, total uint64,
	err error) {
	if s.First > s.Last {
		return nil, 0, nil
	}
	low, high, step := s.First/Size, s.Last/Size, uint64(1)
	for low <= high && !(s.Counted && len(seqs) >= limit) {
		from, to := low, high
		if s.Counted && ascending {
			to = min(high, low+step-1)
		} else if s.Counted {
			from = max(low, high-min(high, step-1))
		}
		blocks, err := s.find(ctx, from, to)
		if err != nil {
			return nil, 0, err
		}
		if !ascending {
			slices.Reverse(blocks)
		}
		for i := range blocks {
			n := blocks[i].Count()
			total += uint64(n)
			if skip < n && len(seqs) < limit {
				numbers := blocks[i].Numbers(blocks[i].block)
				if !ascending {
					slices.Reverse(numbers)
				}
				numbers = numbers[skip:]
				seqs = append(seqs, numbers[:min(len(numbers), limit-len(seqs))]...)
			}
			skip -= min(skip, n)
		}
		step *= 4
		if ascending {
			low = to + 1
		} else if from == low {
			break
		} else {
			high = from - 1
		}
	}
	if s.Counted {
		total = s.total
	}
	return seqs, total, nil
}
