package rank_test

import (
	"context"
	"math"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

// Similar words count less than the word, as parts of an occurrence, in texts and for the texts beside them, and the
// parts of each score add up.
func TestSimilarWordsCountLess(t *testing.T) {
	docs := map[rank.Place]*rank.Document{}
	place := func(pos uint64) rank.Place { return rank.Place{Stream: 1, Pos: pos} }
	for pos := uint64(1); pos <= 20; pos++ {
		docs[place(pos)] = &rank.Document{Place: place(pos), ID: string(rune('a' + pos)), Len: 10,
			Style: rank.Style{Said: pos}}
	}
	at := func(pos uint64, count uint32) rank.Posting {
		p := docs[place(pos)].Posting(1)
		p.Count = count
		return p
	}
	ask := func(word rank.Postings) map[uint64]rank.Hit {
		r, err := rank.Rank(context.Background(), rank.Request{Words: []rank.Postings{word},
			Corpus: rank.Corpus{Documents: 20, Terms: 200}, Weights: rank.Default})
		if err != nil {
			t.Fatal(err)
		}
		hits, _, err := r.Best(rank.Finder{Limit: 20, Read: func(some []rank.Place) (out []*rank.Document, err error) {
			for _, p := range some {
				out = append(out, docs[p])
			}
			return out, nil
		}, Accept: func(*rank.Document) (bool, error) { return true, nil }})
		if err != nil {
			t.Fatal(err)
		}
		by := map[uint64]rank.Hit{}
		for _, h := range hits {
			by[h.Doc.Pos] = h
			sum := h.Why.Neighbours + h.Why.Session + h.Why.Length + h.Why.Importance
			for _, term := range h.Why.Terms {
				sum += term.Share
			}
			if math.Abs(sum-h.Score) > 1e-6 {
				t.Errorf("the parts of %d are %v, the score is %v", h.Doc.Pos, sum, h.Score)
			}
		}
		return by
	}
	soft := []rank.Posting{at(10, rank.SoftUnit/4), at(15, rank.SoftUnit/2)}
	hits := ask(rank.Postings{Word: "instrument", Terms: []string{"instrument"}, List: []rank.Posting{at(4, 1)},
		Similar: []string{"guitar"}, Soft: soft})
	if !(hits[4].Score > hits[15].Score && hits[15].Score > hits[10].Score && hits[10].Score > hits[11].Score) {
		t.Errorf("scores: the word %v, half of it %v, a quarter %v, beside that %v", hits[4].Score, hits[15].Score,
			hits[10].Score, hits[11].Score)
	}
	if hits[11].Why.Neighbours <= 0 {
		t.Error("a similar word does not count beside its text")
	}
	if why := hits[10].Why.Terms; len(why) != 1 || !why[0].Soft || why[0].As[0] != "guitar" {
		t.Errorf("why: %+v", why)
	}
	if why := hits[4].Why.Terms; len(why) != 1 || why[0].Soft || why[0].As != nil {
		t.Errorf("why: %+v", why)
	}
	// Where no document holds the word, similar ones alone are found.
	hits = ask(rank.Postings{Word: "instrument", Terms: []string{"instrument"}, Similar: []string{"guitar"}, Soft: soft})
	if len(hits) < 2 || hits[15].Score <= hits[10].Score {
		t.Errorf("without the word: %v", hits)
	}
}
