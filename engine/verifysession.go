package engine

import (
	"hash/maphash"
	"maps"
	"slices"
)

// sessionChecks is what is known of a tenant's sessions. Heads come before jobs, those before messages, those before
// projects, open calls and decisions.
type sessionChecks struct {
	heads         map[incarnation]*headSeen
	byName        map[string]*headSeen // by openCallsKey
	lostHeads     map[string]bool      // damaged ones, by openCallsKey
	lostProjects  int
	sweptSessions map[incarnation]bool // a job is to sweep them
	sweptProjects map[incarnation]bool
	sweptTenants  map[string]bool
	sweptHeadless bool                 // a job is to look for messages of no session
	staged        map[incarnation]bool // under import

	seed maphash.Seed
	now  *messagesSeen // the session whose messages are coming
}

func (c *sessionChecks) init() {
	c.heads, c.byName, c.lostHeads = map[incarnation]*headSeen{}, map[string]*headSeen{}, map[string]bool{}
	c.sweptSessions, c.staged = map[incarnation]bool{}, map[incarnation]bool{}
	c.sweptProjects, c.sweptTenants = map[incarnation]bool{}, map[string]bool{}
	c.seed = maphash.MakeSeed()
}

// headSeen is what a session's head promises.
type headSeen struct {
	head
	pinc    incarnation
	session string
	calls   map[uint64]uint16 // the number of calls of messages that make some, where any may be open
	came    bool              // its messages did
	opened  bool              // its open calls did
}

func (s *space) head(key, value []byte) {
	h := &headSeen{pinc: incarnation(key[2:]), session: idIn(key, 2+8)}
	if !s.decode(key, value, &h.head) {
		s.lastFound = len(s.findings) - 1
		s.damagedHead(key)
		return
	}
	if other, ok := s.heads[h.Incarnation]; ok {
		s.bad(key, foundMismatch, "sessions %q and %q share one set of messages", h.session, other.session).of(h.pinc, h.session)
	}
	if h.Kind != kindChat && h.Kind != kindBackground || uint64(h.Turns) > h.Messages {
		s.bad(key, foundMalformed, "it tells of %d turns, %d messages and the kind %q", h.Turns, h.Messages, h.Kind).
			of(h.pinc, h.session)
	}
	if h.OpenCalls > 0 {
		h.calls = map[uint64]uint16{}
	}
	s.heads[h.Incarnation] = h
	s.byName[string(openCallsKey(h.pinc, h.session))] = h
}

func (s *space) damagedHead(key []byte) {
	pinc, session := incarnation(key[2:]), idIn(key, 2+8)
	s.lostHeads[string(openCallsKey(pinc, session))] = true
	s.damage().of(pinc, session)
}

func (s *space) openCalls(key, value []byte) {
	var rec openCalls
	h := s.openCallsHead(key)
	if !s.decode(key, value, &rec) || h == nil {
		return
	}
	if rec.Incarnation != h.Incarnation || len(rec.Calls) != h.OpenCalls {
		s.bad(key, foundMismatch, "it lists %d open calls of %s, the session has %d and is %s", len(rec.Calls), rec.Incarnation,
			h.OpenCalls, h.Incarnation).of(h.pinc, h.session)
		return
	}
	for _, c := range rec.Calls {
		if n, ok := h.calls[c.Seq]; h.calls != nil && (!ok || c.Index >= n) {
			s.bad(key, foundMismatch, "call %q is to be open, but message %d makes no call %d", c.ID, c.Seq, c.Index).
				of(h.pinc, h.session)
		}
	}
}

// openCallsHead finds the session whose open calls these are.
func (s *space) openCallsHead(key []byte) *headSeen {
	s.endMessages()
	h := s.byName[string(key)]
	if h != nil {
		h.opened = true
	} else if !s.lostHeads[string(key)] {
		s.bad(key, foundOrphan, "open calls of a session that does not exist").of(incarnation(key[2:]), idIn(key, 2+8))
	}
	return h
}

func (s *space) damagedOpenCalls(key []byte) {
	s.damage().of(incarnation(key[2:]), idIn(key, 2+8))
	s.openCallsHead(key)
}

func (s *space) finishSessions() {
	s.endMessages()
	for _, sinc := range slices.SortedFunc(maps.Keys(s.heads), func(a, b incarnation) int { return slices.Compare(a[:], b[:]) }) {
		h := s.heads[sinc]
		key := headKey(h.pinc, h.session)
		if !s.belongs(h.pinc) && s.lostProjects == 0 {
			s.wrong("session", key, foundOrphan, "the session's project does not exist").of(h.pinc, h.session)
		}
		if !h.came && h.Messages > 0 {
			s.wrong("body", key, foundMissing, "of the session's %d messages none is there", h.Messages).of(h.pinc, h.session)
		}
		if h.OpenCalls > 0 && !h.opened {
			s.wrong("open_calls", openCallsKey(h.pinc, h.session), foundMissing, "the session's %d open calls are not there",
				h.OpenCalls).of(h.pinc, h.session)
		}
		h.calls = nil
	}
	for sinc := range s.sweptSessions {
		if h, ok := s.heads[sinc]; ok && !h.came {
			s.wrong("job_session", sweepKey(sweepSession, sinc[:]), foundMismatch, "the session lives and is to be swept").
				of(h.pinc, h.session)
		}
	}
	s.byName = nil
}
