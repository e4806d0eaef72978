package board

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// maxFilterTerms bounds the tags and words of one filter.
	maxFilterTerms = 32
	// maxListBytes bounds the content of one page, in bytes.
	maxListBytes = 32 << 20
)

// selection is a filter in terms of the index: numbers from first to last that have all of some terms and not
// another.
type selection struct {
	all         []string
	not         string // "": nothing is left out
	first, last uint64
	counted     bool // total is known
	total       uint64
}

func (f *Filter) check() (words []string, err error) {
	words = wordsOf(f.Text, maxFilterTerms+1)
	switch {
	case len(words) > maxFilterTerms:
		return nil, fault.InvalidField("q", "too_many", "must be at most %d words", maxFilterTerms)
	case len(f.Tags) > maxFilterTerms:
		return nil, fault.InvalidField("tags", "too_many", "must be at most %d", maxFilterTerms)
	case f.Text != "" && len(words) == 0:
		return nil, fault.InvalidField("q", "invalid_value", "must hold a letter or a digit")
	}
	return words, nil
}

// choose turns a filter into a selection of what the board holds now.
func (svc *Service) choose(ctx context.Context, tenant string, b *Record, f *Filter) (s selection, err error) {
	words, err := f.check()
	if err != nil {
		return s, err
	}
	s = selection{first: 1, last: b.Last}
	for _, tag := range f.Tags {
		s.all = append(s.all, termTag+tag)
	}
	for _, word := range words {
		s.all = append(s.all, termWord+word)
	}
	if s.counted = s.all == nil && f.Since == nil && f.Until == nil; s.counted {
		s.total = b.Entries
	}
	if f.IsChat != nil && *f.IsChat {
		s.all, s.total = append(s.all, termTag+chatTag), b.Chat
	} else if f.IsChat != nil {
		s.not, s.total = termTag+chatTag, b.Entries-b.Chat
	}
	if len(s.all) == 0 {
		s.all = []string{termAll}
	}
	slices.Sort(s.all)
	s.all = slices.Compact(s.all)
	return s, svc.bound(ctx, tenant, b, f, &s)
}

// bound narrows a selection to the times of a filter: a board's times never go back, so they are numbers.
func (svc *Service) bound(ctx context.Context, tenant string, b *Record, f *Filter, s *selection) error {
	if f.Since == nil && f.Until == nil {
		return nil
	}
	first := records.EntryTime.Under(b.Incarnation)
	first.Limit, first.KeysOnly = 1, true
	last := first
	last.Reverse = true
	if f.Since != nil {
		first.From = records.EntryTime.Key(b.Incarnation, records.TimeOf(ceilMS(*f.Since)), 0)
	}
	if f.Until != nil {
		last.To = records.EntryTime.Key(b.Incarnation, records.TimeOf(ceilMS(*f.Until)), 0)
	}
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{first, last}})
	if err != nil {
		return err
	}
	if len(r.Ranges[0]) == 0 || len(r.Ranges[1]) == 0 {
		s.last = 0
		return nil
	}
	s.first = entryTimeSeq(r.Ranges[0][0].Key)
	s.last = min(s.last, entryTimeSeq(r.Ranges[1][0].Key))
	return nil
}

// found are the numbers of one block that a selection chooses.
type found struct {
	block uint64
	postings
}

