package engine

import (
	"bytes"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sessionChecks is what is known of a tenant's sessions. Heads come before jobs, those before messages, those before
// projects, open calls and decisions.
type sessionChecks struct {
	heads     map[incarnation]*headSeen
	byName    map[string]*headSeen // by the keys of their open calls
	lostHeads map[string]bool      // damaged ones, by the keys of their open calls
	swept     map[incarnation]bool // a job is to sweep them
	headless  bool                 // a job is to look for messages of no session
	now       *messagesSeen        // the session whose messages are coming
}

func newSessionChecks() *sessionChecks {
	return &sessionChecks{heads: map[incarnation]*headSeen{}, byName: map[string]*headSeen{},
		lostHeads: map[string]bool{}, swept: map[incarnation]bool{}}
}

func (c *sessionChecks) checks() []recordCheck {
	return []recordCheck{
		{kind: "session", record: c.head},
		{kind: "job_session", record: c.job},
		{kind: "job_headless", record: func(*space, store.Item) { c.headless = true }},
		{kind: "body", record: c.body},
		{kind: "headers", record: c.headers},
		{kind: "summary", record: c.summary},
		{kind: "open_calls", record: c.openCalls},
	}
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

// at is a record of the session.
func (h *headSeen) at(s *space, kind string, key []byte) subject {
	return s.at(kind, key).of(h.pinc, h.session)
}

// of is the record at hand, as one of this session.
func (h *headSeen) of(s *space) subject { return s.of(h.pinc, h.session) }

func (c *sessionChecks) head(s *space, it store.Item) {
	h := &headSeen{pinc: incarnation(it.Key[2:]), session: idIn(it.Key, 2+8)}
	s.about(h.pinc, h.session)
	name := string(kindOpenCalls.Key(h.pinc, h.session))
	if !s.decode(it, &h.head) {
		c.lostHeads[name] = true
		return
	}
	if other, ok := c.heads[h.Incarnation]; ok {
		s.mismatch("sessions %q and %q share one set of messages", h.session, other.session)
	}
	if h.Kind != kindChat && h.Kind != kindBackground || uint64(h.Turns) > h.Messages {
		s.malformed("it tells of %d turns, %d messages and the kind %q", h.Turns, h.Messages, h.Kind)
	}
	if h.OpenCalls > 0 {
		h.calls = map[uint64]uint16{}
	}
	c.heads[h.Incarnation], c.byName[name], s.inUse = h, h, true
}

// missing tells whether a session is not there and nothing says why.
func (c *sessionChecks) missing(session incarnation) bool {
	return c.heads[session] == nil && !c.goes(session)
}

// goes tells whether a session is to be swept, or may be one whose head is damaged.
func (c *sessionChecks) goes(session incarnation) bool {
	return c.swept[session] || len(c.lostHeads) > 0
}

func (c *sessionChecks) job(s *space, it store.Item) {
	s.sized(it, len(incarnation{}), "an incarnation")
	c.swept[incarnation(it.Key[3:])] = true
}

func (c *sessionChecks) openCalls(s *space, it store.Item) {
	c.endMessages(s)
	s.about(incarnation(it.Key[2:]), idIn(it.Key, 2+8))
	h := c.byName[string(it.Key)]
	switch {
	case h != nil:
		h.opened = true
	case !c.lostHeads[string(it.Key)]:
		s.orphan("open calls of a session that does not exist")
	}
	var rec openCalls
	if !s.decode(it, &rec) || h == nil {
		return
	}
	if rec.Incarnation != h.Incarnation || len(rec.Calls) != h.OpenCalls {
		s.mismatch("it lists %d open calls of %s, the session has %d and is %s", len(rec.Calls),
			rec.Incarnation, h.OpenCalls, h.Incarnation)
		return
	}
	for _, call := range rec.Calls {
		if n, ok := h.calls[call.Seq]; h.calls != nil && (!ok || call.Index >= n) {
			s.mismatch("call %q is to be open, but message %d makes no call %d", call.ID, call.Seq, call.Index)
		}
	}
}

func (c *sessionChecks) finish(s *space) {
	c.endMessages(s)
	inOrder := func(a, b incarnation) int { return bytes.Compare(a[:], b[:]) }
	for _, sinc := range slices.SortedFunc(maps.Keys(c.heads), inOrder) {
		h := c.heads[sinc]
		key := kindSession.Key(h.pinc, h.session)
		if !s.belongs(h.pinc) {
			h.at(s, "session", key).orphan("the session's project does not exist")
		}
		if !h.came && h.Messages > 0 {
			h.at(s, "body", key).missing("of the session's %d messages none is there", h.Messages)
		}
		if h.OpenCalls > 0 && !h.opened {
			open := h.at(s, "open_calls", kindOpenCalls.Key(h.pinc, h.session))
			open.missing("the session's %d open calls are not there", h.OpenCalls)
		}
		if c.swept[sinc] && !h.came {
			h.at(s, "job_session", kindSessionJob.Key(sinc)).mismatch("the session lives and is to be swept")
		}
	}
}
