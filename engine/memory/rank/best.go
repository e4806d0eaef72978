package rank

import (
	"cmp"
	"container/heap"
	"slices"
)

// Hit is a document that was found.
type Hit struct {
	Doc        *Document
	Score      float64
	Why        Why
	Duplicates int // the number of documents with the same text that were left out
}

// Finder chooses hits.
type Finder struct {
	Limit int
	// Read returns the documents at some places; nil where there is none.
	Read func([]Place) ([]*Document, error)
	// Accept reports whether a document may be a hit.
	Accept func(*Document) (bool, error)
}

// How many documents Best examines beyond the requested number.
const (
	readAtOnce = 512
	maxLooked  = 8192 // documents read, most of which are left out or repeat hits
)

// Best returns the best hits of a ranking, best first. A text appears once, even if several of its passages match or
// several documents repeat it word for word. Of two hits that seem to contradict each other the newer comes first;
// Why.Newer is what it gets for that. capped means that Best gave up before it had enough.
func (r *Ranking) Best(f Finder) (hits []Hit, capped bool, err error) {
	type identity struct {
		id             string
		stream, number uint64
	}
	seen, said := map[identity]bool{}, map[uint64]int{}
	docs := map[Place]*Document{} // read, but not examined yet
	enough, looked := f.Limit+f.Limit/2+4, 0
	for n := enough; len(hits) < enough && (len(r.heap) > 0 || r.last != nil); n = min(2*n, readAtOnce) {
		if looked > maxLooked {
			capped = true
			break
		}
		some, err := r.next(n, docs, f.Read)
		if err != nil {
			return nil, false, err
		}
		for i := range some {
			d := docs[some[i].Place]
			delete(docs, some[i].Place)
			looked++
			if d == nil || len(hits) == enough {
				continue
			}
			id := identity{id: d.ID}
			if d.ID == "" {
				id.stream, id.number = d.Stream, d.Number
			}
			if seen[id] {
				continue
			}
			if ok, err := f.Accept(d); err != nil {
				return nil, false, err
			} else if !ok {
				continue
			}
			seen[id] = true
			if at, again := said[d.Said]; again {
				hits[at].Duplicates++
				continue
			}
			said[d.Said] = len(hits)
			hits = append(hits, Hit{Doc: d, Score: some[i].Score, Why: r.Why(&some[i])})
		}
	}
	if r.Breadth == Narrow {
		RaiseNewer(hits)
	}
	return hits[:min(len(hits), f.Limit)], capped, nil
}

// next takes up to n of the best candidates off the heap and reads their documents. It scores candidates again whose
// score was only an upper bound, and puts them back into the heap. It may return none before the end.
func (r *Ranking) next(n int, docs map[Place]*Document, read func([]Place) ([]*Document, error)) ([]Candidate, error) {
	for {
		some, err := r.take(n)
		if err != nil || len(some) == 0 {
			return nil, err
		}
		var ask []Place
		for _, c := range some {
			if _, have := docs[c.Place]; !have {
				ask = append(ask, c.Place)
			}
		}
		got, err := read(ask)
		if err != nil {
			return nil, err
		}
		for i, at := range ask {
			docs[at] = got[i]
		}
		first := slices.IndexFunc(some, func(c Candidate) bool { return r.bounded(&c) })
		if first < 0 {
			return some, nil
		}
		for _, c := range some[first:] {
			r.putBack(&c, docs)
		}
		if first > 0 {
			return some[:first], nil
		}
	}
}

// take takes up to n of the best candidates off the heap. Candidates that keepBest left out may be better than those
// whose scores fell since, so they are fetched first.
func (r *Ranking) take(n int) (some []Candidate, err error) {
	for len(some) < n {
		if r.last != nil && (len(r.heap) == 0 || r.last.before(&r.heap[0])) {
			if len(some) > 0 {
				break
			}
			if err := r.keepBest(); err != nil {
				return nil, err
			}
			continue
		}
		if len(r.heap) == 0 {
			break
		}
		some = append(some, heap.Pop(&r.heap).(Candidate))
	}
	return some, nil
}

// putBack returns a candidate whose document was read to the heap, with its exact score. It drops a candidate without a
// document, and one that the filter rejects.
func (r *Ranking) putBack(c *Candidate, docs map[Place]*Document) {
	if r.bounded(c) {
		d := docs[c.Place]
		if d == nil {
			delete(docs, c.Place)
			return
		}
		if !c.known {
			c.know(d.Len, dayOf(d.Created), d.attrs())
			if !r.Filter.may(c.day, c.attrs) {
				delete(docs, c.Place)
				return
			}
		}
		r.order(c, d)
		r.score(c)
	}
	heap.Push(&r.heap, *c)
}

// When two texts may contradict each other.
const (
	sameTerms  = 2   // minimum number
	sameShare  = .66 // of the terms of the shorter
	claimTerms = 64  // terms of a text that makes a single claim
	lighter    = .35 // how much less important the newer one may be
)

// RaiseNewer raises the score of each hit to at least that of the older ones that it seems to contradict, and sorts the
// hits.
func RaiseNewer(hits []Hit) {
	oldest := make([]*Hit, len(hits))
	for i := range hits {
		oldest[i] = &hits[i]
	}
	slices.SortStableFunc(oldest, func(a, b *Hit) int { return a.Doc.Created.Compare(b.Doc.Created) })
	for i, newer := range oldest {
		own := newer.Score - newer.Why.Newer
		for _, older := range oldest[:i] {
			if older.Score > newer.Score && supersedes(newer, older) {
				newer.Score = older.Score
			}
		}
		newer.Why.Newer = newer.Score - own
	}
	slices.SortStableFunc(hits, func(a, b Hit) int {
		if a.Score == b.Score && (a.Why.Newer > 0 || b.Why.Newer > 0) {
			return b.Doc.Created.Compare(a.Doc.Created)
		}
		return cmp.Compare(b.Score, a.Score)
	})
}

// supersedes reports whether a hit seems to contradict an older one about the same matter: both are short and not
// questions, they share most terms, the newer contains all words of the query that the older one does, matches the
// dates of the query at least as well, and is not much less important. That somebody moved counts as the words that say where
// somebody lives.
func supersedes(newer, older *Hit) bool {
	a, b := newer.Doc, older.Doc
	if !a.Created.After(b.Created) || a.Len > claimTerms || b.Len > claimTerms || a.Asks || b.Asks ||
		b.Importance-a.Importance > lighter || newer.Why.Date < older.Why.Date || len(older.Why.Terms) == 0 {
		return false
	}
	lacks := "" // the only word of the query that the older has alone
	for _, t := range older.Why.Terms {
		if !slices.ContainsFunc(newer.Why.Terms, func(s TermShare) bool { return s.Word == t.Word }) {
			if lacks != "" || len(older.Why.Terms) == 1 {
				return false
			}
			lacks = t.Word
		}
	}
	if !a.complete() || !b.complete() {
		return false
	}
	same := 0
	if lacks != "" {
		if moved, lived := a.movedFrom(b); moved == "" || !sameStem(lacks, lived) {
			return false
		}
		same++
	}
	for i, j := 0, 0; i < len(a.Terms) && j < len(b.Terms); {
		switch c := cmp.Compare(a.Terms[i].Term, b.Terms[j].Term); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			if !isStop(a.Terms[i].Term) {
				same++
			}
			i++
			j++
		}
	}
	return same >= sameTerms && float64(same) >= sameShare*float64(min(a.distinct(), b.distinct()))
}
