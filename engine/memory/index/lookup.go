package index

import (
	"maps"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// blocksOf is the blocks of some terms that may hold postings that a query may see. Those that are not cached are to be
// read.
type blocksOf struct {
	s       *search
	terms   []string
	subsets []subset       // of the blocks of each term
	found   [][]store.Item // by term and subset
	cached  bool           // some were cached
	missing []int          // indexes of found
	ranges  []store.Range  // of what is missing: perSubset each
}

// blocksOf looks for the blocks of terms in the cache, if that belongs to the named state.
func (s *search) blocksOf(terms []string, state string) *blocksOf {
	b := &blocksOf{s: s, terms: terms, subsets: []subset{{all: true}}}
	if s.numbers != nil && len(s.numbers) <= maxRanges {
		b.subsets = b.subsets[:0]
		for _, n := range s.numbers {
			b.subsets = append(b.subsets, subset{namespace: n})
		}
	}
	names := make([][]byte, len(terms))
	for i, term := range terms {
		names[i] = []byte(term)
	}
	b.found = make([][]store.Item, len(terms)*len(b.subsets))
	have := make([]bool, len(b.found))
	s.svc.cache.look(s.cached, state, blocksPart, names, func(i int, part any) {
		for n, sub := range b.subsets {
			at := i*len(b.subsets) + n
			b.found[at], have[at] = part.(termBlocks)[sub]
			b.cached = b.cached || have[at]
		}
	})
	for at := range b.found {
		if have[at] {
			continue
		}
		b.missing = append(b.missing, at)
		term, sub := terms[at/len(b.subsets)], b.subsets[at%len(b.subsets)]
		if sub.all {
			b.ranges = append(b.ranges, s.blocks(term))
			continue
		}
		before, rng := s.namespaceBlocks(term, sub.namespace)
		b.ranges = append(b.ranges, before, rng)
	}
	return b
}

// add adds what was read of the ranges. It is cached if it was read in a state with a name.
func (b *blocksOf) add(read [][]store.Item, state string) {
	each := 2
	if b.subsets[0].all {
		each = 1
	}
	added := map[int]termBlocks{} // by index of the term
	for n, at := range b.missing {
		for _, items := range read[n*each : (n+1)*each] {
			b.found[at] = append(b.found[at], items...)
		}
		term := at / len(b.subsets)
		if added[term] == nil {
			added[term] = termBlocks{}
		}
		added[term][b.subsets[at%len(b.subsets)]] = b.found[at]
	}
	if state == "" {
		return
	}
	for i, more := range added {
		b.keep(b.terms[i], more, state)
	}
}

// keep caches blocks of a term, unless one is damaged.
func (b *blocksOf) keep(term string, more termBlocks, state string) {
	size := 0
	for sub, items := range more {
		for _, it := range items {
			if it.Value == nil {
				return
			}
		}
		// What was read shares its memory with everything from the same read.
		own, n := ownItems(items)
		more[sub], size = own, size+n
	}
	cache, cached := b.s.svc.cache, b.s.cached
	cache.look(cached, state, blocksPart, [][]byte{[]byte(term)}, func(_ int, part any) {
		for sub, items := range part.(termBlocks) {
			if _, again := more[sub]; !again {
				more[sub] = items
			}
		}
	})
	cache.keep(cached, state, blocksPart, []byte(term), maps.Clone(more), sizeOf(more))
}

func sizeOf(blocks termBlocks) (size int) {
	for _, items := range blocks {
		for _, it := range items {
			size += len(it.Key) + len(it.Value) + itemSize
		}
	}
	return size
}

// byTerm returns the blocks of each term, in order.
func (b *blocksOf) byTerm() [][]store.Item {
	if b.subsets[0].all {
		return b.found
	}
	out := make([][]store.Item, len(b.terms))
	for i := range out {
		for _, items := range b.found[i*len(b.subsets) : (i+1)*len(b.subsets)] {
			for _, it := range items { // The block before a namespace may have been read for the one before it.
				if n := len(out[i]); n == 0 || string(out[i][n-1].Key) < string(it.Key) {
					out[i] = append(out[i], it)
				}
			}
		}
	}
	return out
}

// readBlocks reads the blocks of terms, somewhat later than the query's state unless they are cached.
func (s *search) readBlocks(terms []string) ([][]store.Item, error) {
	b := s.blocksOf(terms, s.state)
	if len(b.missing) == 0 {
		return b.byTerm(), nil
	}
	r, err := s.svc.db.Store.Read(s.ctx, s.tenant,
		store.Query{Keys: [][]byte{s.jobKey(), s.corpusKey()}, Ranges: b.ranges})
	if err != nil {
		return nil, err
	}
	state := s.stateIn(r.Keys[0], r.Keys[1])
	if state != s.state {
		state = ""
	}
	b.add(r.Ranges, state)
	return b.byTerm(), nil
}
