package session

import (
	"encoding/binary"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// messagesSeen follows one session's messages: all bodies, then all headers, then summaries.
type messagesSeen struct {
	sinc   ident.Incarnation
	head   *headSeen  // nil: there is none
	first  []byte     // key of the first record
	count  int        // of records
	last   uint64     // message that was seen
	bodies []bodySeen // that could be read, ascending
	next   int        // of bodies, to be held against the headers that come
	turn   uint32     // last that was seen
	placed uint64     // messages in headers so far
	lost   bool       // a header record is damaged: messages after it are not counted
	tokens [2]uint64

	summarised bool // the summary that the head names came
}

// bodySeen is a message's number and the fingerprint of the header in its body.
type bodySeen struct{ seq, sum uint64 }

// messages gives the session that a record belongs to, or nil where the record is not worth a look: it is to be swept.
func (c *Checks) messages(s *verify.Space, key []byte) *messagesSeen {
	sinc := ident.Incarnation(key[2:])
	if c.now == nil || c.now.sinc != sinc {
		c.endMessages(s)
		c.now = &messagesSeen{sinc: sinc, head: c.Heads[sinc], first: slices.Clone(key)}
	}
	m := c.now
	if m.count++; m.head == nil {
		return nil
	}
	s.About(m.head.Pinc, m.head.Session)
	return m
}

// body holds a message's body against its place.
func (c *Checks) body(s *verify.Space, it store.Item) {
	m := c.messages(s, it.Key)
	if m == nil {
		return
	}
	seq := bodySeq(it.Key)
	if seq != m.last+1 {
		m.head.At(s, records.Body, records.Body.Key(m.sinc, m.last+1)).Missing("messages %d to %d are not there", m.last+1, seq-1)
	}
	m.last = seq
	if it.Damaged {
		return // told already
	}
	h, msg, err := ParseBody(it.Value)
	switch {
	case err != nil:
		s.Malformed("the body of message %d cannot be read", seq)
	case h.Seq != seq:
		s.Mismatch("the body of message %d says that it is that of %d", seq, h.Seq)
	case int(h.Calls) != len(msg.Calls):
		s.Mismatch("message %d makes %d calls, its header says %d", seq, len(msg.Calls), h.Calls)
	default:
		m.bodies = append(m.bodies, bodySeen{h.Seq, headerPrint(s, h)})
	}
}

func headerPrint(s *verify.Space, h *Header) uint64 {
	return verify.Fingerprint(s, string(appendHeaders(nil, []Header{*h})))
}

// fits tells whether a header is the one in the message's body, as far as that could be read.
func (m *messagesSeen) fits(s *verify.Space, h *Header) bool {
	for m.next < len(m.bodies) && m.bodies[m.next].seq < h.Seq {
		m.next++
	}
	return m.next == len(m.bodies) || m.bodies[m.next].seq != h.Seq || m.bodies[m.next].sum == headerPrint(s, h)
}

func (c *Checks) headers(s *verify.Space, it store.Item) {
	m, turn := c.messages(s, it.Key), binary.BigEndian.Uint32(it.Key[len(it.Key)-4:])
	switch {
	case m == nil:
		return
	case turn == 0:
		s.Malformed("turns are numbered from 1")
		return
	case turn != m.turn+1:
		gap := m.head.At(s, records.Headers, records.Headers.Key(m.sinc, m.turn+1))
		gap.Missing("the headers of turns %d to %d are not there", m.turn+1, turn-1)
		m.lost = true
	}
	m.turn = turn
	hs, rest, err := parseHeaders(it.Value)
	if err != nil || len(rest) > 0 || len(hs) == 0 {
		if m.lost = true; !it.Damaged {
			s.Malformed("the headers of turn %d cannot be read", turn)
		}
		return
	}
	for i := range hs {
		m.place(s, &hs[i])
	}
}

// place holds a header of the turn at hand against the messages before it and against its body.
func (m *messagesSeen) place(s *verify.Space, h *Header) {
	if m.lost { // what came before is not known: go on from here
		m.placed, m.lost = h.Seq-1, false
		m.head.calls = nil
	}
	m.placed++
	m.tokens[0] += uint64(h.Tokens[0])
	m.tokens[1] += uint64(h.Tokens[1])
	if h.Calls > 0 && m.head.calls != nil {
		m.head.calls[h.Seq] = h.Calls
	}
	switch {
	case h.Seq != m.placed || h.Turn != m.turn:
		s.Mismatch("turn %d has message %d of turn %d where %d should be", m.turn, h.Seq, h.Turn, m.placed)
		m.placed = h.Seq
	case h.Call > h.Seq:
		s.Mismatch("message %d answers the later message %d", h.Seq, h.Call)
	case !m.fits(s, h):
		s.Mismatch("message %d has one header with its turn and another with its body", h.Seq)
	}
}

// summary is one version of a session's running summary: the one that its head names, or one before it.
func (c *Checks) summary(s *verify.Space, it store.Item) {
	m := c.messages(s, it.Key)
	if m == nil {
		return
	}
	version, now := binary.BigEndian.Uint32(it.Key[len(it.Key)-4:]), m.head.Covered()
	m.summarised = m.summarised || version == now.Version
	if version < now.Version || now.Covers == 0 { // kept for a while, for the sake of decisions
		s.Expires(it.Key)
	}
	var rec SummaryRecord
	if !s.Decode(it, &rec) {
		return
	}
	switch {
	case version == 0 || version > now.Version:
		s.Mismatch("version %d of the summary; the session has had %d", version, now.Version)
	case version == now.Version && now.Covers > 0 && (rec.Covers != now.Covers || rec.Count != now.Count):
		s.Mismatch("the summary covers %d messages up to %d, the session says %d up to %d", rec.Count,
			rec.Covers, now.Count, now.Covers)
	case rec.Covers > m.head.Messages || rec.Count > rec.Covers:
		s.Mismatch("the summary covers %d messages up to %d, the session has %d", rec.Count, rec.Covers,
			m.head.Messages)
	}
}

// endMessages holds what came of a session against what its head promises.
func (c *Checks) endMessages(s *verify.Space) {
	m := c.now
	if c.now = nil; m == nil {
		return
	}
	h := m.head
	if h == nil {
		c.stray(s, m)
		return
	}
	h.came = true
	key := records.Session.Key(h.Pinc, h.Session)
	if c.swept[m.sinc] {
		h.At(s, records.Session, key).Mismatch("the session lives and its messages are to be swept")
	}
	if s.Staged[m.sinc] {
		h.At(s, records.Session, key).Mismatch("the session lives and is still being imported")
	}
	m.sums(s, key)
}

// sums holds a head's counts against what was counted.
func (m *messagesSeen) sums(s *verify.Space, key []byte) {
	h := m.head
	if sum := h.Covered(); sum.Covers > 0 && !m.summarised {
		h.At(s, records.Summary, key).Missing("version %d of the session's summary is not there", sum.Version)
	}
	if m.last != h.Messages {
		h.At(s, records.Body, key).Missing("the session has %d messages, its bodies end with %d", h.Messages, m.last)
	}
	if m.turn != h.Turns {
		h.At(s, records.Headers, key).Missing("the session has %d turns, its headers end with %d", h.Turns, m.turn)
	}
	// Where anything was found about the session already, its tokens cannot be right.
	told := func(f *verify.Finding) bool { return f.Pinc == h.Pinc && f.Session == h.Session }
	switch {
	case m.lost || m.turn != h.Turns:
		h.calls = nil
	case m.placed != h.Messages:
		h.At(s, records.Session, key).Mismatch("the session has %d messages, its turns have %d", h.Messages, m.placed)
	case m.tokens != h.Tokens && !slices.ContainsFunc(s.Findings, told):
		h.At(s, records.Session, key).Mismatch("the session counts %v tokens, its messages have %v", h.Tokens, m.tokens)
	}
}

// stray judges messages of no session: they must be about to go.
func (c *Checks) stray(s *verify.Space, m *messagesSeen) {
	if c.swept[m.sinc] || s.Staged[m.sinc] {
		return
	}
	whose := "no session"
	if c.headless {
		whose = "no session and are to be swept"
	} else if len(c.lostHeads) > 0 {
		whose = "a session whose head is lost: one of those that are damaged"
	}
	s.At(records.Body, m.first).Orphan("%d records of messages belong to %s", m.count, whose).Harmless = c.headless
}
