package board

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// checks verifies a tenant's boards. In key order, the records of boards come first. Then, board by board, come entries
// by time, entries, agents, postings, notifications and values. Jobs come last.
type checks struct {
	boards map[ident.Incarnation]*seen
	lost   bool              // a board's record cannot be read
	swept  map[string]bool   // prefixes that jobs will sweep
	strays map[string]*stray // records without a board or an agent, by the prefix that a sweep would name
	now    *seen             // the board whose records are being read; nil if there is none
}

// stray counts records that only a sweep may explain.
type stray struct {
	about verify.Subject // the first of them
	count int
}

// seen is a board's record and what was found of the board.
type seen struct {
	boardRecord
	ended   bool
	entries []entrySeen                      // ascending by number
	agents  map[ident.Incarnation]*agentSeen // by inbox
	notices map[ident.Incarnation]uint64     // fingerprints of the notifications that entries claim, minus those that were found
	leads   int
	values  int
	all     uint64 // number of entries according to postings
	chat    uint64
	// A record of this kind is damaged, so its content is unknown.
	lostEntries, lostPostings, lostAgents, lostNotices bool
}

// entrySeen is an entry in the index by time.
type entrySeen struct {
	seq   uint64
	ms    int64
	terms uint64 // fingerprints of its terms, minus those that were found
	came  bool
	lost  bool
}

// entryTerm is an entry and a term that it is indexed by.
type entryTerm struct {
	seq  uint64
	term string
}

// NewChecks returns the checks for one tenant's boards.
func NewChecks() verify.Checker {
	return &checks{boards: map[ident.Incarnation]*seen{}, swept: map[string]bool{}, strays: map[string]*stray{}}
}

func (c *checks) Checks() []verify.Check {
	// The key of a sweep is the prefix of jobs, a letter, and the prefix that it sweeps.
	sweep := func(_ *verify.Space, it store.Item) { c.swept[string(it.Key[len(records.JobPrefix)+1:])] = true }
	return []verify.Check{
		{Kind: records.Board, Record: c.board},
		{Kind: records.EntryTime, Record: c.time},
		{Kind: records.Entry, Record: c.entry},
		{Kind: records.BoardAgent, Record: c.agent},
		{Kind: records.Postings, Record: c.postings},
		{Kind: records.Notice, Record: c.notice},
		{Kind: records.BoardValue, Record: c.value},
		{Kind: records.BoardJob, Record: sweep},
		{Kind: records.InboxJob, Record: sweep},
		{Kind: records.BoardDueJob, Record: c.due},
	}
}

func (c *checks) board(s *verify.Space, it store.Item) {
	b := &seen{agents: map[ident.Incarnation]*agentSeen{}, notices: map[ident.Incarnation]uint64{}}
	id, _ := records.Board.Split(it.Key)
	if !s.Decode(it, &b.boardRecord) {
		c.lost = true
		return
	}
	if b.ID != id || b.Incarnation == (ident.Incarnation{}) || b.Chat > b.Entries || b.Entries > b.Last {
		s.Malformed("board %q calls itself %q, incarnation %s, with %d entries of %d, %d of them chat", id, b.ID,
			b.Incarnation, b.Entries, b.Last, b.Chat)
	}
	if other := c.boards[b.Incarnation]; other != nil {
		s.Mismatch("boards %q and %q have one incarnation", id, other.ID)
		return
	}
	c.boards[b.Incarnation], s.InUse = b, true
	switch {
	case b.Due != nil:
		job := records.BoardDueJob.Key(*b.Due, id)
		s.Expect(job, s.At(records.BoardDueJob, job), "the board %q is to be looked at %s, and no job does it", id,
			b.Due.Truncate(time.Millisecond).UTC().Format(time.RFC3339))
	case b.RetentionDays != nil:
		s.Mismatch("board %q keeps entries for %d days and is never looked at", id, *b.RetentionDays)
	}
}

// on returns the board of the current record. If there is none, it counts the record as a stray and returns nil.
func (c *checks) on(s *verify.Space, board ident.Incarnation, key []byte) *seen {
	if c.now == nil || c.now.Incarnation != board {
		c.finishBoard(s)
		if c.now = c.boards[board]; c.now == nil {
			c.stray(s, records.BoardRecords.Under(board), key)
		}
	}
	return c.now
}

// stray counts a record that only a sweep of the range may explain.
func (c *checks) stray(s *verify.Space, of store.Range, key []byte) {
	prefix := string(of.From)
	if c.strays[prefix] == nil {
		c.strays[prefix] = &stray{about: s.At(s.Kind, slices.Clone(key))}
	}
	c.strays[prefix].count++
}

func (b *seen) find(seq uint64) *entrySeen {
	bySeq := func(e entrySeen, seq uint64) int { return cmp.Compare(e.seq, seq) }
	if at, ok := slices.BinarySearchFunc(b.entries, seq, bySeq); ok {
		return &b.entries[at]
	}
	return nil
}

// time checks an entry of the index by time. It only needs the key, so a damaged value does not matter.
func (c *checks) time(s *verify.Space, it store.Item) {
	board, at, seq, _ := records.EntryTime.Split(it.Key)
	s.Sized(it, 1, "an entry by time")
	b := c.on(s, board, it.Key)
	if b == nil {
		return
	}
	if n := len(b.entries); n > 0 && b.entries[n-1].seq >= seq || seq == 0 || seq > b.Last || at.After(b.LastAt) {
		s.Mismatch("board %q: entry %d of %s is out of order, or later than the last, %d of %s", b.ID, seq, at, b.Last,
			b.LastAt)
		return
	}
	b.entries = append(b.entries, entrySeen{seq: seq, ms: at.UnixMilli()})
}

