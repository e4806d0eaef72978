package rank

import (
	"cmp"
	"container/heap"
	"maps"
	"math"
	"slices"
)

// Documents without neighbours, such as memories, need not all be candidates. Only the best are kept, and more are
// looked for once these are used up. Documents that cannot be among the best are skipped without being scored, as in
// MaxScore (H. Turtle, J. Flood: Query evaluation: strategies and optimizations, 1995): each word has a maximum
// contribution, and words whose contributions are together too small do not lead to documents, but only add to the
// scores of those that other words lead to.
//
// First, a glance at some documents with the word of the highest contribution gives a lower bound for the best scores.
// Without it, a common word would lead to thousands of documents before a rarer one had led to enough good ones.

// keptFirst is the minimum number of candidates kept at first, which is otherwise twice the number of hits that are wanted,
// keptMore the factor by which it grows with each further search, and glance the number of documents in the first glance.
const (
	keptFirst = 32
	keptMore  = 4
	glance    = 512
)

// plain reports whether no document has neighbours, and no word has similar ones.
func (r *Ranking) plain() bool {
	for i := range r.Words {
		w := &r.Words[i]
		if len(w.Soft) > 0 || !w.shape().plain || !ShapeOf(w.Fresh).plain {
			return false
		}
	}
	return true
}

// Shape is what ranking needs to know of a whole list of postings. It does not depend on the query.
type Shape struct {
	plain    bool      // no document has neighbours
	shortest []Posting // for each count in the list, a posting of the shortest document
	standing float64   // the highest of its documents
}

// ShapeOf returns the shape of a list.
func ShapeOf(list []Posting) *Shape {
	s := &Shape{plain: true, standing: lowestStanding}
	var common [8]*Posting // by count
	rest := map[uint32]*Posting{}
	for i := range list {
		p := &list[i]
		s.plain = s.plain && p.Stream == 0
		s.standing = max(s.standing, p.Attrs.standing())
		if p.Count < uint32(len(common)) {
			if common[p.Count] == nil || p.Len < common[p.Count].Len {
				common[p.Count] = p
			}
		} else if rest[p.Count] == nil || p.Len < rest[p.Count].Len {
			rest[p.Count] = p
		}
	}
	for _, p := range slices.AppendSeq(common[:], maps.Values(rest)) {
		if p != nil {
			s.shortest = append(s.shortest, *p)
		}
	}
	return s
}

// shape returns the shape of the word's list.
func (p *Postings) shape() *Shape {
	if p.Shape == nil {
		p.Shape = ShapeOf(p.List)
	}
	return p.Shape
}

// lead is a word's list during a walk.
type lead struct {
	word  int
	list  []Posting // the part not passed yet
	pairs []partner // the pairs that it is in with words of later leads
	most  float64   // the most that this word adds to a score by itself
	upTo  float64   // the most that this word and those before it add to a score, with all their pairs
	alone float64   // the most that they add to the score of a document with no word of a later lead
}

// partner is the other word of a pair.
type partner struct {
	word int
	most float64 // what the pair adds
}

// leads returns the lists of all words, those of documents in blocks or those of fresh ones, sorted by how much they can
// add to a score, lowest first.
func (r *Ranking) leads(fresh bool) []lead {
	out := make([]lead, len(r.Words))
	for i := range r.Words {
		w := &r.Words[i]
		list, shape := w.List, w.shape()
		if fresh {
			list, shape = w.Fresh, ShapeOf(w.Fresh)
		}
		out[i] = lead{word: i, list: list, most: r.shares[i] * r.saturated(r.mostOf(shape))}
	}
	slices.SortFunc(out, func(a, b lead) int { return cmp.Compare(a.most, b.most) })
	together := make([]float64, len(out)) // the pairs of each lead with earlier ones
	for _, p := range r.pairs {
		first := slices.IndexFunc(out, func(l lead) bool { return l.word == p.first })
		second := slices.IndexFunc(out, func(l lead) bool { return l.word == p.second })
		lesser, greater := min(first, second), max(first, second)
		out[lesser].pairs = append(out[lesser].pairs, partner{out[greater].word, p.most})
		together[greater] += p.most
	}
	upTo, alone := 0.0, 0.0
	for i := range out {
		upTo, alone = upTo+out[i].most, alone+out[i].most+together[i]
		for _, p := range out[i].pairs {
			upTo += p.most
		}
		out[i].upTo, out[i].alone = upTo, alone
	}
	return out
}

// mostOf returns the largest countOf of the postings of a list. Of documents with the same count the shortest gives the
// most.
func (r *Ranking) mostOf(s *Shape) (most float64) {
	for i := range s.shortest {
		most = max(most, r.countOf(&s.shortest[i]))
	}
	return most
}

