package index

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// How many documents a query examines by their vectors.
const (
	nearByBits = 1000 // whose bytes are read
	fused      = 100  // hits are chosen from as many found by words, and as many found by vectors
)

// Near asks for documents near a vector, in addition to those found by words. The search sets Length to the number of
// dimensions of the space's vectors of the model, or 0 if there are none. If it differs from the query's, the vectors
// do not count. The search also sets Differs if the model is a static one, and the space's vectors are of another.
type Near struct {
	Model  rank.Model
	Weight float64 // the score of the nearest document: see rank.Share
	rank.Quantised
	Length  uint32
	Differs bool

	// Similar, if not nil, returns terms with a meaning like that of a word, the nearest first.
	Similar func(word string) []Similar
}

// identity identifies the source of a document. Passages of one text have the same.
type identity struct {
	id             string
	stream, number uint64
}

func identityOf(d *rank.Document) identity {
	if d.ID != "" {
		return identity{id: d.ID}
	}
	return identity{stream: d.Stream, number: d.Number}
}

// nearest returns the places of the documents with the nearest bits, nearest first.
func (s *search) nearest() ([]rank.Place, error) {
	found := rank.NewNearest[rank.Place](nearByBits)
	for _, rng := range s.ofBits() {
		for it, err := range s.svc.db.Scan(s.ctx, s.tenant, rng) {
			if err != nil {
				return nil, err
			}
			at := placeOf(it.Key)
			if value := s.Near.Model.Of(it.Value); len(value) == len(s.Near.Bits) && !s.dead[at] && s.inside(at) {
				found.Add(at, rank.Hamming(value, s.Near.Bits))
			}
		}
	}
	var places []rank.Place
	for _, n := range found.All() {
		places = append(places, n.What)
	}
	return places, nil
}

// ofBits returns the ranges of the bits of all documents that may be hits.
func (s *search) ofBits() (out []store.Range) {
	all := records.RecallBits.Under2(s.Project, s.Kind)
	numbers := s.numbers
	if s.StreamIn != nil {
		numbers = []uint64{*s.StreamIn}
	}
	if numbers == nil || len(numbers) > maxRanges {
		return []store.Range{all}
	}
	for _, n := range numbers {
		rng := records.PrefixRange(binary.BigEndian.AppendUint64(slices.Clone(all.From), n))
		if s.Filter.Stream != 0 {
			rng = records.RecallBits.Under3(s.Project, s.Kind, records.Stream{Namespace: n, Number: s.Filter.Stream})
		}
		out = append(out, rng)
	}
	return out
}

// before and behind return the places of a document's neighbours, if it has any.
func before(at rank.Place) rank.Place {
	return rank.Place{Namespace: at.Namespace, Stream: at.Stream, Pos: at.Pos - 1}
}
func behind(at rank.Place) rank.Place {
	return rank.Place{Namespace: at.Namespace, Stream: at.Stream, Pos: at.Pos + 1}
}

// nearness compares the bytes of vectors with the query's, from −1 to 1. It leaves out places without a vector of the
// model.
func (s *search) nearness(places []rank.Place) (map[rank.Place]float64, error) {
	vectors := map[rank.Place][]byte{}
	for _, at := range places {
		vectors[at] = nil
		if at.Stream != 0 {
			vectors[before(at)], vectors[behind(at)] = nil, nil
		}
	}
	var q store.Query
	for at := range vectors {
		_, bytes := s.vectorKeys(at)
		q.Keys = append(q.Keys, bytes)
	}
	out := map[rank.Place]float64{}
	if len(q.Keys) == 0 {
		return out, nil
	}
	r, err := s.svc.db.Store.Read(s.ctx, s.tenant, q)
	if err != nil {
		return nil, err
	}
	for _, it := range r.Keys {
		value := s.Near.Model.Of(it.Value)
		if at := placeOf(it.Key); len(value) == len(s.Near.Bytes) && !s.dead[at] {
			vectors[at] = value
		}
	}
	for _, at := range places {
		own := vectors[at]
		if own == nil {
			continue
		}
		out[at] = rank.Cosine(own, s.Near.Bytes)
		if at.Stream != 0 {
			out[at] = rank.Among(s.Near.Bytes, own, vectors[before(at)], vectors[behind(at)])
		}
	}
	return out, nil
}

// fuse adds documents near the query's vector to the hits found by words, and adds to each score the value of its
// nearness. Documents not found by words have a word score of 0.
func (s *search) fuse(hits []rank.Hit, limit int) ([]rank.Hit, error) {
	places, err := s.nearest()
	if err != nil {
		return nil, err
	}
	near := len(places)
	seen, said := map[identity]bool{}, map[uint64]bool{}
	for i := range hits {
		places = append(places, hits[i].Doc.Place)
		seen[identityOf(hits[i].Doc)], said[hits[i].Doc.Said] = true, true
	}
	cosines, err := s.nearness(places)
	if err != nil {
		return nil, err
	}
	places = slices.DeleteFunc(places[:near], func(at rank.Place) bool { _, ok := cosines[at]; return !ok })
	slices.SortStableFunc(places, func(a, b rank.Place) int { return cmp.Compare(cosines[b], cosines[a]) })
	best := 1.
	if len(hits) > 0 && hits[0].Score > 0 {
		best = hits[0].Score
	}
	accepted := 0
	for some := range slices.Chunk(places, fused) {
		docs, err := s.documents(some)
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			if d == nil || accepted == fused || s.leftOut(d) {
				continue
			}
			if ok, err := s.accepts(d); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
			accepted++
			if id := identityOf(d); !seen[id] && !said[d.Said] {
				seen[id], said[d.Said] = true, true
				hits = append(hits, rank.Hit{Doc: d})
			}
		}
		if accepted == fused {
			break
		}
	}
	low, high := 1., -1.
	for i := range hits {
		if cosine, ok := cosines[hits[i].Doc.Place]; ok {
			low, high = min(low, cosine), max(high, cosine)
		}
	}
	for i := range hits {
		if cosine, ok := cosines[hits[i].Doc.Place]; ok {
			hits[i].Why.Vector = rank.Share(s.Near.Weight, cosine, low, high, best)
			hits[i].Score += hits[i].Why.Vector
		}
	}
	rank.RaiseNewer(hits)
	return hits[:min(len(hits), limit)], nil
}

// leftOut reports whether a document contains a word that the query excludes.
func (s *search) leftOut(d *rank.Document) bool {
	return slices.ContainsFunc(s.unwanted, func(w rank.Word) bool {
		return slices.ContainsFunc(w.Terms, func(term string) bool { return d.Count(term) > 0 })
	})
}
