package store

import (
	"bytes"
	"context"
	"errors"
	"slices"
)

// Commit applies a batch with its long values split into pieces.
func (s *long) Commit(ctx context.Context, tenant string, b Batch) error {
	concerned, err := s.concerns(b)
	if err != nil {
		return err
	}
	if !concerned {
		return s.inner.Commit(ctx, tenant, b)
	}
	if err := b.check(tenant, s.length); err != nil {
		return err
	}
	for range longAttempts {
		out, err := s.split(ctx, tenant, b)
		if err != nil {
			return err
		}
		err = s.inner.Commit(ctx, tenant, out)
		if lost, ok := errors.AsType[*ConflictError](err); !ok || lost.Index < len(b.Expect) {
			return err
		}
		// Another writer changed the number of rests after they were looked up.
	}
	return ErrUnavailable
}

// concerns reports whether a batch writes, expects or removes a value that may be long. It fails with ErrReserved.
func (s *long) concerns(b Batch) (bool, error) {
	concerned := false
	for _, e := range b.Expect {
		concerned = concerned || len(e.Value) >= s.piece && s.length(e.Key) != Plain
	}
	for _, p := range b.Put {
		if IsRest(p.Key) {
			return false, ErrReserved
		}
		length := s.length(p.Key)
		concerned = concerned || length == Rewritten || length == Once && len(p.Value) >= s.piece
	}
	for _, key := range b.Delete {
		if IsRest(key) {
			return false, ErrReserved
		}
		concerned = concerned || s.length(key) != Plain
	}
	return concerned, nil
}

// IsRest reports whether a key is that of a rest of a long value. Records above Long have no such keys.
func IsRest(key []byte) bool {
	return len(key) >= len(restPrefix) && string(key[:len(restPrefix)]) == restPrefix ||
		len(key) >= len(looseRests) && string(key[:len(looseRests)]) == looseRests
}

// split returns the batch for inner. The caller's preconditions come first, so that the index in a conflict is the
// caller's.
func (s *long) split(ctx context.Context, tenant string, b Batch) (Batch, error) {
	out := Batch{Expect: slices.Clone(b.Expect), Put: make([]Pair, 0, len(b.Put)), Delete: slices.Clone(b.Delete),
		split: true}
	old := map[string]int{} // by key: the number of stored rests
	for i, e := range b.Expect {
		if s.length(e.Key) == Plain {
			continue
		}
		old[string(e.Key)] = s.rests(len(e.Value))
		if len(e.Value) >= s.piece {
			out.Expect[i].Value = s.head(e.Value)
		}
	}
	unknown := func(key []byte) bool {
		_, known := old[string(key)]
		return !known
	}
	var look [][]byte
	for _, p := range b.Put {
		if s.length(p.Key) == Rewritten && unknown(p.Key) {
			look = append(look, p.Key)
		}
	}
	for _, key := range b.Delete {
		if s.length(key) != Plain && unknown(key) {
			look = append(look, key)
		}
	}
	if err := s.count(ctx, tenant, look, old); err != nil {
		return out, err
	}
	for _, key := range look {
		if s.length(key) == Rewritten { // Another writer may make the value longer meanwhile.
			out.Expect = append(out.Expect, Expect{Key: restKey(key, old[string(key)]+1)})
		}
	}
	remove := func(key []byte, above int) {
		for n := above + 1; n <= old[string(key)]; n++ {
			out.Delete = append(out.Delete, restKey(key, n))
		}
	}
	for _, p := range b.Put {
		if s.length(p.Key) == Plain {
			out.Put = append(out.Put, p)
			continue
		}
		out.Put = s.put(out.Put, p)
		remove(p.Key, s.rests(len(p.Value)))
	}
	for _, key := range b.Delete {
		remove(key, 0)
	}
	return out, nil
}

// put appends the pieces of a pair.
func (s *long) put(dst []Pair, p Pair) []Pair {
	if len(p.Value) < s.piece {
		return append(dst, p)
	}
	head := s.head(p.Value)
	dst = append(dst, Pair{Key: p.Key, Value: head})
	sum, after := head[4:headSize], p.Value[s.piece-headSize:]
	for n := range s.rests(len(p.Value)) {
		size := min(len(after), s.piece-digestSize)
		value := append(append(make([]byte, 0, digestSize+size), sum...), after[:size]...)
		dst = append(dst, Pair{Key: restKey(p.Key, n+1), Value: value})
		after = after[size:]
	}
	return dst
}

// count sets old to the number of rests of each key: the number of the last one.
func (s *long) count(ctx context.Context, tenant string, keys [][]byte, old map[string]int) error {
	if len(keys) == 0 {
		return nil
	}
	rng := Range{KeysOnly: true, Limit: MaxWrites}
	for _, key := range keys {
		old[string(key)] = 0
		if first := restKey(key, 0); rng.From == nil || bytes.Compare(first, rng.From) < 0 {
			rng.From = first
		}
		if last := restKey(key, 1<<16-1); bytes.Compare(last, rng.To) > 0 {
			rng.To = last
		}
	}
	for {
		res, err := s.inner.Read(ctx, tenant, Query{Ranges: []Range{rng}})
		if err != nil {
			return err
		}
		found := res.Ranges[0]
		for _, it := range found {
			key, n, _ := splitRest(it.Key)
			if _, asked := old[string(key)]; asked {
				old[string(key)] = max(old[string(key)], n)
			}
		}
		if len(found) < rng.Limit {
			return nil
		}
		rng.From = append(found[len(found)-1].Key, 0)
	}
}

// joins says how the ranges of a query were split in two for reading.
type joins struct {
	asked []Range
	pairs [][2]int // for each range: the indexes of its two parts, or the same index twice
}

// cutRanges removes the keys of rests from ranges. A range around the loose rests is read in two parts, below and
// above them. joins is nil if no range was changed.
func cutRanges(q Query) (Query, *joins) {
	const aboveLoose = string(rune(Loose + 1))
	crosses := func(r Range) bool { return len(r.To) == 0 || string(r.To) > looseRests && string(r.From) < aboveLoose }
	if !slices.ContainsFunc(q.Ranges, func(r Range) bool { return crosses(r) || string(r.To) > restPrefix }) {
		return q, nil
	}
	j := &joins{asked: q.Ranges}
	var cut []Range
	for _, r := range q.Ranges {
		if len(r.To) == 0 || string(r.To) > restPrefix {
			r.To = []byte(restPrefix)
		}
		if !crosses(r) {
			j.pairs = append(j.pairs, [2]int{len(cut), len(cut)})
			cut = append(cut, r)
			continue
		}
		below, above := r, r
		below.To = []byte(looseRests)
		if string(r.From) < aboveLoose {
			above.From = []byte(aboveLoose)
		}
		j.pairs = append(j.pairs, [2]int{len(cut), len(cut) + 1})
		cut = append(cut, below, above)
	}
	q.Ranges = cut
	return q, j
}

// merge joins the results for each original range.
func (j *joins) merge(found [][]Item) [][]Item {
	out := make([][]Item, len(j.asked))
	for i, at := range j.pairs {
		if at[0] == at[1] {
			out[i] = found[at[0]]
			continue
		}
		first, second := found[at[0]], found[at[1]]
		if j.asked[i].Reverse {
			first, second = second, first
		}
		out[i] = append(first, second...)
		if limit := j.asked[i].Limit; limit > 0 && len(out[i]) > limit {
			out[i] = out[i][:limit]
		}
	}
	return out
}
