package rank

import (
	"cmp"
	"math"
	"slices"
)

// pair is two words of a ranking, the second directly after the first in the query.
type pair struct {
	first, second int     // indexes of Ranking.Words
	most          float64 // what it adds to the score of a document in which they are adjacent
}

// findPairs finds the pairs whose words both have postings.
func (r *Ranking) findPairs() {
	word := func(text string) int {
		return slices.IndexFunc(r.Words, func(w Postings) bool { return w.Word == text })
	}
	for _, p := range r.Pairs[:min(len(r.Pairs), MaxWords)] {
		first, second := word(p.First), word(p.Second)
		if first >= 0 && second >= 0 && first != second {
			r.pairs = append(r.pairs, pair{first, second, r.Weights.Adjacent * min(r.shares[first], r.shares[second])})
		}
	}
}

// mayFollow reports whether a candidate's document contains both words of a pair.
func (r *Ranking) mayFollow(c *Candidate, p pair) bool {
	return c.own >= 0 && r.of(c.own, p.first) > 0 && r.of(c.own, p.second) > 0
}

// adjacent returns the part of a candidate's score for words that follow each other as in the query.
func (r *Ranking) adjacent(c *Candidate) (score float64) {
	for i, p := range r.pairs {
		if r.mayFollow(c, p) && (!c.ordered || c.follow>>i&1 == 1) {
			score += p.most
		}
	}
	return score
}

// bounded reports whether a candidate's score is only an upper bound until its document is read.
func (r *Ranking) bounded(c *Candidate) bool {
	if !c.known {
		return true
	}
	return !c.ordered && !r.broad(c) && slices.ContainsFunc(r.pairs, func(p pair) bool { return r.mayFollow(c, p) })
}

// order records which pairs are adjacent in a candidate's document.
func (r *Ranking) order(c *Candidate, d *Document) {
	c.ordered, c.follow = true, 0
	for i, p := range r.pairs {
		if r.mayFollow(c, p) && d.follows(r.Words[p.first].Terms, r.Words[p.second].Terms) {
			c.follow |= 1 << i
		}
	}
}

// follows reports whether one of some terms directly follows one of others in the document.
func (d *Document) follows(first, second []string) bool {
	if d.encoded != nil {
		return followsIn(d.encoded, first, second)
	}
	before, behind := d.indexes(first), d.indexes(second)
	for i := range max(len(d.Order), 1) - 1 {
		if slices.Contains(before, d.Order[i]) && slices.Contains(behind, d.Order[i+1]) {
			return true
		}
	}
	return false
}

// indexes returns the indexes of some terms among those of the document.
func (d *Document) indexes(terms []string) (out []uint16) {
	for _, term := range terms {
		if i, found := slices.BinarySearchFunc(d.Terms, term, compareTerm); found {
			out = append(out, uint16(i))
		}
	}
	return out
}

// followsIn is follows for the encoded terms and order of a document. Most documents that are examined for their order
// are not hits, so their terms are not decoded.
func followsIn(encoded []byte, first, second []string) bool {
	r := reader{b: encoded}
	var before, behind [2 * MaxWords]uint16
	ones, others := before[:0], behind[:0]
	r.eachTerm(r.uvarint(), func(i int, term []byte, _ uint32) {
		if isOne(term, first) {
			ones = append(ones, uint16(i))
		}
		if isOne(term, second) {
			others = append(others, uint16(i))
		}
	})
	if len(ones) == 0 || len(others) == 0 {
		return false
	}
	for after := false; r.at < len(r.b) && !r.bad; {
		i := r.uvarint()
		if after && i <= math.MaxUint16 && slices.Contains(others, uint16(i)) {
			return true
		}
		after = i <= math.MaxUint16 && slices.Contains(ones, uint16(i))
	}
	return false
}

func isOne(term []byte, of []string) bool {
	for _, t := range of {
		if string(term) == t {
			return true
		}
	}
	return false
}

func compareTerm(t TermCount, term string) int { return cmp.Compare(t.Term, term) }
