package index

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// hit is a document found.
type hit struct {
	Doc   *rank.Document
	Score float64
	Why   rank.Why
}

// best gives the best hits, as many as asked for: what several passages are of comes once.
func (s *search) best() (hits []hit, err error) {
	type identity struct {
		id             string
		stream, number uint64
	}
	seen := map[identity]bool{}
	for n := s.Limit + 4; len(hits) < s.Limit; n = min(2*n, documentsAtOnce) {
		var some []rank.Candidate
		for len(some) < n {
			c, ok := s.ranking.Next()
			if !ok {
				break
			}
			some = append(some, c)
		}
		if len(some) == 0 {
			break
		}
		docs, err := s.documents(some)
		if err != nil {
			return nil, err
		}
		for i, d := range docs {
			if d == nil || !s.Filter.Passes(d, s.now) || s.hidden(d.Group) || len(hits) == s.Limit {
				continue
			}
			id := identity{id: d.ID}
			if d.ID == "" {
				id.stream, id.number = d.Stream, d.Number
			}
			if seen[id] {
				continue
			}
			seen[id] = true
			if s.Accept != nil {
				if ok, err := s.Accept(d); err != nil {
					return nil, err
				} else if !ok {
					continue
				}
			}
			hits = append(hits, hit{d, some[i].Score, s.ranking.Why(some[i])})
		}
	}
	return hits, nil
}

// documents gives what stands at the candidates' places; nil where nothing does, or what cannot be read.
func (s *search) documents(of []rank.Candidate) ([]*rank.Document, error) {
	out := make([]*rank.Document, len(of))
	var keys [][]byte
	var stored []int
	for i, c := range of {
		at, found := slices.BinarySearchFunc(s.fresh, c.Place, func(d *rank.Document, at rank.Place) int {
			return d.Compare(at)
		})
		switch {
		case found:
			out[i] = s.fresh[at]
		case !s.dead[c.Place]:
			keys, stored = append(keys, records.RecallDocument.Key(s.p, s.Space, c.Place.Stream, c.Place.Pos)), append(stored, i)
		}
	}
	r, err := s.e.db.Store.Read(s.ctx, s.tenant, store.Query{Keys: keys})
	if err != nil {
		return nil, err
	}
	for n, it := range r.Keys {
		if it.Value == nil && !it.Damaged {
			continue
		}
		d := readDocument(of[stored[n]].Place, it, false)
		out[stored[n]], s.damaged = d, s.damaged || d == nil
	}
	return out, nil
}
