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
		w.cut = w.cutOf(w.first, w.end)
	}
	w.record = w.req.Record(w.at)
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

// cutOf works out the cut of an atom: no result longer than the longest allowed, and all together within their share.
// An atom that is larger than the window is of no use to anybody. The lengths are powers of two, as they are where the
// host cuts what must stay.
func (s *settings) cutOf(first, end int) cut {
	c := cut{low: unbounded, high: unbounded}
	if s.longest > 0 {
		c.high = s.longest
	}
	if s.share == 0 {
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

// fits tells whether no result is too long, as none is in most tables.
func (s *settings) fits() bool {
	atom, total, results := uint32(0), uint64(0), false // of the atom up to a record
	records := s.req.Records()
	for i := range records.Len() {
		r := records.At(i)
		if r.Atom != atom || i == 0 {
			if results && s.share > 0 && total > s.share {
				return false
			}
			atom, total, results = r.Atom, 0, false
		}
		total += uint64(r.Tokens)
		if isResult(r) {
			results = true
			if s.longest > 0 && uint64(r.Tokens) > s.longest {
				return false
			}
		}
	}
	return !results || s.share == 0 || total <= s.share
}
