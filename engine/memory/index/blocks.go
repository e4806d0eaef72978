package index

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// removePostings removes documents' postings from their blocks. It deletes blocks that become empty.
func (f *folding) removePostings(b *store.Batch, gone []*rank.Document) error {
	var q store.Query
	var places []rank.Place // by range
	for _, d := range gone {
		for _, term := range d.Terms {
			q.Ranges = append(q.Ranges, f.block(term.Term, d.Place))
			places = append(places, d.Place)
		}
	}
	r, err := f.svc.db.Store.Read(f.ctx, f.tenant, q)
	if err != nil {
		return err
	}
	without := map[string][]rank.Place{} // by block
	values := map[string][]byte{}
	for i, items := range r.Ranges {
		if len(items) > 0 {
			key := string(items[0].Key)
			without[key], values[key] = append(without[key], places[i]), items[0].Value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(without)) {
		block, err := rank.ReadBlock(nil, placeOf([]byte(key)), values[key])
		if err != nil {
			return ErrBroken
		}
		left := slices.DeleteFunc(block, func(p rank.Posting) bool { return slices.Contains(without[key], p.Place) })
		if len(left) == 0 {
			b.Delete = append(b.Delete, []byte(key))
		} else {
			b.Put = append(b.Put, store.Pair{Key: []byte(key), Value: rank.AppendBlock(nil, placeOf([]byte(key)), left)})
		}
	}
	return nil
}

// addPostings returns the blocks that change when postings are added to terms, and the tails of the terms. Each round
// handles, for every term with postings left, the block that its last posting belongs to.
func (f *folding) addPostings(added map[string][]rank.Posting) (
	out []store.Pair, ends map[string]Tail, err error) {
	terms := slices.Sorted(maps.Keys(added))
	for _, ps := range added {
		slices.SortFunc(ps, func(a, b rank.Posting) int { return a.Compare(b.Place) })
	}
	ends = make(map[string]Tail, len(terms))
	for len(terms) > 0 {
		found, err := f.lastBlocks(terms, added, ends)
		if err != nil {
			return nil, nil, err
		}
		rest := terms[:0]
		for i, term := range terms {
			ps, key := added[term], found[i].Key
			var block []rank.Posting
			from := 0 // postings before it belong to earlier blocks
			if key != nil {
				from, _ = slices.BinarySearchFunc(ps, placeOf(key), rank.Posting.Compare)
				if block, err = rank.ReadBlock(nil, placeOf(key), found[i].Value); err != nil {
					return nil, nil, ErrBroken
				}
			}
			isTail := bytes.Equal(key, ends[term].Key)
			for n, chunk := range rank.Merge(block, ps[from:]) {
				if n > 0 || key == nil {
					key = f.blockKey(term, chunk[0].Place)
				}
				out = append(out, store.Pair{Key: key, Value: rank.AppendBlock(nil, placeOf(key), chunk)})
			}
			if isTail {
				last := store.Item{Key: key, Value: out[len(out)-1].Value}
				ends[term] = Tail{Stream: ends[term].Stream, Item: last}
			}
			added[term] = ps[:from]
			if from > 0 {
				rest = append(rest, term)
			}
		}
		terms = rest
	}
	slices.SortFunc(out, func(a, b store.Pair) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	return out, ends, nil
}

// lastBlocks returns, for each term, the block that its last posting belongs to: the last one that begins no later, or
// the zero Item. It adds to ends the tails of terms that are missing there.
func (f *folding) lastBlocks(terms []string, added map[string][]rank.Posting, ends map[string]Tail) (
	found []store.Item, err error) {
	found = make([]store.Item, len(terms))
	last := func(i int) rank.Place { return added[terms[i]][len(added[terms[i]])-1].Place }
	read := func(which []int, upTo func(i int) rank.Place) error {
		var q store.Query
		if len(which) == 0 {
			return nil
		}
		for _, i := range which {
			q.Ranges = append(q.Ranges, f.block(terms[i], upTo(i)))
		}
		r, err := f.svc.db.Store.Read(f.ctx, f.tenant, q)
		for n, items := range r.Ranges {
			found[which[n]] = append(items, store.Item{})[0]
		}
		return err
	}
	var unknown, earlier []int
	for i, term := range terms {
		known := false
		if _, changed := ends[term]; changed { // The rest belongs before what an earlier round handled.
			earlier = append(earlier, i)
		} else if found[i], known = f.tails.Find(term, streamOf(last(i))); !known {
			unknown = append(unknown, i)
		}
	}
	err = read(unknown, func(i int) rank.Place {
		end := last(i)
		end.Pos = math.MaxUint64
		return end
	})
	if err != nil {
		return nil, err
	}
	for i, term := range terms {
		if _, changed := ends[term]; changed {
			continue
		}
		ends[term] = Tail{Stream: streamOf(last(i)), Item: found[i]}
		if found[i].Key != nil && placeOf(found[i].Key).Compare(last(i)) > 0 {
			earlier = append(earlier, i)
		}
	}
	return found, read(earlier, last)
}

// tailsOf names the state of the space that the tails with a corpus belong to.
func (f *folding) tailsOf(corpus []byte) string {
	return fmt.Sprintf("%q %q %s", f.tenant, f.jobKey(), f.stateWith(corpus))
}
