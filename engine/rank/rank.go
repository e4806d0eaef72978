// Package rank ranks documents by the words they hold: pure functions over postings, without a store. It also packs
// documents and postings for the index that keeps them (document.go, posting.go), and reads the dates that a query
// names (date.go).
//
// The hard idea is how a document is scored. A word counts, beside its own occurrences, half of those in the documents
// next to it, and each document's count is divided by the document's own length, as BM25F does with fields. The parts
// of a score are shares of the most that the query's words could give, so that 1 means that all of them are there, over
// and over.
package rank

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
)

const (
	saturation      = 0.9  // BM25's k1: how soon more of the same word stops to count
	normalisation   = 0.4  // BM25's b: how much the length of a document matters
	neighbourWeight = 0.5  // of a word in the document before or behind
	sessionWeight   = 0.25 // of the score of the whole session
	dateWeight      = 0.15 // of a month that the query names
	importantWeight = 0.05 // of importance above or below the middle, which core memories and messages do not get
)

// Word is one word of a query that says something. Its terms are those that may stand for it in the index, one for each
// language that stems it differently.
type Word struct {
	Text  string
	Terms []string
}

// Postings are those of one word of a query, sorted by place.
type Postings struct {
	Word string
	List []Posting
}

// Gather puts the postings of a word's terms together. Each list is sorted; a document that is in several counts once,
// with all its occurrences.
func Gather(word string, lists ...[]Posting) Postings {
	if len(lists) == 1 {
		return Postings{word, lists[0]}
	}
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b Posting) int { return a.Compare(b.Place) })
	out := all[:0]
	for _, p := range all {
		if n := len(out); n > 0 && out[n-1].Place == p.Place {
			out[n-1].Count += p.Count
		} else {
			out = append(out, p)
		}
	}
	return Postings{word, out}
}

// Corpus says over how many documents a query ranks, and how many terms they have together.
type Corpus struct {
	Documents, Terms uint64
}

// MaxWords bounds the words that count. Of more words than these, the rarest do.
const MaxWords = 64

// found is a document that holds some word of the query.
type found struct {
	Place
	day   uint16
	attrs Attrs
}

// Candidate is a place that may hold a hit: that of a document with a word of the query, or one next to it.
type Candidate struct {
	Place
	Score            float64
	day              uint16
	own, left, right int32 // indexes of Ranking.docs; -1: none
	session          int32 // an index of Ranking.sessions; -1: none
}

// Ranking gives candidates, best first. The zero value has none.
type Ranking struct {
	words    []Postings
	shares   []float64 // of each word in the greatest possible score
	dates    []Date
	docs     []found
	counts   []float64 // by document and word: occurrences over the document's length
	sessions []float64 // score of each session
	heap     candidates
}

// Rank scores all documents that hold a word of a query, and their neighbours, unless the filter leaves them out for
// sure. It fails only where ctx ends, with the error of ctx.
func Rank(ctx context.Context, words []Postings, c Corpus, dates []Date, f *Filter) (*Ranking, error) {
	words = slices.DeleteFunc(words, func(w Postings) bool { return len(w.List) == 0 })
	if len(words) > MaxWords {
		slices.SortStableFunc(words, func(a, b Postings) int { return cmp.Compare(len(a.List), len(b.List)) })
		words = words[:MaxWords]
	}
	r := &Ranking{words: words, dates: dates}
	sum := 0.0
	for _, w := range words {
		n := float64(len(w.List))
		idf := math.Log(1 + (max(float64(c.Documents)-n, 0)+.5)/(n+.5))
		r.shares = append(r.shares, idf)
		sum += idf
	}
	for i := range r.shares {
		r.shares[i] /= sum
	}
	if err := r.unite(ctx, float64(c.Terms)/float64(max(c.Documents, 1))); err != nil {
		return nil, err
	}
	for from := 0; from < len(r.docs); {
		to := from + 1
		for to < len(r.docs) && r.docs[to].Stream == r.docs[from].Stream {
			to++
		}
		if f.Stream == 0 || f.Stream == r.docs[from].Stream {
			r.stream(from, to, f)
		}
		from = to
	}
	heap.Init(&r.heap)
	return r, ctx.Err()
}

// unite merges the words' postings into documents.
func (r *Ranking) unite(ctx context.Context, mean float64) error {
	total := 0
	for _, w := range r.words {
		total = max(total, len(w.List))
	}
	r.docs, r.counts = make([]found, 0, total), make([]float64, 0, total*len(r.words))
	at := make([]int, len(r.words))
	for {
		var first *Posting
		for i, w := range r.words {
			if at[i] < len(w.List) && (first == nil || w.List[at[i]].Compare(first.Place) < 0) {
				first = &w.List[at[i]]
			}
		}
		if first == nil {
			return nil
		}
		if len(r.docs)%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r.docs = append(r.docs, found{first.Place, first.Day, first.Attrs})
		for i, w := range r.words {
			n := 0.0
			if at[i] < len(w.List) && w.List[at[i]].Place == first.Place {
				n = float64(w.List[at[i]].Count) / (1 - normalisation + normalisation*float64(first.Len)/mean)
				at[i]++
			}
			r.counts = append(r.counts, n)
		}
	}
}

