package rank

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// plainRequest asks for a few words with very uneven lists over documents without neighbours.
func plainRequest(r *rand.Rand) Request {
	docs := make([]Posting, 1+r.IntN(400))
	for i := range docs {
		attrs := Attrs(r.Uint64())
		if r.IntN(2) == 0 {
			attrs = 0
		}
		docs[i] = Posting{Place: Place{Namespace: uint64(i / 100), Pos: uint64(3*(i%100) + r.IntN(3))}, Len: 1 + r.Uint32N(1<<r.IntN(8)), Day: uint16(20000 + r.IntN(9)),
			Attrs: attrs}
	}
	q := Request{Weights: Default, Without: map[Place]bool{}, When: r.IntN(4) == 0, Speakers: Speakers(r.Uint64N(2) * r.Uint64())}
	fresh := map[Place]bool{}
	for _, d := range docs {
		fresh[d.Place] = r.IntN(9) == 0
		q.Corpus.Documents++
		q.Corpus.Terms += uint64(d.Len)
		if r.IntN(20) == 0 {
			q.Without[d.Place] = true
		}
	}
	for range r.IntN(6 + r.IntN(2)*20) {
		w := Postings{Word: fmt.Sprint(len(q.Words)), Typo: r.IntN(8) == 0}
		for _, d := range docs {
			if r.IntN(1+min(len(q.Words), 6)*7) == 0 {
				d.Count = 1 + r.Uint32N(1<<r.IntN(4))
				if fresh[d.Place] {
					w.Fresh = append(w.Fresh, d)
				} else {
					w.List = append(w.List, d)
				}
			}
		}
		q.Words = append(q.Words, w)
	}
	for range r.IntN(2) * len(q.Words) { // some twice, and some of words that no document contains
		q.Pairs = append(q.Pairs, Pair{fmt.Sprint(r.IntN(len(q.Words))), fmt.Sprint(r.IntN(len(q.Words)))})
	}
	if r.IntN(3) == 0 { // Pairs decide.
		q.Weights.Adjacent, q.Weights.Length, q.Weights.Important = 3, 0, 0
	}
	if r.IntN(4) == 0 {
		q.Spans = []Span{{From: 20002, To: 20004}}
		q.Dates = []Date{{Year: 2024, Month: time.October, Day: 6}}
	}
	if r.IntN(4) == 0 {
		q.Filter.Since = time.Unix(20003*86400, 0)
	}
	return q
}

// Candidates kept a few at a time come in the same order and with the same scores and reasons as when all documents are
// scored.
func TestKeepingTheBestEqualsKeepingAll(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 5))
		q := plainRequest(r)
		few, err := Rank(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		few = &Ranking{Request: few.Request, mean: few.mean, shares: few.shares, pairs: few.pairs, ctx: few.ctx, keep: 1 + r.IntN(20)}
		all := &Ranking{Request: few.Request, mean: few.mean, shares: few.shares, pairs: few.pairs, ctx: few.ctx}
		all.Words = slices.Clone(all.Words)
		if err := all.keepAll(); err != nil {
			t.Fatal(err)
		}
		if err := few.keepBest(); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			if len(few.heap) == 0 && few.last != nil {
				if err := few.keepBest(); err != nil {
					t.Fatal(err)
				}
			}
			if len(few.heap) == 0 || len(all.heap) == 0 {
				if len(few.heap) != len(all.heap) {
					t.Fatalf("seed %d: behind %d candidates %d are left, and %d where all are kept", seed, n, len(few.heap), len(all.heap))
				}
				break
			}
			a, b := heap.Pop(&few.heap).(Candidate), heap.Pop(&all.heap).(Candidate)
			x, y := few.Why(&a), all.Why(&b)
			if a.Place != b.Place || a.Score != b.Score || x.Adjacent != y.Adjacent || !slices.EqualFunc(x.Terms, y.Terms, func(s, t TermShare) bool {
				return s.Word == t.Word && s.Share == t.Share
			}) {
				t.Fatalf("seed %d: candidate %d is %v %v %v, and %v %v %v where all are kept", seed, n, a.Place, a.Score, x, b.Place, b.Score, y)
			}
		}
	}
}

func TestSkipTo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 6))
	for range 2000 {
		list := make([]Posting, r.IntN(50))
		for i := range list {
			list[i].Place = Place{Namespace: uint64(i / 20), Pos: uint64(2*(i%20) + r.IntN(2))}
		}
		at := Place{Namespace: r.Uint64N(4), Pos: r.Uint64N(45)}
		want := slices.DeleteFunc(slices.Clone(list), func(p Posting) bool { return p.Compare(at) < 0 })
		if got := skipTo(list, at); !slices.Equal(got, want) {
			t.Fatalf("%d behind %v, want %d", len(got), at, len(want))
		}
	}
}
