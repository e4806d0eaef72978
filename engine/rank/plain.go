package rank

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Documents without neighbours, as memories are, need not all be candidates: only the best are kept, and more of them are
// looked for once these are used up. What cannot be among the best is passed over without being scored, as in MaxScore
// (H. Turtle, J. Flood: Query evaluation: strategies and optimizations, 1995): each word gives at most so much, and words
// that together give too little do not lead to documents, but only add to those that other words lead to.

// keptFirst is how many candidates are kept at first, and keptMore how many times more are with each further look.
const (
	keptFirst = 64
	keptMore  = 8
)

// plain tells whether no document has neighbours.
func (r *Ranking) plain() bool {
	return !slices.ContainsFunc(r.Words, func(w Postings) bool { return w.List[len(w.List)-1].Stream != 0 })
}

// lead is a word's list while it is walked.
type lead struct {
	word int
	list []Posting // what is not passed yet
	most float64   // of a score, by this word
	upTo float64   // of a score, by this word and those before it
}

// leads are the lists of all words, first those that give least.
func (r *Ranking) leads() []lead {
	out := make([]lead, len(r.Words))
	for i, w := range r.Words {
		n := 0.0
		for k := range w.List {
			n = max(n, r.countOf(&w.List[k]))
		}
		out[i] = lead{word: i, list: w.List, most: r.shares[i] * r.saturated(n)}
	}
	slices.SortFunc(out, func(a, b lead) int { return cmp.Compare(a.most, b.most) })
	sum := 0.0
	for i := range out {
		sum += out[i].most
		out[i].upTo = sum
	}
	return out
}

// others is the most that all but its words give to the score of a document without neighbours.
func (r *Ranking) others() float64 {
	w := &r.Weights
	most := w.Length*fullness[fullLength] + w.Important/2
	if len(r.Dates)+len(r.Spans) > 0 {
		most += w.Date * bestMatch
	}
	if r.When {
		most += w.When
	}
	if r.Speakers != 0 {
		most += w.Speaker
	}
	return most
}

// rounding is more than by what sums of the same parts in another order and rounded scores differ.
const rounding = 1e-6

// keepBest fills the heap with the best documents that come behind the last candidate of the heap before, at most r.keep.
// All documents are plain. It fails where the ranking's context ends.
func (r *Ranking) keepBest() error {
	leads, others, worst := r.leads(), r.others(), math.Inf(-1)
	w, full := &r.Weights, r.Weights.Length*fullness[fullLength]
	kept, last := worstFirst{}, r.last
	row := make([]float64, len(r.Words))
	slot := len(r.docs) // where the next candidate's document is put; it is used again unless the candidate is kept
	from := 0           // leads before it lead to no document that could be kept
	for n := 0; ; n++ {
		if n%4096 == 0 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		var doc *Posting
		for i := range leads[from:] {
			if l := leads[from+i].list; len(l) > 0 && (doc == nil || l[0].Pos < doc.Pos) {
				doc = &l[0]
			}
		}
		if doc == nil {
			break
		}
		most := others - full + w.Length*fullness[min(doc.Len, fullLength)]
		clear(row)
		for i := from; i < len(leads); i++ {
			if l := &leads[i]; len(l.list) > 0 && l.list[0].Pos == doc.Pos {
				row[l.word] = r.countOf(&l.list[0])
				most += r.shares[l.word] * r.saturated(row[l.word])
				l.list = l.list[1:]
			}
		}
		for i := from - 1; i >= 0 && most+leads[i].upTo >= worst; i-- {
			l := &leads[i]
			l.list = skipTo(l.list, doc.Pos)
			if len(l.list) > 0 && l.list[0].Pos == doc.Pos {
				row[l.word] = r.countOf(&l.list[0])
				most += r.shares[l.word] * r.saturated(row[l.word])
			}
		}
		if most < worst || r.bars(doc.Place) || !r.Filter.may(doc.Day, doc.Attrs) {
			continue
		}
		if slot == len(r.docs) {
			r.docs, r.counts = append(r.docs, found{}), append(r.counts, row...)
		}
		r.docs[slot] = found{doc.Place, doc.Len, doc.Day, doc.Attrs}
		copy(r.counts[slot*len(row):], row)
		c := Candidate{Place: doc.Place, own: int32(slot), near: nobody, session: -1}
		c.know(doc.Len, doc.Day, doc.Attrs)
		if r.score(&c); last != nil && !last.before(&c) {
			continue
		}
		switch {
		case len(kept.candidates) < r.keep:
			kept.candidates = append(kept.candidates, c)
			slot = len(r.docs)
			if len(kept.candidates) < r.keep {
				continue
			}
			heap.Init(&kept)
		case c.before(&kept.candidates[0]):
			slot = int(kept.candidates[0].own)
			kept.candidates[0] = c
			heap.Fix(&kept, 0)
		default:
			continue
		}
		worst = kept.candidates[0].Score - rounding
		for from < len(leads) && others+leads[from].upTo < worst {
			from++
		}
	}
	if r.last = nil; len(kept.candidates) == r.keep {
		worst := kept.candidates[0]
		r.last = &worst
	}
	r.keep *= keptMore
	r.heap = kept.candidates
	heap.Init(&r.heap)
	return nil
}

// skipTo drops the postings before a position.
func skipTo(list []Posting, pos uint64) []Posting {
	step := 1
	for step < len(list) && list[step].Pos < pos {
		step *= 2
	}
	list = list[step/2:]
	at, _ := slices.BinarySearchFunc(list[:min(len(list), step+1)], pos, func(p Posting, pos uint64) int {
		return cmp.Compare(p.Pos, pos)
	})
	return list[at:]
}

// worstFirst is a heap with the worst first.
type worstFirst struct{ candidates }

func (h *worstFirst) Less(i, j int) bool { return h.candidates[j].before(&h.candidates[i]) }
