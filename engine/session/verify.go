package session

import (
	"bytes"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// Checks is what is known of a tenant's sessions. Heads come before jobs, those before messages, those before
// projects, open calls and decisions.
type Checks struct {
	Heads     map[ident.Incarnation]*headSeen
	byName    map[string]*headSeen       // by the keys of their open calls
	lostHeads map[string]bool            // damaged ones, by the keys of their open calls
	swept     map[ident.Incarnation]bool // a job is to sweep them
	headless  bool                       // a job is to look for messages of no session
	now       *messagesSeen              // the session whose messages are coming
}

func NewChecks() *Checks {
	return &Checks{Heads: map[ident.Incarnation]*headSeen{}, byName: map[string]*headSeen{},
		lostHeads: map[string]bool{}, swept: map[ident.Incarnation]bool{}}
}

func (c *Checks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.Session, Record: c.head},
		{Kind: records.SessionJob, Record: c.job},
		{Kind: records.HeadlessJob, Record: func(*verify.Space, store.Item) { c.headless = true }},
		{Kind: records.Body, Record: c.body},
		{Kind: records.Headers, Record: c.headers},
		{Kind: records.Summary, Record: c.summary},
		{Kind: records.OpenCalls, Record: c.openCalls},
	}
}

// headSeen is what a session's head promises.
type headSeen struct {
	Head
	Pinc    ident.Incarnation
	Session string
	calls   map[uint64]uint16 // the number of calls of messages that make some, where any may be open
	came    bool              // its messages did
	opened  bool              // its open calls did
}

// At is a record of the session.
func (h *headSeen) At(s *verify.Space, kind records.Kind, key []byte) verify.Subject {
	return s.At(kind, key).Of(h.Pinc, h.Session)
}

// Of is the record at hand, as one of this session.
func (h *headSeen) Of(s *verify.Space) verify.Subject { return s.Of(h.Pinc, h.Session) }

func (c *Checks) head(s *verify.Space, it store.Item) {
	h := &headSeen{Pinc: ident.Incarnation(it.Key[2:]), Session: verify.IdIn(it.Key, 2+8)}
	s.About(h.Pinc, h.Session)
	name := string(records.OpenCalls.Key(h.Pinc, h.Session))
	if !s.Decode(it, &h.Head) {
		c.lostHeads[name] = true
		return
	}
	if other, ok := c.Heads[h.Incarnation]; ok {
		s.Mismatch("sessions %q and %q share one set of messages", h.Session, other.Session)
	}
	if h.Kind != KindChat && h.Kind != KindBackground || uint64(h.Turns) > h.Messages {
		s.Malformed("it tells of %d turns, %d messages and the kind %q", h.Turns, h.Messages, h.Kind)
	}
	if h.OpenCalls > 0 {
		h.calls = map[uint64]uint16{}
	}
	c.Heads[h.Incarnation], c.byName[name], s.InUse = h, h, true
}

// Missing tells whether a session is not there and nothing says why.
func (c *Checks) Missing(session ident.Incarnation) bool {
	return c.Heads[session] == nil && !c.Goes(session)
}

// Goes tells whether a session is to be swept, or may be one whose head is damaged.
func (c *Checks) Goes(session ident.Incarnation) bool {
	return c.swept[session] || len(c.lostHeads) > 0
}

func (c *Checks) job(s *verify.Space, it store.Item) {
	s.Sized(it, len(ident.Incarnation{}), "an incarnation")
	c.swept[ident.Incarnation(it.Key[3:])] = true
}

func (c *Checks) openCalls(s *verify.Space, it store.Item) {
	c.endMessages(s)
	s.About(ident.Incarnation(it.Key[2:]), verify.IdIn(it.Key, 2+8))
	h := c.byName[string(it.Key)]
	switch {
	case h != nil:
		h.opened = true
	case !c.lostHeads[string(it.Key)]:
		s.Orphan("open calls of a session that does not exist")
	}
	var rec OpenCalls
	if !s.Decode(it, &rec) || h == nil {
		return
	}
	if rec.Incarnation != h.Incarnation || len(rec.Calls) != h.OpenCalls {
		s.Mismatch("it lists %d open calls of %s, the session has %d and is %s", len(rec.Calls),
			rec.Incarnation, h.OpenCalls, h.Incarnation)
		return
	}
	for _, call := range rec.Calls {
		if n, ok := h.calls[call.Seq]; h.calls != nil && (!ok || call.Index >= n) {
			s.Mismatch("call %q is to be open, but message %d makes no call %d", call.ID, call.Seq, call.Index)
		}
	}
}

func (c *Checks) Finish(s *verify.Space) {
	c.endMessages(s)
	inOrder := func(a, b ident.Incarnation) int { return bytes.Compare(a[:], b[:]) }
	for _, sinc := range slices.SortedFunc(maps.Keys(c.Heads), inOrder) {
		h := c.Heads[sinc]
		key := records.Session.Key(h.Pinc, h.Session)
		if !s.Belongs(h.Pinc) {
			h.At(s, records.Session, key).Orphan("the session's project does not exist")
		}
		if !h.came && h.Messages > 0 {
			h.At(s, records.Body, key).Missing("of the session's %d messages none is there", h.Messages)
		}
		if h.OpenCalls > 0 && !h.opened {
			open := h.At(s, records.OpenCalls, records.OpenCalls.Key(h.Pinc, h.Session))
			open.Missing("the session's %d open calls are not there", h.OpenCalls)
		}
		if c.swept[sinc] && !h.came {
			h.At(s, records.SessionJob, records.SessionJob.Key(sinc)).Mismatch("the session lives and is to be swept")
		}
	}
}
