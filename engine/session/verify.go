package session

import (
	"bytes"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// Checks verifies a tenant's sessions. Records arrive in this order: heads, jobs, messages, projects, open calls,
// decisions.
type Checks struct {
	Heads     map[ident.Incarnation]*headSeen
	byName    map[string]*headSeen       // by the keys of their open calls
	lostHeads map[string]bool            // damaged heads, by the keys of their open calls
	swept     map[ident.Incarnation]bool // sessions that a job will sweep
	headless  bool                       // a job will look for messages that belong to no session
	now       *messagesSeen              // the session whose messages are being read
}

// NewChecks returns the checks for one tenant.
func NewChecks() *Checks {
	return &Checks{Heads: map[ident.Incarnation]*headSeen{}, byName: map[string]*headSeen{},
		lostHeads: map[string]bool{}, swept: map[ident.Incarnation]bool{}}
}

// Checks lists the kinds of records that belong to sessions.
func (c *Checks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.Session, Record: c.head},
		{Kind: records.SessionJob, Record: c.job},
		{Kind: records.HeadlessJob, Record: func(*verify.Space, store.Item) { c.headless = true }},
		{Kind: records.Body, Record: c.body},
		{Kind: records.Change, Record: c.change},
		{Kind: records.Headers, Record: c.headers},
		{Kind: records.Summary, Record: c.summary},
		{Kind: records.Blob, Record: c.blob},
		{Kind: records.OpenCalls, Record: c.openCalls},
	}
}

// headSeen is a session's head and what has been found of the session.
type headSeen struct {
	Head
	Pinc    ident.Incarnation
	Session string
	calls   map[uint64]uint16 // the number of calls of each message that makes some, if any may be open
	came    bool              // its messages were found
	opened  bool              // its open calls were found
}

// At returns the subject of a finding about a record of the session.
func (h *headSeen) At(s *verify.Space, kind records.Kind, key []byte) verify.Subject {
	return s.At(kind, key).Of(h.Pinc, h.Session)
}

// Of returns the current record as one of this session.
func (h *headSeen) Of(s *verify.Space) verify.Subject { return s.Of(h.Pinc, h.Session) }

func (c *Checks) head(s *verify.Space, it store.Item) {
	h := new(headSeen)
	h.Pinc, h.Session, _ = records.Session.Split(it.Key)
	s.About(h.Pinc, h.Session)
	name := string(records.OpenCalls.Key(h.Pinc, h.Session))
	if !s.Decode(it, &h.Head) {
		c.lostHeads[name] = true
		return
	}
	if other, ok := c.Heads[h.Incarnation]; ok {
		s.Mismatch("sessions %q and %q share one set of messages", h.Session, other.Session)
	}
	if x := h.Extent(); h.Kind != KindChat && h.Kind != KindBackground || !h.Superseded.Sound(h.Turns, h.Messages) ||
		!h.Absent.Sound(h.Turns, h.Messages) || uint64(x.LivingTurns()) > x.LivingMessages() {
		s.Malformed("it says %d turns, %d messages, kind %q, superseded turns %v and absent turns %v", h.Turns,
			h.Messages, h.Kind, h.Superseded, h.Absent)
	}
	if err := ident.CheckStoredNamespace("namespace", h.Namespace); err != nil {
		s.Malformed("its namespace cannot be one: %v", err)
	}
	for _, r := range h.Removed {
		if h.Changes == 0 || !h.Superseded.Message(r.Messages[0]) || !h.Superseded.Message(r.Messages[1]) {
			s.Mismatch("messages %d to %d are removed, and the session says that they live", r.Messages[0], r.Messages[1])
		}
	}
	if h.OpenCalls > 0 {
		h.calls = map[uint64]uint16{}
	}
	c.Heads[h.Incarnation], c.byName[name], s.InUse = h, h, true
}

// Missing reports whether a session does not exist and nothing explains why.
func (c *Checks) Missing(session ident.Incarnation) bool {
	return c.Heads[session] == nil && !c.Goes(session)
}

// Goes reports whether a session will be swept, or may be one whose head is damaged.
func (c *Checks) Goes(session ident.Incarnation) bool {
	return c.swept[session] || len(c.lostHeads) > 0
}

func (c *Checks) job(s *verify.Space, it store.Item) {
	s.Sized(it, len(ident.Incarnation{}), "an incarnation")
	c.swept[ident.Incarnation(it.Key[3:])] = true
}

// messagesSeen verifies the records of one session's messages: all bodies, then changes, all headers, and summaries.
type messagesSeen struct {
	transcript.Check
	head       *headSeen // nil if there is none
	first      []byte    // key of the first record
	count      int       // of records
	summarised bool      // the summary that the head names was found
	changes    uint32    // the change that was read last
}

// messages returns the session that a record belongs to, or nil if it belongs to none.
func (c *Checks) messages(s *verify.Space, key []byte) *messagesSeen {
	sinc := ident.Incarnation(key[2:])
	if c.now == nil || c.now.Incarnation != sinc {
		c.endMessages(s)
		c.now = &messagesSeen{head: c.Heads[sinc], first: slices.Clone(key)}
		c.now.Incarnation = sinc
		if h := c.now.head; h != nil {
			c.now.Project, c.now.Session, c.now.Calls = h.Pinc, h.Session, h.calls
			c.now.Superseded, c.now.Absent, c.now.Changed = h.Superseded, h.Absent, h.Changes > 0
		}
	}
	m := c.now
	m.count++
	if m.head == nil {
		return nil
	}
	s.About(m.Project, m.Session)
	return m
}

func (c *Checks) body(s *verify.Space, it store.Item) {
	if m := c.messages(s, it.Key); m != nil {
		m.Body(s, it)
	}
}

