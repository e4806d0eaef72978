package index

import (
	"slices"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// blocksOf is the blocks of some terms that may hold postings that a query may see. Those that are not cached are to be
// read.
type blocksOf struct {
	s       *search
	terms   []string
	subsets []subset      // of the blocks of each term
	found   []termBlocks  // by term and subset
	cached  bool          // some were cached
	missing []int         // indexes of found
	ranges  []store.Range // of what is missing: perSubset each
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
	b.found = make([]termBlocks, len(terms)*len(b.subsets))
	have := make([]bool, len(b.found))
	s.svc.cache.look(s.cached, state, blocksPart, names, func(i int, part any) {
		for n, sub := range b.subsets {
			at := i*len(b.subsets) + n
			b.found[at], have[at] = part.(cachedTerm)[sub]
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
	added := map[int]cachedTerm{} // by index of the term
	for n, at := range b.missing {
		term := at / len(b.subsets)
		var items []store.Item
		for _, some := range read[n*each : (n+1)*each] {
			items = append(items, some...)
		}
		b.found[at] = termBlocks{term: b.terms[term], items: items}
		// A damaged block is not cached.
		if state == "" || slices.ContainsFunc(items, func(it store.Item) bool { return it.Value == nil }) {
			continue
		}
		// What was read shares its memory with everything from the same read.
		b.found[at].items, b.found[at].decoded = ownItems(items), new(atomic.Pointer[postings])
		if added[term] == nil {
			added[term] = cachedTerm{}
		}
		added[term][b.subsets[at%len(b.subsets)]] = b.found[at]
	}
	for i, more := range added {
		b.s.svc.cache.addBlocks(b.s.cached, state, b.terms[i], more)
	}
}

// byTerm returns the blocks of each term, in order.
func (b *blocksOf) byTerm() []termBlocks {
	if len(b.subsets) == 1 {
		return b.found
	}
	out := make([]termBlocks, len(b.terms))
	for i := range out {
		out[i].term = b.terms[i]
		for _, some := range b.found[i*len(b.subsets) : (i+1)*len(b.subsets)] {
			for _, it := range some.items { // The block before a namespace may have been read for the one before it.
				if n := len(out[i].items); n == 0 || string(out[i].items[n-1].Key) < string(it.Key) {
					out[i].items = append(out[i].items, it)
				}
			}
		}
	}
	return out
}

// readBlocks reads the blocks of terms, somewhat later than the query's state unless they are cached.
func (s *search) readBlocks(terms []string) ([]termBlocks, error) {
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
