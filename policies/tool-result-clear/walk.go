package toolresultclear

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// walk goes over a table record by record and works out how long each result may be.
type walk struct {
	*settings
	record     *mneme.Record
	at         int // of the record
	first, end int // of its atom
	tokens     uint64
	cut        cut
	question   uint64 // tokens of the newest question of the turn
	turn       uint32 // that it is of
}

// walk stands before the first record.
func (s *settings) walk() walk { return walk{settings: s, at: -1} }

// next goes on to the next record; false where there is none.
func (w *walk) next() bool {
	if w.at+1 >= w.req.Len() {
		return false
	}
	if w.at++; w.at >= w.end {
		w.first, w.end = w.at, w.req.AtomEnd(w.at)
		if turn := w.req.Record(w.at).Turn; turn != w.turn {
			w.turn, w.question = turn, 0
		}
		w.cut = w.cutOf(w.first, w.end, w.question)
	}
	w.record = w.req.Record(w.at)
	if w.record.Role == mneme.User {
		w.question = uint64(w.record.Tokens)
	}
	w.tokens = uint64(w.record.Tokens)
	if isResult(w.record) {
		w.tokens = w.cut.next(w.tokens)
	}
	return true
}

// cut says how long the results of one atom may be: the first so many of those that are longer than low have low, the
// others have high.
type cut struct {
	low, high uint64
	lowered   int
}

// unbounded is more tokens than any message has.
const unbounded = 1 << 40

// next is what the next result of so many tokens may have.
func (c *cut) next(tokens uint64) uint64 {
	if tokens > c.low && c.lowered > 0 {
		c.lowered--
		return c.low
	}
	return min(tokens, c.high)
}

// least is the length that a result is not cut below so that others of its call have room.
const least = 256

// markerRoom is about what a message that says that something was left out takes.
const markerRoom = 24

// cutOf works out the cut of an atom, where the question of its turn has so many tokens. An atom that the budget does not
// hold beside them is of no use to anybody, so then no result is longer than the longest allowed, and all together are
// within their share. The lengths are powers of two, as they are where the host cuts what must stay.
func (s *settings) cutOf(first, end int, question uint64) cut {
	c := cut{low: unbounded, high: unbounded}
	shown := s.budget == 0 || s.atom(first, end)+question+markerRoom <= s.budget
	if s.longest > 0 && (s.always || !shown) {
		c.high = s.longest
	}
	if shown {
		return c
	}
	var total, most uint64
	for i := first; i < end; i++ {
		r := s.req.Record(i)
		n := uint64(r.Tokens)
		if isResult(r) {
			n = min(n, c.high)
			most = max(most, n)
		}
		total += n
	}
	low := uint64(least)
	for low < most {
		low *= 2
	}
	for low /= 2; low >= least && total > s.share; low /= 2 {
		if c.lowered > 0 {
			c.high = min(c.high, c.low)
		}
		c.low, c.lowered = low, 0
		for i := first; i < end && total > s.share; i++ {
			if r := s.req.Record(i); isResult(r) && min(uint64(r.Tokens), c.high) > low {
				total -= min(uint64(r.Tokens), c.high) - low
				c.lowered++
			}
		}
	}
	return c
}

// atom is the tokens of the records first to end, where results are not longer than they may be always.
func (s *settings) atom(first, end int) (total uint64) {
	for i := first; i < end; i++ {
		r := s.req.Record(i)
		n := uint64(r.Tokens)
		if s.always && isResult(r) {
			n = min(n, s.longest)
		}
		total += n
	}
	return total
}

// fits tells whether no result is too long, as none is in most tables. It looks at no turn: where half of the budget
// holds each question with the marker, and each atom, all can be shown.
func (s *settings) fits() bool {
	half := s.budget / 2
	atom, total := uint32(0), uint64(0) // of the atom up to a record
	records := s.req.Records()
	for i := range records.Len() {
		r := records.At(i)
		if r.Atom != atom || i == 0 {
			atom, total = r.Atom, 0
		}
		total += uint64(r.Tokens)
		if r.Role == mneme.System || r.Role == mneme.Assistant && r.Kind != mneme.Call {
			continue
		}
		if half > 0 && total+markerRoom > half || s.always && isResult(r) && uint64(r.Tokens) > s.longest {
			return false
		}
	}
	return true
}