// change checks a change of messages. They are numbered from 1, without gaps.
func (c *Checks) change(s *verify.Space, it store.Item) {
	m := c.messages(s, it.Key)
	if m == nil {
		return
	}
	_, n, _ := records.Change.Split(it.Key)
	if m.changes = max(m.changes, m.head.Erased) + 1; n != m.changes {
		s.Mismatch("change %d comes where %d should", n, m.changes)
		m.changes = n
	}
	m.Change(s, it)
}

func (c *Checks) headers(s *verify.Space, it store.Item) {
	if m := c.messages(s, it.Key); m != nil {
		m.Headers(s, it)
	}
}

func (c *Checks) blob(s *verify.Space, it store.Item) {
	if m := c.messages(s, it.Key); m != nil {
		m.Blob(s, it)
	}
}

// summary checks one version of a session's running summary: the one that its head names, or an older one.
func (c *Checks) summary(s *verify.Space, it store.Item) {
	m := c.messages(s, it.Key)
	if m == nil {
		return
	}
	_, version, _ := records.Summary.Split(it.Key)
	now := m.head.Covered()
	m.summarised = m.summarised || version == now.Version
	if version < now.Version || now.Covers == 0 { // kept for a while because decisions may use it
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
		s.Mismatch("the summary covers %d messages up to %d, the session says %d up to %d", rec.Count, rec.Covers,
			now.Count, now.Covers)
	case version == now.Version && now.Covers > 0 && !Within(now.Covers, m.head.Extent()):
		s.Mismatch("the summary covers messages up to %d, which is superseded", now.Covers)
	case rec.Covers > m.head.Messages || rec.Count > rec.Covers:
		s.Mismatch("the summary covers %d messages up to %d, the session has %d", rec.Count, rec.Covers,
			m.head.Messages)
	}
}

// endMessages compares what was found of a session's messages with its head.
func (c *Checks) endMessages(s *verify.Space) {
	m := c.now
	c.now = nil
	if m == nil {
		return
	}
	h := m.head
	if h == nil {
		c.stray(s, m)
		return
	}
	h.came = true
	key := records.Session.Key(h.Pinc, h.Session)
	if c.swept[m.Incarnation] {
		h.At(s, records.Session, key).Mismatch("the session lives and its messages are to be swept")
	}
	if s.Staged[m.Incarnation] {
		h.At(s, records.Session, key).Mismatch("the session lives and is still being imported")
	}
	m.EndBlobs(s)
	m.sums(s, key)
}

// sums compares a head's counts with what was counted.
func (m *messagesSeen) sums(s *verify.Space, key []byte) {
	h := m.head
	if sum := h.Covered(); sum.Covers > 0 && !m.summarised {
		h.At(s, records.Summary, key).Missing("version %d of the session's summary is not there", sum.Version)
	}
	if changes := max(m.changes, h.Erased); changes != h.Edits {
		h.At(s, records.Change, key).Missing("the session's messages were changed %d times, the records of it end with %d", h.Edits, changes)
	}
	turns, bodies, headers := m.End()
	if bodies != h.Messages {
		h.At(s, records.Body, key).Missing("the session has %d messages, its bodies end with %d", h.Messages, bodies)
	}
	if turns != h.Turns {
		h.At(s, records.Headers, key).Missing("the session has %d turns, its headers end with %d", h.Turns, turns)
	}
	h.calls = m.Calls
	// If anything was found about the session before, its tokens cannot be right.
	told := func(f *verify.Finding) bool { return f.Pinc == h.Pinc && f.Session == h.Session }
	switch {
	case m.Lost || turns != h.Turns:
		h.calls = nil
	case headers != h.Messages:
		h.At(s, records.Session, key).Mismatch("the session has %d messages, its turns have %d", h.Messages, headers)
	case m.Tokens != h.Tokens && !slices.ContainsFunc(s.Findings, told):
		h.At(s, records.Session, key).Mismatch("the session counts %v tokens, its messages have %v", h.Tokens, m.Tokens)
	}
}

// stray reports messages that belong to no session and that no job will remove.
func (c *Checks) stray(s *verify.Space, m *messagesSeen) {
	if c.swept[m.Incarnation] || s.Staged[m.Incarnation] {
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

func (c *Checks) openCalls(s *verify.Space, it store.Item) {
	c.endMessages(s)
	pinc, id, _ := records.OpenCalls.Split(it.Key)
	s.About(pinc, id)
	h := c.byName[string(it.Key)]
	switch {
	case h != nil:
		h.opened = true
	case !c.lostHeads[string(it.Key)]:
		s.Orphan("open calls of a session that does not exist")
	}
	var rec transcript.OpenCalls
	if !s.Decode(it, &rec) || h == nil {
		return
	}
	if rec.Incarnation != h.Incarnation || len(rec.Calls) != h.OpenCalls {
		s.Mismatch("it lists %d open calls of %s, the session has %d and is %s", len(rec.Calls),
			rec.Incarnation, h.OpenCalls, h.Incarnation)
		return
	}
	for _, call := range rec.Calls {
		if h.Superseded.Message(call.Seq) {
			s.Mismatch("call %q is to be open, and message %d, which makes it, is superseded", call.ID, call.Seq)
		} else if n, ok := h.calls[call.Seq]; h.calls != nil && (!ok || call.Index >= n) {
			s.Mismatch("call %q is to be open, but message %d makes no call %d", call.ID, call.Seq, call.Index)
		}
	}
}

// Finish compares every head with what was found of its session.
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
			h.At(s, records.Body, key).Missing("none of the session's %d messages exists", h.Messages)
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
