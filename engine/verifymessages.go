package engine

import (
	"hash/maphash"
	"slices"
)

// messagesSeen follows one session's messages: all bodies, then all headers.
type messagesSeen struct {
	sinc   incarnation
	head   *headSeen  // nil: there is none
	first  []byte     // key of the first record
	count  int        // of records
	seq    uint64     // of the body at hand
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

// messages gives the session that a record belongs to, or nil where it is not worth a look: it is to be swept.
func (s *space) messages(key []byte) *messagesSeen {
	sinc := incarnation(key[2:])
	if s.now == nil || s.now.sinc != sinc {
		s.endMessages()
		s.now = &messagesSeen{sinc: sinc, head: s.heads[sinc], first: slices.Clone(key)}
	}
	if s.now.count++; s.now.head == nil {
		return nil
	}
	return s.now
}

// about notes a finding about the session whose messages are coming.
func (s *space) about(m *messagesSeen, key []byte, code, format string, args ...any) {
	s.bad(key, code, format, args...).of(m.head.pinc, m.head.session)
}

func (s *space) damagedBody(key []byte) {
	if m := s.nextBody(key); m != nil {
		s.damage().of(m.head.pinc, m.head.session)
	}
}

// nextBody holds a body record against the one before it.
func (s *space) nextBody(key []byte) *messagesSeen {
	m := s.messages(key)
	if m == nil {
		return nil
	}
	m.seq = bodySeq(key)
	if m.seq != m.last+1 {
		s.about(m, bodyKey(m.sinc, m.last+1), foundMissing, "messages %d to %d are not there", m.last+1, m.seq-1)
	}
	m.last = m.seq
	return m
}

// body holds a message's body against its place.
func (s *space) body(key, value []byte) {
	m := s.nextBody(key)
	if m == nil {
		return
	}
	h, msg, err := parseBody(value)
	switch {
	case err != nil:
		s.about(m, key, foundMalformed, "the body of message %d cannot be read", m.seq)
	case h.seq != m.seq:
		s.about(m, key, foundMismatch, "the body of message %d says that it is that of %d", m.seq, h.seq)
	case int(h.calls) != len(msg.Calls):
		s.about(m, key, foundMismatch, "message %d makes %d calls, its header says %d", m.seq, len(msg.Calls), h.calls)
	default:
		m.bodies = append(m.bodies, bodySeen{h.seq, s.fingerprint(h)})
	}
}

func (s *space) fingerprint(h *header) uint64 {
	return maphash.Bytes(s.seed, appendHeaders(nil, []header{*h}))
}

// fits tells whether a header is the one in the message's body, as far as that could be read.
func (s *space) fits(m *messagesSeen, h *header) bool {
	for m.next < len(m.bodies) && m.bodies[m.next].seq < h.seq {
		m.next++
	}
	return m.next == len(m.bodies) || m.bodies[m.next].seq != h.seq || m.bodies[m.next].sum == s.fingerprint(h)
}

func (s *space) headers(key, value []byte) {
	m := s.messages(key)
	if m == nil || !s.nextTurn(m, key) {
		return
	}
	hs, rest, err := parseHeaders(value)
	if err != nil || len(rest) > 0 || len(hs) == 0 {
		s.about(m, key, foundMalformed, "the headers of turn %d cannot be read", m.turn)
		m.lost = true
		return
	}
	for i := range hs {
		h := &hs[i]
		if m.lost { // what came before is not known: go on from here
			m.placed, m.lost = h.seq-1, false
			m.head.calls = nil
		}
		m.placed++
		m.tokens[0] += uint64(h.tokens[0])
		m.tokens[1] += uint64(h.tokens[1])
		if h.calls > 0 && m.head.calls != nil {
			m.head.calls[h.seq] = h.calls
		}
		switch {
		case h.seq != m.placed || h.turn != m.turn:
			s.about(m, key, foundMismatch, "turn %d has message %d of turn %d where %d should be", m.turn, h.seq, h.turn, m.placed)
			m.placed = h.seq
		case h.call > h.seq:
			s.about(m, key, foundMismatch, "message %d answers the later message %d", h.seq, h.call)
		case !s.fits(m, h):
			s.about(m, key, foundMismatch, "message %d has one header with its turn and another with its body", h.seq)
		}
	}
}

// nextTurn holds a header record against the one before it.
func (s *space) nextTurn(m *messagesSeen, key []byte) bool {
	turn := uint32(0)
	for _, b := range key[len(key)-4:] {
		turn = turn<<8 | uint32(b)
	}
	if turn == 0 {
		s.about(m, key, foundMalformed, "turns are numbered from 1")
		return false
	}
	if turn != m.turn+1 {
		s.about(m, headersKey(m.sinc, m.turn+1), foundMissing, "the headers of turns %d to %d are not there", m.turn+1, turn-1)
		m.lost = true
	}
	m.turn = turn
	return true
}

func (s *space) damagedHeaders(key []byte) {
	if m := s.messages(key); m != nil {
		s.damage().of(m.head.pinc, m.head.session)
		if s.nextTurn(m, key) {
			m.lost = true
		}
	}
}

// endMessages holds what came of a session against what its head promises.
func (s *space) endMessages() {
	m := s.now
	if s.now = nil; m == nil {
		return
	}
	h := m.head
	if h == nil {
		s.headless(m)
		return
	}
	h.came = true
	if s.sweptSessions[m.sinc] {
		s.wrong("session", headKey(h.pinc, h.session), foundMismatch, "the session lives and its messages are to be swept").
			of(h.pinc, h.session)
	}
	if s.staged[m.sinc] {
		s.wrong("session", headKey(h.pinc, h.session), foundMismatch, "the session lives and is still being imported").
			of(h.pinc, h.session)
	}
	s.sums(h, m)
}

// sums holds a head's counts against what was counted.
func (s *space) sums(h *headSeen, m *messagesSeen) {
	wrong := func(kind, code, format string, args ...any) {
		s.wrong(kind, headKey(h.pinc, h.session), code, format, args...).of(h.pinc, h.session)
	}
	if sum := h.covered(); sum.Covers > 0 && !m.summarised {
		wrong("summary", foundMissing, "version %d of the session's summary is not there", sum.Version)
	}
	if m.last != h.Messages {
		wrong("body", foundMissing, "the session has %d messages, its bodies end with %d", h.Messages, m.last)
	}
	if m.turn != h.Turns {
		wrong("headers", foundMissing, "the session has %d turns, its headers end with %d", h.Turns, m.turn)
	}
	if m.lost || m.turn != h.Turns {
		h.calls = nil
		return
	}
	if m.placed != h.Messages {
		wrong("session", foundMismatch, "the session has %d messages, its turns have %d", h.Messages, m.placed)
	} else if m.tokens != h.Tokens && !s.told(h) {
		wrong("session", foundMismatch, "the session counts %v tokens, its messages have %v", h.Tokens, m.tokens)
	}
}

// told tells whether there is a finding about the session already: its sums cannot be right then.
func (s *space) told(h *headSeen) bool {
	return slices.ContainsFunc(s.findings, func(f Finding) bool { return f.pinc == h.pinc && f.Session == h.session })
}

// headless judges messages of no session: they must be about to go.
func (s *space) headless(m *messagesSeen) {
	switch {
	case s.sweptSessions[m.sinc] || s.staged[m.sinc]:
	case s.sweptHeadless:
		s.wrong("body", m.first, foundOrphan, "%d records of messages belong to no session and are to be swept", m.count).
			harmless = true
	case len(s.lostHeads) > 0:
		s.wrong("body", m.first, foundOrphan, "%d records of messages belong to a session whose head is lost: one of those "+
			"that are damaged", m.count)
	default:
		s.wrong("body", m.first, foundOrphan, "%d records of messages belong to no session", m.count)
	}
}
