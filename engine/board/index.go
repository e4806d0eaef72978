package board

import (
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Entries are indexed by terms: one that all entries have, each of their tags and each of their words. The first letter
// of a term is its type.
const (
	TermAll  = "a"
	termTag  = "t"
	termWord = "w"

	TermChat = termTag + ChatTag
)

// maxWords is the maximum number of words that are indexed of one entry, because all are written in one commit.
const maxWords = 8000

// Terms returns the terms that the entry is indexed by.
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

// Places maps the keys of postings to the numbers of entries that will be added to them or removed from them.
type Places map[string][]uint64

// Add records that an entry will be added to the postings of terms, or removed from them.
func (p Places) Add(series ident.Incarnation, seq uint64, terms []string) {
	for _, term := range terms {
		key := string(records.Postings.Key(series, term, seq/Size))
		p[key] = append(p[key], seq)
	}
}

// Keys returns the keys of the postings, which must be read before Set or Clear.
func (p Places) Keys() [][]byte {
	out := make([][]byte, 0, len(p))
	for _, key := range slices.Sorted(maps.Keys(p)) {
		out = append(out, []byte(key))
	}
	return out
}

// Set collects the writes that add the numbers to the postings. read are the records of Keys.
func (p Places) Set(t *records.Tx, read []store.Item) error {
	return p.change(t, read, (*Block).Set)
}

// Clear collects the writes that remove the numbers from the postings. read are the records of Keys.
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

// DecodePostings decodes a record of postings. A missing record is the empty set.
func DecodePostings(it store.Item) (Block, error) {
	block, ok := Decode(it.Value)
	if it.Damaged || !ok {
		return block, records.ErrDamaged
	}
	return block, nil
}
