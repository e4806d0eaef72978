package transcript

import (
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// Check verifies the messages of one session: all bodies, then all headers. It compares them with one another; the
// caller compares the totals with the session's head.
type Check struct {
	Project, Incarnation ident.Incarnation // of the session
	Session              string

	// Superseded are the session's runs. Nothing is stored of those that are also in Absent.
	Superseded, Absent Runs
	// Changed says that turns in the middle were removed, so that later ones count tokens that are no longer there.
	Changed bool

	Last   uint64    // the message whose body was read last
	Turn   uint32    // the newest turn whose headers were read
	Placed uint64    // the message whose header was read last
	Tokens [2]uint64 // of the living messages
	// Lost means that a header record is damaged or missing.
	Lost bool
	// Calls is the number of calls of each message that makes some. It is nil if not needed, or if a header was lost.
	Calls map[uint64]uint16

	holes  map[[16]byte]hole // of the bodies, whose blobs have not been read yet
	gap    bool              // the previous header record is damaged
	bodies []bodySeen        // of the readable bodies, ascending
	next   int               // index in bodies of the next one to compare with a header
}

// bodySeen is a message's number and the fingerprint of the header in its body.
type bodySeen struct{ seq, print uint64 }

// At returns the subject of a finding about a record of the session.
func (c *Check) At(s *verify.Space, kind records.Kind, key []byte) verify.Subject {
	return s.At(kind, key).Of(c.Project, c.Session)
}

// Body checks that a message's body follows the previous one.
func (c *Check) Body(s *verify.Space, it store.Item) {
	_, seq, _ := records.Body.Split(it.Key)
	if next, _ := c.Absent.Stretch(c.Last + 1); seq > next {
		c.At(s, records.Body, records.Body.Key(c.Incarnation, next)).Missing("messages %d to %d are not there", next, seq-1)
	} else if seq < next {
		s.Mismatch("message %d is there, and the session says that it is stored nowhere", seq)
	}
	c.Last = seq
	if it.Damaged {
		return // reported already
	}
	c.keep(it.Value)
	h, m, err := ParseBody(Sketch(it.Value))
	switch {
	case err != nil:
		s.Malformed("the body of message %d cannot be read", seq)
	case h.Seq != seq:
		s.Mismatch("the body of message %d says that it is that of %d", seq, h.Seq)
	case int(h.Calls) != len(m.Calls):
		s.Mismatch("message %d makes %d calls, its header says %d", seq, len(m.Calls), h.Calls)
	default:
		c.bodies = append(c.bodies, bodySeen{h.Seq, headerPrint(s, h)})
	}
}

// Change checks that a change names messages of the session, and that the bodies it keeps are those of these messages.
func (c *Check) Change(s *verify.Space, it store.Item) {
	var change Change
	if !s.Decode(it, &change) {
		return
	}
	if len(change.Items) == 0 {
		s.Malformed("the change names no message")
	}
	for _, item := range change.Items {
		h, _, err := ParseBody(Sketch(item.Was))
		switch {
		case err != nil:
			s.Malformed("what message %d was before the change cannot be read", item.Seq)
		case item.Seq == 0 || item.Seq > c.Last:
			s.Mismatch("the change names message %d, the session has %d", item.Seq, c.Last)
		case h.Seq != item.Seq:
			s.Mismatch("what message %d was before the change says that it is message %d", item.Seq, h.Seq)
		}
		c.keep(item.Was)
	}
}

// keep notes the blobs that a body refers to.
func (c *Check) keep(body []byte) {
	holes, _, _ := holesOf(body)
	for _, h := range holes {
		if c.holes == nil {
			c.holes = map[[16]byte]hole{}
		}
		c.holes[h.id] = h
	}
}

// Blob checks that a blob is the one that a body has a hole for. Others wait for their turn, and expire.
func (c *Check) Blob(s *verify.Space, it store.Item) {
	_, id, _ := records.Blob.Split(it.Key)
	hole, ok := c.holes[id]
	delete(c.holes, id)
	switch {
	case !ok:
		s.Expires(it.Key)
	case !it.Damaged && (len(it.Value) != int(hole.size) || sumOf(it.Value) != hole.sum):
		s.Mismatch("the blob has %d bytes, a message says %d, or its digest differs", len(it.Value), hole.size)
	}
}

// EndBlobs reports the blobs that are not there.
func (c *Check) EndBlobs(s *verify.Space) {
	for _, id := range slices.SortedFunc(maps.Keys(c.holes), func(a, b [16]byte) int { return slices.Compare(a[:], b[:]) }) {
		c.At(s, records.Blob, records.Blob.Key(c.Incarnation, id)).Missing("a blob of a message is not there")
	}
}

func headerPrint(s *verify.Space, h *Header) uint64 {
	return verify.Fingerprint(s, string(appendHeaders(nil, h.withoutLiterals())))
}

// Headers compares the headers of a turn, or of a part added to a turn, with those before them and with the bodies.
func (c *Check) Headers(s *verify.Space, it store.Item) {
	_, first, _ := records.Headers.Split(it.Key)
	if first == 0 {
		s.Malformed("messages are numbered from 1")
		return
	}
	gap := c.gap // the previous record is damaged, so its number of messages is unknown
	c.gap = false
	if next, _ := c.Absent.Stretch(c.Placed + 1); first > next && !gap {
		missing := c.At(s, records.Headers, records.Headers.Key(c.Incarnation, next))
		missing.Missing("the headers of messages %d to %d are not there", next, first-1)
		gap = true
	}
	if gap {
		c.Lost, c.Calls, c.Placed = true, nil, first-1
	}
	hs, past, err := parseTurn(it.Value)
	if err != nil {
		c.Lost, c.gap, c.Placed = true, true, first
		if !it.Damaged {
			s.Malformed("the headers from message %d on cannot be read", first)
		}
		return
	}
	c.turn(s, hs[0].Turn, gap)
	if !c.Lost && !c.Changed && !c.Superseded.Message(first) && past.Tokens != c.Tokens {
		s.Mismatch("turn %d says that %v tokens came before it, there are %v", hs[0].Turn, past.Tokens, c.Tokens)
	}
	for i := range hs {
		c.place(s, &hs[i], first+uint64(i), hs[0].Turn)
	}
}

// turn checks that the turn of the current headers follows the previous one. After a gap it may be any turn.
func (c *Check) turn(s *verify.Space, turn uint32, gap bool) {
	switch next := c.nextTurn(); {
	case turn > c.Turn && turn != next && !gap:
		s.Mismatch("turn %d comes where %d should", turn, next)
	case turn < c.Turn && c.Superseded.LastTurn(c.Turn) > turn && c.Superseded.LastTurn(turn) == turn:
		s.Mismatch("turn %d continues after turn %d, which is living", turn, c.Superseded.LastTurn(c.Turn))
	}
	c.Turn = max(c.Turn, turn)
}

// nextTurn returns the number that follows the turns read so far, skipping turns of which nothing is stored.
func (c *Check) nextTurn() uint32 {
	next := c.Turn + 1
	for _, r := range c.Absent {
		if r.Turns[0] <= next && next <= r.Turns[1] {
			next = r.Turns[1] + 1
		}
	}
	return next
}

// End returns where the session ends according to its records: its last turn, and its last message by bodies and by
// headers. Messages that are known not to be stored count.
func (c *Check) End() (turns uint32, bodies, headers uint64) {
	bodies, _ = c.Absent.Stretch(c.Last + 1)
	headers, _ = c.Absent.Stretch(c.Placed + 1)
	return c.nextTurn() - 1, bodies - 1, headers - 1
}

// place checks a header of the current turn against its position and its body.
func (c *Check) place(s *verify.Space, h *Header, seq uint64, turn uint32) {
	c.Placed = seq
	superseded := c.Superseded.Message(seq)
	for i, n := range h.Tokens {
		if !superseded {
			c.Tokens[i] += uint64(n)
		}
	}
	if h.Calls > 0 && c.Calls != nil {
		c.Calls[h.Seq] = h.Calls
	}
	switch {
	case h.Seq != seq || h.Turn != turn:
		s.Mismatch("turn %d has message %d of turn %d where %d should be", turn, h.Seq, h.Turn, seq)
	case (superseded && !c.Superseded.Part(seq)) != (c.Superseded.LastTurn(turn) != turn):
		s.Mismatch("message %d is superseded: %t; its turn %d is: %t", seq, superseded, turn, !superseded)
	case h.Call > h.Seq:
		s.Mismatch("message %d answers the later message %d", h.Seq, h.Call)
	case !c.fits(s, h):
		s.Mismatch("message %d has one header with its turn and another with its body", h.Seq)
	}
}

// fits reports whether a header equals the one in the message's body, if the body was readable.
func (c *Check) fits(s *verify.Space, h *Header) bool {
	for c.next < len(c.bodies) && c.bodies[c.next].seq < h.Seq {
		c.next++
	}
	return c.next == len(c.bodies) || c.bodies[c.next].seq != h.Seq || c.bodies[c.next].print == headerPrint(s, h)
}
