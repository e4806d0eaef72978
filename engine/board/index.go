package board

import (
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Entries are found by terms: one that all entries have, each of their tags and each of their words. A term begins with
// a letter that says what it is.
const (
	TermAll  = "a"
	termTag  = "t"
	termWord = "w"

	TermChat = termTag + ChatTag
)

// maxWords bounds the words by which one entry is found, because all are written in one commit.
const maxWords = 8000

// Terms gives the terms that the entry is found by.
func (e *Stored) Terms() []string {
	out := []string{TermAll}
	for _, tag := range e.Tags {
		out = append(out, termTag+tag)
	}
	for _, word := range Words(e.Content, maxWords) {
		out = append(out, termWord+word)
	}
	return out
}

// Places are the numbers of entries that are to be found by terms, or no longer, by the key of the postings that
// change.
type Places map[string][]uint64

// Add notes that an entry is to be found by terms, or no longer.
func (p Places) Add(series ident.Incarnation, seq uint64, terms []string) {
	for _, term := range terms {
		key := string(records.Postings.Key(series, term, seq/Size))
		p[key] = append(p[key], seq)
	}
}

// Keys are the keys of the postings, which are to be read for Set or Clear.
func (p Places) Keys() [][]byte {
	out := make([][]byte, 0, len(p))
	for _, key := range slices.Sorted(maps.Keys(p)) {
		out = append(out, []byte(key))
	}
	return out
}

// Set collects the writes that put the numbers into the postings, which were read by Keys.
func (p Places) Set(t *records.Tx, read []store.Item) error {
	return p.change(t, read, (*Block).Set)
}

// Clear collects the writes that take the numbers out of the postings, which were read by Keys.
func (p Places) Clear(t *records.Tx, read []store.Item) error {
	return p.change(t, read, (*Block).Clear)
}

func (p Places) change(t *records.Tx, read []store.Item, change func(*Block, uint64)) error {
	for _, it := range read {
		block, err := DecodePostings(it)
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

// DecodePostings reads a record of postings. Where there is none, the set is empty.
func DecodePostings(it store.Item) (Block, error) {
	block, ok := Decode(it.Value)
	if it.Damaged || !ok {
		return block, records.ErrDamaged
	}
	return block, nil
}
