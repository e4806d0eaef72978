// Package rank ranks documents by the words they contain. Its functions are pure functions over postings, without a
// store. It also encodes documents and postings for the index (document.go, posting.go), and finds what queries and
// texts say besides their words (date.go, style.go).
//
// This file turns postings into candidates, plain.go skips most of those that cannot be among the best, score.go
// computes a candidate's score, weights.go has the weight of each part, breadth.go scores requests for a summary or an
// order, and best.go chooses hits among the candidates.
//
// A word of the query counts if a document contains it and, with a lower weight, if the documents next to it do. Each
// count is divided by the length of its own document, as BM25F does with fields. Each word has a share of the score.
// The shares add up to 1, so a document that repeats all words of the query approaches a word score of 1.
package rank

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
)

// Word is one significant word of a query. Its terms are those that may stand for it in the index, one for each
// language that stems it differently.
type Word struct {
	Text  string
	Terms []string

	Begins []Beginning // longer terms that also stand for it
	Edits  int         // if it is rare, terms with up to this many typing errors also stand for it

	// If no document contains any of the above, these stand for it.
	Otherwise       []string
	OtherwiseBegins []Beginning
	// Within are its stems, spelled backwards. Long compounds that have one of them in the middle count half.
	Within []string
}

// Beginning describes terms that stand for a word: those that begin with Term and have at least More letters after it,
// and at most Most unless that is 0.
type Beginning struct {
	Term       string
	More, Most int
}

// Postings are the postings of one word of a query, sorted by place.
type Postings struct {
	Word  string
	As    []string // terms that are not the word's own but stand for it
	Typo  bool     // As are guesses at the intended word, and it counts half
	Terms []string // all terms with postings in List and Fresh

	// List are the postings of documents in blocks, and Fresh those of other documents. No document is in both. Later queries
	// may use the same memory, so they are not changed.
	List, Fresh []Posting
	Shape       *Shape // of List; nil if it is not known yet

	// Soft are postings of short documents that hold none of the terms, but Similar, terms of a like meaning. Their counts
	// are in units of 1/SoftUnit.
	Similar []string
	Soft    []Posting
}

// SoftUnit is the number of parts into which occurrences of similar words are divided.
const SoftUnit = 64

// frequency returns the number of documents that a word counts as being in: those with similar words only if no
// document contains it.
func (p *Postings) frequency() int {
	if n := len(p.List) + len(p.Fresh); n > 0 {
		return n
	}
	return len(p.Soft)
}

// All returns the postings of all documents with the word, sorted by place.
func (p *Postings) All() []Posting {
	if len(p.Fresh) == 0 {
		return p.List
	}
	all := make([]Posting, 0, len(p.List)+len(p.Fresh))
	for list, fresh := p.List, p.Fresh; ; {
		switch {
		case len(list) == 0:
			return append(all, fresh...)
		case len(fresh) == 0:
			return append(all, list...)
		case list[0].Compare(fresh[0].Place) < 0:
			all, list = append(all, list[0]), list[1:]
		default:
			all, fresh = append(all, fresh[0]), fresh[1:]
		}
	}
}

// softly reports whether a document contains similar words instead of the word.
func (p *Postings) softly(at Place) bool {
	_, found := slices.BinarySearchFunc(p.Soft, at, func(s Posting, at Place) int { return s.Compare(at) })
	return found
}

// Pair is two words of a query, the second directly after the first.
type Pair struct{ First, Second string }

// Corpus says how many documents a query ranks, and how many terms they have in total.
type Corpus struct {
	Documents, Terms uint64
}

// MaxWords limits the words that count. Of more words, the rarest count.
const MaxWords = 64

// Request is what documents are ranked by.
type Request struct {
	Words    []Postings
	Pairs    []Pair
	Breadth  Breadth // the query asks for a summary or an order
	Corpus   Corpus
	Dates    []Date
	Spans    []Span         // days that the query means
	When     bool           // the query asks when something was, or how long
	Speakers Speakers       // the speakers that the query names
	Without  map[Place]bool // places of documents that hits must not contain
	Filter   Filter
	Weights  Weights
	Limit    int // the number of hits that are wanted
}

// found is a document that contains some word of the query.
type found struct {
	Place
	len   uint32
	day   uint16
	attrs Attrs
}

// Ranking yields candidates, best first. The zero value has none.
type Ranking struct {
	Request
	mean   float64   // mean number of terms in a document
	shares []float64 // of each word in the greatest possible score
	docs   []found
	counts []float64 // by document and word: occurrences divided by the document's length
	pairs  []pair

	sessionShares []float64 // of each word in the greatest possible score of a session
	sessions      []float64 // by session and word: occurrences, each divided by its document's length

	heap candidates

	// If all documents are plain, the heap has only the best (plain.go).
	ctx  context.Context
	keep int        // the number to put into the heap next
	last *Candidate // the worst of those put into it; nil if all were
}

// Rank scores all documents that contain a word of a query, and their neighbours, unless the filter certainly rejects
// them. It fails only if ctx is done, with the error of ctx.
func Rank(ctx context.Context, q Request) (*Ranking, error) {
	q.Words = slices.DeleteFunc(q.Words, func(w Postings) bool { return w.frequency() == 0 })
	if len(q.Words) > MaxWords {
		slices.SortStableFunc(q.Words, func(a, b Postings) int { return cmp.Compare(a.frequency(), b.frequency()) })
		q.Words = q.Words[:MaxWords]
	}
	r := &Ranking{Request: q, mean: float64(q.Corpus.Terms) / float64(max(q.Corpus.Documents, 1)), ctx: ctx,
		keep: max(keptFirst, 2*q.Limit)}
	lens := make([]int, len(q.Words))
	for i, w := range q.Words {
		lens[i] = w.frequency()
	}
	r.shares = sharesOf(lens, float64(q.Corpus.Documents))
	for i, w := range q.Words {
		if w.Typo {
			r.shares[i] *= q.Weights.Typo
		}
	}
	r.findPairs()
	if r.plain() && q.Filter.Stream == 0 {
		return r, r.keepBest()
	}
	if err := r.keepAll(); err != nil {
		return r, err
	}
	r.spread()
	return r, nil
}