// entry compares an entry with the index by time, and notes the terms that it must be indexed by.
func (c *checks) entry(s *verify.Space, it store.Item) {
	board, seq, _ := records.Entry.Split(it.Key)
	b := c.on(s, board, it.Key)
	if b == nil {
		return
	}
	at := b.find(seq)
	if at == nil {
		s.Mismatch("board %q: entry %d is not among its entries by time", b.ID, seq)
		at = new(entrySeen)
	}
	at.came = true
	e := Parse(seq, it.Value)
	if e.Damaged {
		at.lost, b.lostEntries = true, true
		if !it.Damaged {
			s.Malformed("board %q: entry %d cannot be read", b.ID, seq)
		}
		return
	}
	if at.seq == seq && at.ms != e.Created {
		s.Mismatch("board %q: entry %d was made at %s, the index by time has it at %s", b.ID, seq,
			records.TimeOf(e.Created), records.TimeOf(at.ms))
	}
	for _, term := range e.Terms() {
		at.terms += verify.Fingerprint(s, entryTerm{seq, term})
	}
	for _, n := range e.Notified {
		b.notices[n.Inbox] += verify.Fingerprint(s, noticeSeen{n.Seq, seq, n.Kind})
	}
}

func (c *checks) postings(s *verify.Space, it store.Item) {
	board, term, number, _ := records.Postings.Split(it.Key)
	b := c.on(s, board, it.Key)
	if b == nil {
		return
	}
	block, err := DecodePostings(it)
	if err != nil || block.Count() == 0 {
		b.lostPostings = true
		if !it.Damaged {
			s.Malformed("board %q: what names the entries of %q does not decode, or is empty", b.ID, term)
		}
		return
	}
	switch term {
	case TermAll:
		b.all += uint64(block.Count())
	case TermChat:
		b.chat += uint64(block.Count())
	}
	for _, seq := range block.Numbers(number) {
		e := b.find(seq)
		if e == nil {
			s.Orphan("board %q: entry %d is to be found by %q and is not there", b.ID, seq, term)
			return
		}
		e.terms -= verify.Fingerprint(s, entryTerm{seq, term})
	}
}

// value counts a value by its key, damaged or not.
func (c *checks) value(s *verify.Space, it store.Item) {
	board, key, _ := records.BoardValue.Split(it.Key)
	b := c.on(s, board, it.Key)
	if b == nil {
		return
	}
	b.values++
	var v valueRecord
	if s.Decode(it, &v) && (v.Key != key || len(v.Value) == 0) {
		s.Malformed("board %q: value %q calls itself %q, with %d bytes", b.ID, key, v.Key, len(v.Value))
	}
}

// finishBoard compares what was found of a board with its record.
func (c *checks) finishBoard(s *verify.Space) {
	b := c.now
	c.now = nil
	if b == nil {
		return
	}
	b.ended = true
	for _, e := range b.entries {
		about := s.At(records.Entry, records.Entry.Key(b.Incarnation, e.seq))
		switch {
		case !e.came:
			about.Missing("board %q: entry %d is not there", b.ID, e.seq)
		case e.terms != 0 && !e.lost && !b.lostPostings:
			about.Mismatch("board %q: entry %d is not in the index under its own terms", b.ID, e.seq)
		}
	}
	about := s.At(records.Board, records.Board.Key(b.ID))
	if uint64(len(b.entries)) != b.Entries {
		about.Mismatch("board %q counts %d entries, there are %d", b.ID, b.Entries, len(b.entries))
	}
	if (b.all != b.Entries || b.chat != b.Chat) && !b.lostPostings {
		about.Mismatch("board %q counts %d entries, %d of them chat; the index has %d and %d", b.ID, b.Entries, b.Chat,
			b.all, b.chat)
	}
	if b.values != b.Values {
		about.Mismatch("board %q counts %d values, there are %d", b.ID, b.Values, b.values)
	}
	if b.leads > 1 {
		about.Mismatch("board %q has %d leads", b.ID, b.leads)
	}
	b.inboxes(s)
	b.entries, b.agents, b.notices = nil, nil, nil
}

// due checks the retention job of a board.
func (c *checks) due(s *verify.Space, it store.Item) {
	if !s.Came(it.Key) && !c.lost {
		_, id, _ := records.BoardDueJob.Split(it.Key)
		s.Orphan("the board %q is to be looked at, but not then", id).Harmless = true
	}
}

func (c *checks) Finish(s *verify.Space) {
	c.finishBoard(s)
	for board, b := range c.boards {
		if !b.ended {
			c.now = b
			c.finishBoard(s)
		}
		if c.swept[string(records.BoardRecords.Under(board).From)] {
			s.At(records.Board, records.Board.Key(b.ID)).Mismatch("board %q lives and is to be swept", b.ID)
		}
	}
	for prefix, found := range c.strays {
		whole := prefix[:len(records.BoardRecords.Under(ident.Incarnation{}).From)]
		board := ident.Incarnation([]byte(whole[len(whole)-len(ident.Incarnation{}):]))
		lost := c.lost && c.boards[board] == nil
		if !c.swept[prefix] && !c.swept[whole] && !lost && !s.Staged[board] {
			found.about.Orphan("%d records are of no board, or of no agent", found.count)
		}
	}
}
