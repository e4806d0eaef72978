package align

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxAligned limits how many messages of each side are aligned after the common prefix. Older ones count as missing.
const maxAligned = 4096

// Pair says that message Request of a request equals stored message Stored.
type Pair struct{ Stored, Request int }

// Align pairs the messages of a stored line with the equal messages of a request. No two pairs cross. The pairs are the
// common prefix, and after it those that the patience method finds: messages, or two in a row, that occur once on each
// side anchor the alignment, and equal neighbours join them.
func Align(stored, request []Hash) []Pair {
	n, m, p := len(stored), len(request), 0
	for p < n && p < m && stored[p] == request[p] {
		p++
	}
	pairs := make([]Pair, p, min(n, m))
	for i := range pairs {
		pairs[i] = Pair{i, i}
	}
	if p == n || p == m {
		return pairs
	}
	s, r := max(p, n-maxAligned), max(p, m-maxAligned)
	anchors := increasing(anchored(stored, request, s, r))
	for k, at := range anchors {
		last, next := Pair{s - 1, r - 1}, Pair{n, m}
		if len(pairs) > p {
			last = pairs[len(pairs)-1]
		}
		if k+1 < len(anchors) {
			next = anchors[k+1]
		}
		first := at
		for first.Stored-1 > last.Stored && first.Request-1 > last.Request &&
			stored[first.Stored-1] == request[first.Request-1] {
			first.Stored--
			first.Request--
		}
		for first.Stored < next.Stored && first.Request < next.Request && stored[first.Stored] == request[first.Request] {
			pairs = append(pairs, first)
			first.Stored++
			first.Request++
		}
	}
	return pairs
}

// anchored returns the indices of messages, and of two messages in a row, that occur once on each side, in the order of
// the stored side.
func anchored(stored, request []Hash, s, r int) (out []Pair) {
	type gram struct{ first, second Hash }
	type place struct{ stored, request int } // index + 1; -1 if it occurs more than once
	single, double := map[Hash]place{}, map[gram]place{}
	once := func(at, i int) int {
		if at == 0 {
			return i + 1
		}
		return -1
	}
	for i := s; i < len(stored); i++ {
		p := single[stored[i]]
		p.stored = once(p.stored, i)
		single[stored[i]] = p
		if i+1 < len(stored) {
			g := gram{stored[i], stored[i+1]}
			p := double[g]
			p.stored = once(p.stored, i)
			double[g] = p
		}
	}
	for j := r; j < len(request); j++ {
		if p, ok := single[request[j]]; ok {
			p.request = once(p.request, j)
			single[request[j]] = p
		}
		if j+1 < len(request) {
			g := gram{request[j], request[j+1]}
			if p, ok := double[g]; ok {
				p.request = once(p.request, j)
				double[g] = p
			}
		}
	}
	for i := s; i < len(stored); i++ {
		p := single[stored[i]]
		if (p.stored < 0 || p.request <= 0) && i+1 < len(stored) {
			p = double[gram{stored[i], stored[i+1]}]
		}
		if p.stored == i+1 && p.request > 0 {
			out = append(out, Pair{i, p.request - 1})
		}
	}
	return out
}

// increasing returns a longest subsequence of pairs with increasing request indices.
func increasing(pairs []Pair) []Pair {
	var tails []int // the last pair of the best subsequence of each length
	before := make([]int, len(pairs))
	for t, p := range pairs {
		k, _ := slices.BinarySearchFunc(tails, p.Request, func(at, request int) int { return pairs[at].Request - request })
		before[t] = -1
		if k > 0 {
			before[t] = tails[k-1]
		}
		if k == len(tails) {
			tails = append(tails, t)
		} else {
			tails[k] = t
		}
	}
	if len(tails) == 0 {
		return nil
	}
	out := make([]Pair, len(tails))
	for k, t := len(tails)-1, tails[len(tails)-1]; k >= 0; k, t = k-1, before[t] {
		out[k] = pairs[t]
	}
	return out
}

// containedFrom is the minimum length of a text for a text that contains it to count as a version of it.
const containedFrom = 16

// similar compares two texts. share is the share of words that they have in common, or 1 if one text contains the
// other. common is the length of the common part, in characters.
func similar(x, y string) (share float64, common int) {
	short, long := x, y
	if utf8.RuneCountInString(short) > utf8.RuneCountInString(long) {
		short, long = long, short
	}
	if n := utf8.RuneCountInString(short); n >= containedFrom && strings.Contains(long, short) {
		return 1, n
	}
	words := map[string]int{}
	total, other, shared := 0, 0, 0
	for w := range strings.FieldsSeq(x) {
		words[w]++
		total++
	}
	for w := range strings.FieldsSeq(y) {
		other++
		if words[w] > 0 {
			words[w]--
			shared++
			common += utf8.RuneCountInString(w)
		}
	}
	return float64(shared) / float64(max(1, total, other)), common
}
