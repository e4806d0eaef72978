package recall

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/lru"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

// similarWords finds the words of a static model that are nearest to a word. They are the model's own whole words, as
// terms of the index, so nothing about them is stored, and they tell nothing about anybody's texts. The index then uses
// those that it holds.
type similarWords struct {
	embed     func(string) []float32
	termOf    func(string) string
	mean      []float32 // of all terms
	terms     []string
	at        map[string]int // the indexes of the terms
	vectors   [][]byte       // of each term, without the mean, as rank.Quantise makes them
	signs     [][]uint64     // of each term: the signs of its vector
	threshold float64        // the least cosine of similar words
	found     *lru.Map[[]index.Similar]
}

const (
	// Two words are similar from the cosine that one in a thousand pairs of words reaches, because tables differ in how near
	// all words are to each other. It is at least leastCosine.
	leastCosine   = .4
	similarPairs  = 1000
	similarSample = 1024 // words of which the pairs are compared

	similarShare  = .5      // the weight of an occurrence of the nearest possible word
	similarTerms  = 100_000 // of a model; its later tokens are rarer words
	similarBySign = 256     // terms whose vectors are compared
	similarKept   = 64      // of a word
	similarCached = 4 << 20 // bytes
	similarBytes  = 48      // of one in the cache, about
)

// findSimilar prepares the words of a model. termOf returns the term of a word, or "".
func findSimilar(m StaticModel, termOf func(string) string) *similarWords {
	s := &similarWords{embed: m.Embed, termOf: termOf, at: map[string]int{}, found: lru.New(similarCached, func() []index.Similar { return nil })}
	sums, counts := [][]float32{}, []float32{}
	m.Words(func(word string, vector []float32) {
		term := termOf(word)
		n, known := s.at[term]
		if term == "" || !known && len(s.terms) == similarTerms {
			return
		}
		if !known {
			n = len(s.terms)
			s.at[term], s.terms = n, append(s.terms, term)
			sums, counts = append(sums, make([]float32, len(vector))), append(counts, 0)
		}
		counts[n]++
		for i, x := range vector {
			sums[n][i] += x
		}
	})
	if len(sums) == 0 {
		return s
	}
	s.mean = make([]float32, len(sums[0]))
	for n, sum := range sums {
		for i := range sum {
			sum[i] /= counts[n]
			s.mean[i] += sum[i] / float32(len(sums))
		}
	}
	for n := range sums {
		q, err := rank.Quantise(s.centred(sums[n]))
		if err != nil { // it equals the mean, so it is similar to nothing
			q.Bytes = make([]byte, len(s.mean))
		}
		s.vectors, s.signs = append(s.vectors, q.Bytes), append(s.signs, signsOf(q.Bytes))
		sums[n] = nil
	}
	s.setThreshold()
	return s
}

// centred subtracts the mean from a vector, in place.
func (s *similarWords) centred(v []float32) []float32 {
	for i := range v {
		v[i] -= s.mean[i]
	}
	return v
}

// signsOf returns the signs of a quantised vector as bits.
func signsOf(vector []byte) []uint64 {
	out := make([]uint64, (len(vector)+63)/64)
	for i, x := range vector {
		if int8(x) > 0 {
			out[i/64] |= 1 << (i % 64)
		}
	}
	return out
}

// setThreshold computes the threshold from words at equal distances in the vocabulary.
func (s *similarWords) setThreshold() {
	var some [][]byte
	for i := 0; i < len(s.vectors); i += max(len(s.vectors)/similarSample, 1) {
		some = append(some, s.vectors[i])
	}
	var cosines []float64
	for i := range some {
		for _, other := range some[:i] {
			if c := rank.Cosine(some[i], other); c > leastCosine {
				cosines = append(cosines, c)
			}
		}
	}
	slices.SortFunc(cosines, func(a, b float64) int { return cmp.Compare(b, a) })
	s.threshold = leastCosine
	if n := len(some) * (len(some) - 1) / 2 / similarPairs; n > 0 && n <= len(cosines) {
		s.threshold = cosines[n-1]
	}
}

// to returns the terms that are similar to a word, the nearest first.
func (s *similarWords) to(word string) []index.Similar {
	if len(s.terms) == 0 {
		return nil
	}
	cell, unlock := s.found.Locked(word)
	defer unlock()
	if cell.Value == nil {
		out := s.search(word)
		s.found.Keep(cell, out, len(out)*similarBytes)
	}
	return cell.Value
}

// vectorOf returns the vector of a word: of another form of it that the model knows as a whole, or of its parts.
func (s *similarWords) vectorOf(word string) []byte {
	if n, known := s.at[s.termOf(word)]; known {
		return s.vectors[n]
	}
	vector := s.embed(word)
	if vector == nil {
		return nil
	}
	q, _ := rank.Quantise(s.centred(vector))
	return q.Bytes
}

// search compares the signs of all terms with those of a word, and the vectors of the nearest.
func (s *similarWords) search(word string) []index.Similar {
	out := []index.Similar{}
	own := s.vectorOf(word)
	if own == nil {
		return out
	}
	signs, nearest := signsOf(own), rank.NewNearest[int](similarBySign)
	for n, other := range s.signs {
		distance := 0
		for i := range signs {
			distance += bits.OnesCount64(signs[i] ^ other[i])
		}
		nearest.Add(n, distance)
	}
	for _, near := range nearest.All() {
		if cosine := rank.Cosine(own, s.vectors[near.What]); cosine > s.threshold {
			weight := similarShare * (min(cosine, 1) - s.threshold) / (1 - s.threshold)
			out = append(out, index.Similar{Term: s.terms[near.What], Weight: math.Min(weight, similarShare)})
		}
	}
	slices.SortStableFunc(out, func(a, b index.Similar) int { return cmp.Compare(b.Weight, a.Weight) })
	return out[:min(len(out), similarKept)]
}