// find reads the blocks from low to high that hold something chosen, ascending, all as of one moment.
func (s *selection) find(ctx context.Context, svc *Service, tenant string, b *Record, low, high uint64) ([]found, error) {
	terms := s.all
	if s.not != "" {
		terms = append(slices.Clip(terms), s.not)
	}
	q := store.Query{Ranges: make([]store.Range, len(terms))}
	for i, term := range terms {
		q.Ranges[i] = store.Range{From: records.Postings.Key(b.Incarnation, term, low), To: records.Postings.Key(b.Incarnation, term, high+1)}
	}
	r, err := svc.db.Store.Read(ctx, tenant, q)
	if err != nil {
		return nil, err
	}
	var out []found
	for i, items := range r.Ranges {
		if i == len(s.all) { // the terms that it must have are through; this one it must not have
			err = eachPostings(items, out, func(f *found, p *postings) { f.andNot(p) })
		} else if i == 0 {
			for _, it := range items {
				p, ok := decodePostings(it.Value)
				if !ok || it.Damaged {
					return nil, records.ErrDamaged
				}
				out = append(out, found{postingsBlock(it.Key), p})
			}
		} else {
			kept := make([]found, 0, min(len(items), len(out)))
			err = eachPostings(items, out, func(f *found, p *postings) {
				f.and(p)
				kept = append(kept, *f)
			})
			out = kept
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range out {
		out[i].between(out[i].block, s.first, s.last)
	}
	return out, nil
}

// eachPostings visits the blocks that both hold, ascending.
func eachPostings(items []store.Item, blocks []found, visit func(*found, *postings)) error {
	for i, j := 0, 0; i < len(items) && j < len(blocks); {
		switch block := postingsBlock(items[i].Key); {
		case block < blocks[j].block:
			i++
		case block > blocks[j].block:
			j++
		default:
			p, ok := decodePostings(items[i].Value)
			if !ok || items[i].Damaged {
				return records.ErrDamaged
			}
			visit(&blocks[j], &p)
			i++
			j++
		}
	}
	return nil
}

// page gives the numbers that a selection chooses, in order, and how many it chooses in all. Where that is known
// beforehand, it reads no more of the index than the page needs.
func (s *selection) page(ctx context.Context, svc *Service, tenant string, b *Record, ascending bool, skip, limit int) (
	seqs []uint64, total uint64, err error) {
	if s.first > s.last {
		return nil, 0, nil
	}
	low, high, step := s.first/blockSize, s.last/blockSize, uint64(1)
	for low <= high && !(s.counted && len(seqs) >= limit) {
		from, to := low, high
		if s.counted && ascending {
			to = min(high, low+step-1)
		} else if s.counted {
			from = max(low, high-min(high, step-1))
		}
		blocks, err := s.find(ctx, svc, tenant, b, from, to)
		if err != nil {
			return nil, 0, err
		}
		if !ascending {
			slices.Reverse(blocks)
		}
		for i := range blocks {
			n := blocks[i].count()
			total += uint64(n)
			if skip < n && len(seqs) < limit {
				seqs = append(seqs, blocks[i].part(ascending, skip, limit-len(seqs))...)
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
	if s.counted {
		total = s.total
	}
	return seqs, total, nil
}

// part gives some of a block's numbers, in order.
func (f *found) part(ascending bool, skip, limit int) []uint64 {
	numbers := f.numbers(nil, f.block)
	if !ascending {
		slices.Reverse(numbers)
	}
	numbers = numbers[skip:]
	return numbers[:min(len(numbers), limit)]
}

// ListEntries gives a page of a board's entries, found by index alone.
func (svc *Service) ListEntries(ctx context.Context, c access.Caller, id string, q Query) (out Page, err error) {
	limit, _, err := records.Page{Limit: q.Limit}.Decode()
	if err != nil {
		return out, err
	}
	if q.Offset < 0 {
		return out, fault.InvalidField("offset", "out_of_range", "must not be negative")
	}
	for before := uint64(0); ; {
		b, err := svc.read(ctx, c, id)
		if err != nil {
			return out, err
		}
		s, err := svc.choose(ctx, c.Tenant, b, &q.Filter)
		if err != nil {
			return out, err
		}
		seqs, total, err := s.page(ctx, svc, c.Tenant, b, q.Ascending, q.Offset, limit)
		if err != nil {
			return out, err
		}
		entries, err := svc.readEntries(ctx, c.Tenant, b, seqs, maxListBytes, b.Revision == before)
		if errors.Is(err, errEntryGone) {
			before = b.Revision // it was deleted while the page was read, unless the board is as it was then
			continue
		}
		if err != nil {
			return out, err
		}
		if len(entries) < len(seqs) {
			return out, fault.Errorf(fault.TooLarge, "page_too_large", "%d entries have more than %d bytes; ask for limit=%d or less",
				len(seqs), maxListBytes, len(entries))
		}
		out = Page{Items: make([]Entry, len(entries)), Total: total, Limit: limit, Offset: q.Offset}
		for i, s := range entries {
			out.Items[i] = s.shown(b)
		}
		return out, nil
	}
}
