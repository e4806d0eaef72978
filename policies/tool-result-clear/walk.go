package toolresultclear

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// walk goes over a table record by record and determines how long each result may be.
type walk struct {
	*settings
	record     *mneme.Record
	at         int // index of the record
	first, end int // the record's atom
	tokens     uint64
	cut        cut
	question   uint64 // tokens of the turn's newest question
	turn       uint32 // the turn of that question
}

// walk returns a walk before the first record.
func (s *settings) walk() walk { return walk{settings: s, at: -1} }

// next advances to the next record. It returns false if there is none.
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

// cut is the lengths allowed for the results of one atom. Of the results longer than low, the first few are cut to low,
// the others to high.
type cut struct {
	low, high uint64
	lowered   int
}

// unbounded is more tokens than any message has.
const unbounded = 1 << 40

// next returns the length allowed for the next result, given its tokens.
func (c *cut) next(tokens uint64) uint64 {
	if tokens > c.low && c.lowered > 0 {
		c.lowered--
		return c.low
	}
	return min(tokens, c.high)
}

// least is the length below which no result is cut to make room for others of its call.
const least = 256

// markerRoom is the approximate cost of a message that says that something was left out.
const markerRoom = 24

// cutOf determines the cut of an atom, given the tokens of its turn's question. If the budget does not hold the atom
// together with the question, nobody could use it; then each result is at most longest, and all together are within
// their share. Lengths are powers of two, as when the host cuts mandatory messages.
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

// atom returns the tokens of the records from first to end, with results cut to the length that always applies.
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

// fits reports whether no result is too long, which is true of most tables. It does not look at turns: if half of the
// budget holds each question together with the marker, and half holds each atom, everything can be shown.
func (s *settings) fits() bool {
	half := s.budget / 2
	atom, total := uint32(0), uint64(0) // of the atom up to this record
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