// keepAll fills the heap with all candidates. It fails if the ranking's context is done.
func (r *Ranking) keepAll() error {
	if err := r.unite(); err != nil {
		return err
	}
	for i, s := range r.streams() {
		if r.Filter.Stream == 0 || r.Filter.Stream == r.docs[s.from].Stream {
			r.stream(s, i)
		}
	}
	heap.Init(&r.heap)
	return r.ctx.Err()
}

// bars reports whether no hit may be at a place.
func (q *Request) bars(at Place) bool { return len(q.Without) > 0 && q.Without[at] }

// sharesOf returns the share of each word in the greatest possible score. Rarer words have larger shares.
func sharesOf(having []int, all float64) []float64 {
	shares, sum := make([]float64, len(having)), 0.0
	for i, n := range having {
		n := float64(n)
		shares[i] = math.Log(1 + (max(all-n, 0)+.5)/(n+.5))
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// unite merges the words' postings into documents.
func (r *Ranking) unite() error {
	total := 0
	for i := range r.Words {
		w := &r.Words[i]
		w.List, w.Fresh, w.Shape = w.All(), nil, nil
		total = max(total, len(w.List))
	}
	r.docs, r.counts = make([]found, 0, total), make([]float64, 0, total*len(r.Words))
	at, soft := make([]int, len(r.Words)), make([]int, len(r.Words))
	for {
		var first *Posting
		for i := range r.Words {
			w := &r.Words[i]
			if at[i] < len(w.List) && (first == nil || w.List[at[i]].Compare(first.Place) < 0) {
				first = &w.List[at[i]]
			}
			if soft[i] < len(w.Soft) && (first == nil || w.Soft[soft[i]].Compare(first.Place) < 0) {
				first = &w.Soft[soft[i]]
			}
		}
		if first == nil {
			return nil
		}
		if len(r.docs)%4096 == 0 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		r.docs = append(r.docs, found{first.Place, first.Len, first.Day, first.Attrs})
		place := first.Place
		for i := range r.Words {
			w, n := &r.Words[i], 0.0
			if soft[i] < len(w.Soft) && w.Soft[soft[i]].Place == place {
				n = r.countOf(&w.Soft[soft[i]]) / SoftUnit
				soft[i]++
			}
			if at[i] < len(w.List) && w.List[at[i]].Place == place {
				n = r.countOf(&w.List[at[i]])
				at[i]++
			}
			r.counts = append(r.counts, n)
		}
	}
}

// countOf returns a word's count in a document, divided by the document's length.
func (r *Ranking) countOf(p *Posting) float64 {
	b := r.Weights.Normalisation
	return float64(p.Count) / (1 - b + b*float64(p.Len)/r.mean)
}

// of returns a document's count of a word. It is 0 if doc is -1.
func (r *Ranking) of(doc int32, word int) float64 {
	if doc < 0 {
		return 0
	}
	return r.counts[int(doc)*len(r.Words)+word]
}

// run is where the documents of one stream are.
type run struct{ from, to int }

// streams finds the runs of streams, and adds up the counts of each session.
func (r *Ranking) streams() (out []run) {
	having, sessions := make([]int, len(r.Words)), 0
	for from := 0; from < len(r.docs); {
		to := from + 1
		for to < len(r.docs) && r.docs[to].SameStream(r.docs[from].Place) {
			to++
		}
		out = append(out, run{from, to})
		for w := range r.Words {
			n := 0.0
			for i := from; r.docs[from].Stream != 0 && i < to; i++ {
				n += r.of(int32(i), w)
			}
			r.sessions = append(r.sessions, n)
			if n > 0 {
				having[w]++
			}
		}
		if r.docs[from].Stream != 0 {
			sessions++
		}
		from = to
	}
	r.sessionShares = sharesOf(having, float64(sessions))
	return out
}

// stream makes candidates of the documents of one stream, and of those next to them.
func (r *Ranking) stream(s run, session int) {
	if r.docs[s.from].Stream == 0 {
		for i := s.from; i < s.to; i++ {
			r.add(Candidate{Place: r.docs[i].Place, own: int32(i), near: nobody, session: -1})
		}
		return
	}
	next := uint64(1) // the first position not examined
	first := s.from   // the first document close enough before it
	for i := s.from; i < s.to; i++ {
		pos := r.docs[i].Pos
		for at := max(next, pos-min(pos, reach)); at <= pos+reach; at++ {
			for r.docs[first].Pos+reach < at {
				first++
			}
			c := Candidate{Place: r.docs[i].Place, own: -1, near: nobody, session: int32(session)}
			c.Pos = at
			for n := first; n < s.to && r.docs[n].Pos <= at+reach; n++ {
				switch away := int(r.docs[n].Pos) - int(at); {
				case away < 0:
					c.near[away+reach] = int32(n)
				case away == 0:
					c.own = int32(n)
				default:
					c.near[away+reach-1] = int32(n)
				}
			}
			r.add(c)
			next = at + 1
		}
	}
}

// reach is the largest distance of a neighbour.
const reach = 2