// of gives a document's count of a word. It is 0 where doc is -1.
func (r *Ranking) of(doc int32, word int) float64 {
	if doc < 0 {
		return 0
	}
	return r.counts[int(doc)*len(r.words)+word]
}

func saturated(n float64) float64 { return n / (n + saturation) }

// stream makes candidates of the documents of one stream, and of their neighbours.
func (r *Ranking) stream(from, to int, f *Filter) {
	alone := r.docs[from].Stream == 0
	session := int32(-1)
	if !alone {
		session = int32(len(r.sessions))
		score := 0.0
		for w := range r.words {
			n := 0.0
			for i := from; i < to; i++ {
				n += r.of(int32(i), w)
			}
			score += r.shares[w] * saturated(n)
		}
		r.sessions = append(r.sessions, sessionWeight*score)
	}
	at := func(i int, pos uint64) int32 {
		if i < from || i >= to || r.docs[i].Pos != pos {
			return -1
		}
		return int32(i)
	}
	next := uint64(1) // the first position not looked at
	for i := from; i < to; i++ {
		d := &r.docs[i]
		if alone {
			r.add(Candidate{Place: d.Place, own: int32(i), left: -1, right: -1, session: -1}, f)
			continue
		}
		if before := d.Pos - 1; d.Pos > 1 && before >= next {
			r.add(Candidate{Place: Place{d.Stream, before}, own: -1, left: -1, right: int32(i), session: session}, f)
		}
		r.add(Candidate{Place: d.Place, own: int32(i), left: at(i-1, d.Pos-1), right: at(i+1, d.Pos+1),
			session: session}, f)
		next = d.Pos + 1
		if at(i+1, next) < 0 {
			r.add(Candidate{Place: Place{d.Stream, next}, own: -1, left: int32(i), right: at(i+1, next+1),
				session: session}, f)
			next++
		}
	}
}

// add scores a candidate and takes it up unless the filter leaves it out for sure.
func (r *Ranking) add(c Candidate, f *Filter) {
	switch {
	case c.own >= 0:
		own := &r.docs[c.own]
		if c.day = own.day; !f.may(own.day, own.attrs) {
			return
		}
	case c.left >= 0: // The document was not read, so its day is about that of its neighbour.
		c.day = r.docs[c.left].day
	default:
		c.day = r.docs[c.right].day
	}
	for w := range r.words {
		n := r.of(c.own, w) + neighbourWeight*(r.of(c.left, w)+r.of(c.right, w))
		c.Score += r.shares[w] * saturated(n)
	}
	c.Score += r.session(&c) + dateWeight*matchOf(r.dates, c.day) + r.importance(&c)
	c.Score = math.Round(c.Score*1e8) / 1e8
	r.heap = append(r.heap, c)
}

func (r *Ranking) session(c *Candidate) float64 {
	if c.session < 0 {
		return 0
	}
	return r.sessions[c.session]
}

func (r *Ranking) importance(c *Candidate) float64 {
	if c.own < 0 {
		return 0
	}
	if a := r.docs[c.own].attrs; a.category() == Daily || a.category() == Conversation {
		return importantWeight * (a.importance() - .5)
	}
	return 0
}

// Next gives the best candidate that was not given yet.
func (r *Ranking) Next() (Candidate, bool) {
	if len(r.heap) == 0 {
		return Candidate{}, false
	}
	return heap.Pop(&r.heap).(Candidate), true
}

// Why takes a score apart: its parts add up to it. Terms are the words that the document itself holds, Neighbours what
// the words of the documents beside it add.
type Why struct {
	Terms                                 []TermShare
	Neighbours, Session, Date, Importance float64
}

// TermShare is one word's part of a score.
type TermShare struct {
	Word  string
	Share float64
}

// Why explains a candidate's score.
func (r *Ranking) Why(c Candidate) Why {
	y := Why{Session: r.session(&c), Date: dateWeight * matchOf(r.dates, c.day), Importance: r.importance(&c)}
	for w := range r.words {
		own := r.of(c.own, w)
		share := r.shares[w] * saturated(own)
		if own > 0 {
			y.Terms = append(y.Terms, TermShare{r.words[w].Word, share})
		}
		n := own + neighbourWeight*(r.of(c.left, w)+r.of(c.right, w))
		y.Neighbours += r.shares[w]*saturated(n) - share
	}
	return y
}

// candidates is a heap with the best first. Of two with equal scores the newer comes first, then that at the later
// place.
type candidates []Candidate

func (h candidates) Len() int      { return len(h) }
func (h candidates) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h candidates) Less(i, j int) bool {
	if h[i].Score != h[j].Score {
		return h[i].Score > h[j].Score
	}
	if h[i].day != h[j].day {
		return h[i].day > h[j].day
	}
	return h[i].Compare(h[j].Place) > 0
}
func (h *candidates) Push(x any) { *h = append(*h, x.(Candidate)) }
func (h *candidates) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}