// importantMost returns the most that importance adds to the score of a document.
func (r *Ranking) importantMost() float64 {
	most := lowestStanding
	for i := range r.Words {
		w := &r.Words[i]
		most = max(most, w.shape().standing, ShapeOf(w.Fresh).standing)
	}
	return r.Weights.Important * most
}

// others returns the most that anything other than words, length and importance adds to the score of a document without
// neighbours.
func (r *Ranking) others() (most float64) {
	w := &r.Weights
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

// rounding is larger than the difference between sums of the same parts in another order, or between rounded scores.
const rounding = 1e-6

// keepBest fills the heap with up to r.keep of the best documents that come after the last candidate of the previous
// heap. All documents are plain. It fails if the ranking's context is done.
func (r *Ranking) keepBest() error {
	w := walk{Ranking: r, others: r.others(), important: r.importantMost(), worst: math.Inf(-1),
		row: make([]float64, len(r.Words))}
	w.fillOnes()
	all, before := r.leads(false), len(r.docs)
	if last := len(all) - 1; last > 0 { // glance
		w.leads, w.from = slices.Clone(all), last
		w.leads[last].list = all[last].list[:min(len(all[last].list), glance)]
		if err := w.run(); err != nil {
			return err
		}
		r.docs, r.counts = r.docs[:before], r.counts[:before*len(w.row)]
	}
	// What the glance kept is kept again if it is among the best. Only the minimum score that it found stays.
	w.leads, w.from, w.kept.candidates = all, 0, w.kept.candidates[:0]
	if err := w.run(); err != nil {
		return err
	}
	if slices.ContainsFunc(r.Words, func(p Postings) bool { return len(p.Fresh) > 0 }) {
		w.leads, w.from = r.leads(true), 0
		if err := w.run(); err != nil {
			return err
		}
	}
	r.last = nil
	if len(w.kept.candidates) == r.keep {
		worst := w.kept.candidates[0]
		r.last = &worst
	}
	r.keep *= keptMore
	r.heap = append(r.heap, w.kept.candidates...)
	heap.Init(&r.heap)
	return nil
}

// walk goes through the lists of all words and keeps the best documents.
type walk struct {
	*Ranking
	leads     []lead
	from      int        // leads before it lead to no document that could be kept
	heads     []head     // a heap of the leads from there on, by where their lists begin
	others    float64    // see Ranking.others
	important float64    // see Ranking.importantMost
	worst     float64    // the score that a document needs to be kept
	kept      worstFirst // at most Ranking.keep
	row       []float64  // the row of Ranking.counts of the current document
	taken     []int32    // the leads whose words the current document contains
	ones      [shortText]part
}

// shortText is the number of lengths of texts for which the part of a word that occurs once is calculated in advance.
const shortText = 256

// part is what a word that occurs in a document counts, and the same saturated.
type part struct{ count, saturated float64 }

func (w *walk) fillOnes() {
	for n := range w.ones {
		count := w.countOf(&Posting{Count: 1, Len: uint32(n)})
		w.ones[n] = part{count, w.saturated(count)}
	}
}

// run walks until no list leads further. It fails if the ranking's context is done.
func (w *walk) run() error {
	w.raise(w.worst)
	w.fillHeads()
	slot := len(w.docs) // where the next candidate's document goes; reused unless the candidate is kept
	for n := 0; ; n++ {
		if n%4096 == 0 && w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		doc, most := w.next()
		if doc == nil {
			return nil
		}
		if most < w.worst || w.bars(doc.Place) || !w.Filter.may(doc.Day, doc.Attrs) {
			continue
		}
		if slot == len(w.docs) {
			w.docs, w.counts = append(w.docs, found{}), append(w.counts, w.row...)
		}
		w.docs[slot] = found{doc.Place, doc.Len, doc.Day, doc.Attrs}
		copy(w.counts[slot*len(w.row):], w.row)
		c := Candidate{Place: doc.Place, own: int32(slot), near: nobody, session: -1}
		c.know(doc.Len, doc.Day, doc.Attrs)
		w.score(&c)
		if w.last != nil && !w.last.before(&c) {
			continue
		}
		switch {
		case len(w.kept.candidates) < w.keep:
			w.kept.candidates = append(w.kept.candidates, c)
			slot = len(w.docs)
			if len(w.kept.candidates) < w.keep {
				continue
			}
			heap.Init(&w.kept)
		case c.before(&w.kept.candidates[0]):
			slot = int(w.kept.candidates[0].own)
			w.kept.candidates[0] = c
			heap.Fix(&w.kept, 0)
		default:
			continue
		}
		w.raise(w.kept.candidates[0].Score - rounding)
	}
}

// raise sets the score that a document needs to be kept, and stops words from leading that lead to none.
func (w *walk) raise(worst float64) {
	w.worst = max(w.worst, worst)
	most := w.others + w.Weights.Length*fullness[fullLength] + w.important
	before := w.from
	for w.from < len(w.leads) && most+w.leads[w.from].alone < w.worst {
		w.from++
	}
	if w.from > before {
		w.fillHeads()
	}
}

// head is where the list of a lead begins.
type head struct {
	namespace, pos uint64
	lead           int
}

func (h *head) isBefore(g *head) bool {
	if h.namespace != g.namespace {
		return h.namespace < g.namespace
	}
	return h.pos < g.pos
}

// fillHeads makes the heap of heads.
func (w *walk) fillHeads() {
	w.heads = w.heads[:0]
	for i := w.from; i < len(w.leads); i++ {
		if list := w.leads[i].list; len(list) > 0 {
			w.heads = append(w.heads, head{list[0].Namespace, list[0].Pos, i})
		}
	}
	for i := len(w.heads)/2 - 1; i >= 0; i-- {
		w.sink(i)
	}
}

// sink restores the order of the heap below a head that has moved back.
func (w *walk) sink(i int) {
	h := w.heads
	for moved := h[i]; ; {
		child := 2*i + 1
		if child >= len(h) {
			h[i] = moved
			return
		}
		if child+1 < len(h) && h[child+1].isBefore(&h[child]) {
			child++
		}
		if !h[child].isBefore(&moved) {
			h[i] = moved
			return
		}
		h[i], i = h[child], child
	}
}

// pass takes the first posting off the list with the first head.
func (w *walk) pass() {
	first := &w.heads[0]
	l := &w.leads[first.lead]
	if l.list = l.list[1:]; len(l.list) > 0 {
		first.namespace, first.pos = l.list[0].Namespace, l.list[0].Pos
	} else if last := len(w.heads) - 1; last > 0 {
		w.heads[0], w.heads = w.heads[last], w.heads[:last]
	} else {
		w.heads = w.heads[:0]
		return
	}
	w.sink(0)
}

// next returns the next document that the lists lead to, or nil at the end, and an upper bound of its score. Words that
// do not lead are looked up only if they can matter.
func (w *walk) next() (doc *Posting, most float64) {
	if len(w.heads) == 0 {
		return nil, 0
	}
	doc = &w.leads[w.heads[0].lead].list[0]
	most = w.others + w.Weights.Length*fullness[min(doc.Len, fullLength)] + w.importanceOf(doc.Attrs)
	clear(w.row)
	w.taken = w.taken[:0]
	for len(w.heads) > 0 && w.heads[0].pos == doc.Pos && w.heads[0].namespace == doc.Namespace {
		most += w.take(w.heads[0].lead)
		w.pass()
	}
	for _, i := range w.taken {
		most += w.paired(int(i))
	}
	for i := w.from - 1; i >= 0 && most+w.leads[i].upTo >= w.worst; i-- {
		l := &w.leads[i]
		if l.list = skipTo(l.list, doc.Place); len(l.list) > 0 && l.list[0].Place == doc.Place {
			most += w.take(i) + w.paired(i)
		}
	}
	return doc, most
}

// take records how often the current document contains a word, whose list begins with it, and returns the word's part
// of the score.
func (w *walk) take(lead int) float64 {
	l := &w.leads[lead]
	w.taken = append(w.taken, int32(lead))
	if p := &l.list[0]; p.Count == 1 && p.Len < shortText {
		w.row[l.word] = w.ones[p.Len].count
		return w.shares[l.word] * w.ones[p.Len].saturated
	}
	n := w.countOf(&l.list[0])
	w.row[l.word] = n
	return w.shares[l.word] * w.saturated(n)
}

// paired returns the most that the pairs of a lead with later ones that the current document contains add to its score.
func (w *walk) paired(lead int) (most float64) {
	for _, p := range w.leads[lead].pairs {
		if w.row[p.word] > 0 {
			most += p.most
		}
	}
	return most
}

// isBefore is Compare for places without neighbours.
func (p Place) isBefore(q Place) bool {
	if p.Namespace != q.Namespace {
		return p.Namespace < q.Namespace
	}
	return p.Pos < q.Pos
}

// skipTo drops the postings before a place.
func skipTo(list []Posting, at Place) []Posting {
	step := 1
	for step < len(list) && list[step].isBefore(at) {
		step *= 2
	}
	low, high := step/2, min(len(list), step+1)
	for low < high {
		if middle := (low + high) / 2; list[middle].isBefore(at) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return list[low:]
}

// worstFirst is a heap with the worst candidate first.
type worstFirst struct{ candidates }

func (h *worstFirst) Less(i, j int) bool { return h.candidates[j].before(&h.candidates[i]) }
