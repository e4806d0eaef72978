package board

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board/postings"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Entries are found by terms: one that all entries have, each of their tags and each of their words. A term begins with a
// letter that says what it is.
const (
	termAll  = "a"
	termTag  = "t"
	termWord = "w"
)

// maxWords bounds the words by which one entry is found, because all are written in one commit.
const maxWords = 8000

// termsOf gives the terms that an entry is found by.
func termsOf(e *storedEntry) []string {
	out := []string{termAll}
	for _, tag := range e.Tags {
		out = append(out, termTag+tag)
	}
	for _, word := range postings.Words(e.content, maxWords) {
		out = append(out, termWord+word)
	}
	return out
}

// places are the numbers of entries that are to be found by terms, or no longer: by the keys of the postings that change.
type places map[string][]uint64

func (p places) add(board ident.Incarnation, seq uint64, terms []string) {
	for _, term := range terms {
		key := string(records.Postings.Key(board, term, seq/postings.Size))
		p[key] = append(p[key], seq)
	}
}

func (p places) keys() [][]byte {
	out := make([][]byte, 0, len(p))
	for _, key := range slices.Sorted(maps.Keys(p)) {
		out = append(out, []byte(key))
	}
	return out
}

// put writes the postings, which were read by their keys, with each number set or cleared. Empty ones are deleted.
func (p places) put(t *records.Tx, read []store.Item, change func(*postings.Block, uint64)) error {
	for _, it := range read {
		block, err := decodePostings(it)
		if err != nil {
			return err
		}
		for _, seq := range p[string(it.Key)] {
			change(&block, seq)
		}
		if block.Count() == 0 {
			t.Delete(it.Key)
		} else {
			t.Put(it.Key, block.Encode())
		}
	}
	return nil
}

// decodePostings reads a record of postings. Where there is none, the set is empty.
func decodePostings(it store.Item) (postings.Block, error) {
	block, ok := postings.Decode(it.Value)
	if it.Damaged || !ok {
		return block, records.ErrDamaged
	}
	return block, nil
}

// selection is a filter in terms of the index: the entries numbered from first to last that have all of some terms and
// lack another.
type selection struct {
	svc         *Service
	tenant      string
	board       ident.Incarnation
	all         []string
	lacking     string // "": no term has to be lacking
	first, last uint64
	counted     bool // total is known
	total       uint64
}

// choose turns a filter into a selection of what the board holds now.
func (svc *Service) choose(ctx context.Context, tenant string, b *boardRecord, f *Filter) (*selection, error) {
	words, err := f.check()
	if err != nil {
		return nil, err
	}
	s := &selection{svc: svc, tenant: tenant, board: b.Incarnation, first: 1, last: b.Last}
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
		s.lacking, s.total = termTag+chatTag, b.Entries-b.Chat
	}
	if len(s.all) == 0 {
		s.all = []string{termAll}
	}
	slices.Sort(s.all)
	s.all = slices.Compact(s.all)
	return s, s.bound(ctx, f)
}

// bound narrows a selection to the times of a filter. The times of a board never go back, so they bound numbers.
func (s *selection) bound(ctx context.Context, f *Filter) error {
	if f.Since == nil && f.Until == nil {
		return nil
	}
	first := records.EntryTime.Under(s.board)
	first.Limit, first.KeysOnly = 1, true
	last := first
	last.Reverse = true
	if f.Since != nil {
		first.From = records.EntryTime.Key(s.board, ceilMS(*f.Since), 0)
	}
	if f.Until != nil {
		last.To = records.EntryTime.Key(s.board, ceilMS(*f.Until), 0)
	}
	r, err := s.svc.db.Store.Read(ctx, s.tenant, store.Query{Ranges: []store.Range{first, last}})
	if err != nil {
		return err
	}
	if len(r.Ranges[0]) == 0 || len(r.Ranges[1]) == 0 {
		s.last = 0
		return nil
	}
	_, _, oldest, _ := records.EntryTime.Split(r.Ranges[0][0].Key)
	_, _, newest, _ := records.EntryTime.Split(r.Ranges[1][0].Key)
	s.first, s.last = oldest, min(s.last, newest)
	return nil
}

// ceilMS is the first millisecond that is not before t, because entries are dated to the millisecond. It is never before
// 1970.
func ceilMS(t time.Time) time.Time {
	return records.TimeOf(max(0, t.Add(time.Millisecond-1).UnixMilli()))
}

// found are the chosen numbers of one block.
type found struct {
	block uint64
	postings.Block
}

// find reads the blocks from low to high and gives those that hold a chosen number, ascending, all as of one moment.
func (s *selection) find(ctx context.Context, low, high uint64) ([]found, error) {
	terms := s.all
	if s.lacking != "" {
		terms = append(slices.Clip(terms), s.lacking)
	}
	q := store.Query{Ranges: make([]store.Range, len(terms))}
	for i, term := range terms {
		q.Ranges[i] = store.Range{From: records.Postings.Key(s.board, term, low), To: records.Postings.Key(s.board, term, high+1)}
	}
	r, err := s.svc.db.Store.Read(ctx, s.tenant, q)
	if err != nil {
		return nil, err
	}
	var out []found
	for _, it := range r.Ranges[0] {
		f := found{block: blockOf(it)}
		if f.Block, err = decodePostings(it); err != nil {
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
			has, err := decodePostings(it)
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
		out[i].Between(out[i].block, s.first, s.last)
	}
	return out, nil
}

// blockOf reads the number of the block out of the key of postings.
func blockOf(it store.Item) uint64 {
	_, _, block, _ := records.Postings.Split(it.Key)
	return block
}

// page gives the numbers that a selection chooses, in order, and how many it chooses in all. Where that is known
// beforehand, it reads no more of the index than the page needs: one block, then four at a time, then sixteen.
func (s *selection) page(ctx context.Context, ascending bool, skip, limit int) (seqs []uint64, total uint64, err error) {
	if s.first > s.last {
		return nil, 0, nil
	}
	low, high, step := s.first/postings.Size, s.last/postings.Size, uint64(1)
	for low <= high && !(s.counted && len(seqs) >= limit) {
		from, to := low, high
		if s.counted && ascending {
			to = min(high, low+step-1)
		} else if s.counted {
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
	if s.counted {
		total = s.total
	}
	return seqs, total, nil
}
