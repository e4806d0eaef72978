package transcript

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// Check follows the messages of one session through a store: all bodies, then all headers. It holds them against one
// another; what they add up to is for the session's head to confirm.
type Check struct {
	Project, Incarnation ident.Incarnation // of the session
	Session              string

	Last   uint64    // the message whose body came last
	Turn   uint32    // the turn whose headers came last
	Placed uint64    // messages in headers so far
	Tokens [2]uint64 // of those
	// Lost says that a header record is damaged or missing: how many messages it had is not known.
	Lost bool
	// Calls are the numbers of calls of messages that make some. It is nil where nobody asks, or a header was lost.
	Calls map[uint64]uint16

	bodies []bodySeen // that could be read, ascending
	next   int        // of bodies, to be held against the headers that come
}

// bodySeen is a message's number and the fingerprint of the header in its body.
type bodySeen struct{ seq, print uint64 }

// At is a record of the session.
func (c *Check) At(s *verify.Space, kind records.Kind, key []byte) verify.Subject {
	return s.At(kind, key).Of(c.Project, c.Session)
}

// Body holds a message's body against its place.
func (c *Check) Body(s *verify.Space, it store.Item) {
	_, seq, _ := records.Body.Split(it.Key)
	if next := c.Last + 1; seq != next {
		c.At(s, records.Body, records.Body.Key(c.Incarnation, next)).Missing("messages %d to %d are not there", next, seq-1)
	}
	c.Last = seq
	if it.Damaged {
		return // told already
	}
	h, m, err := ParseBody(it.Value)
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

func headerPrint(s *verify.Space, h *Header) uint64 {
	return verify.Fingerprint(s, string(appendHeaders(nil, []Header{*h})))
}

// Headers holds the headers of a turn against those before them and against the bodies.
func (c *Check) Headers(s *verify.Space, it store.Item) {
	turn := binary.BigEndian.Uint32(it.Key[len(it.Key)-4:])
	if turn == 0 {
		s.Malformed("turns are numbered from 1")
		return
	}
	if next := c.Turn + 1; turn != next {
		gap := c.At(s, records.Headers, records.Headers.Key(c.Incarnation, next))
		gap.Missing("the headers of turns %d to %d are not there", next, turn-1)
		c.Lost = true
	}
	c.Turn = turn
	hs, _, err := parseTurn(it.Value)
	if err != nil {
		if c.Lost = true; !it.Damaged {
			s.Malformed("the headers of turn %d cannot be read", turn)
		}
		return
	}
	for i := range hs {
		c.place(s, &hs[i])
	}
}

// place holds a header of the turn at hand against the messages before it and against its body.
func (c *Check) place(s *verify.Space, h *Header) {
	if c.Lost { // how many messages came before is not known, so count from this one
		c.Placed, c.Lost, c.Calls = h.Seq-1, false, nil
	}
	c.Placed++
	for i, n := range h.Tokens {
		c.Tokens[i] += uint64(n)
	}
	if h.Calls > 0 && c.Calls != nil {
		c.Calls[h.Seq] = h.Calls
	}
	switch {
	case h.Seq != c.Placed || h.Turn != c.Turn:
		s.Mismatch("turn %d has message %d of turn %d where %d should be", c.Turn, h.Seq, h.Turn, c.Placed)
		c.Placed = h.Seq
	case h.Call > h.Seq:
		s.Mismatch("message %d answers the later message %d", h.Seq, h.Call)
	case !c.fits(s, h):
		s.Mismatch("message %d has one header with its turn and another with its body", h.Seq)
	}
}

// fits tells whether a header is the one in the message's body, as far as that could be read.
func (c *Check) fits(s *verify.Space, h *Header) bool {
	for c.next < len(c.bodies) && c.bodies[c.next].seq < h.Seq {
		c.next++
	}
	return c.next == len(c.bodies) || c.bodies[c.next].seq != h.Seq || c.bodies[c.next].print == headerPrint(s, h)
}
