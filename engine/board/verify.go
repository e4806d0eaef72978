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

// checks is what is known of a tenant's boards. Their records come before what is on them, which comes board by
// board: entries by time, entries, agents, postings, notifications. Jobs come last.
type checks struct {
	boards map[ident.Incarnation]*seen
	lost   bool                  // a board's record cannot be read
	swept  map[string]bool       // prefixes to be swept
	strays map[string]*straySeen // what is of no board or of no agent, by the prefix that would sweep it
	now    *seen
}

// straySeen counts records that only a sweep may still have to do with.
type straySeen struct {
	first []byte
	kind  records.Kind
	count int
}

func NewChecks() *checks {
	return &checks{boards: map[ident.Incarnation]*seen{}, swept: map[string]bool{}, strays: map[string]*straySeen{}}
}

func (c *checks) Checks() []verify.Check {
	sweep := func(_ *verify.Space, it store.Item) { c.swept[string(it.Key[3:])] = true }
	return []verify.Check{
		{Kind: records.Board, Record: c.board},
		{Kind: records.EntryTime, Record: c.time},
		{Kind: records.Entry, Record: c.entry},
		{Kind: records.BoardAgent, Record: c.agent},
		{Kind: records.Postings, Record: c.postings},
		{Kind: records.Notice, Record: c.notice},
		{Kind: records.BoardJob, Record: sweep},
		{Kind: records.InboxJob, Record: sweep},
		{Kind: records.BoardDueJob, Record: c.due},
	}
}

// seen is what a board's record promises, and follows what is on it.
type seen struct {
	Record
	ended   bool
	entries []entrySeen                      // ascending
	agents  map[ident.Incarnation]*agentSeen // by inbox
	notices map[ident.Incarnation]uint64     // the sum of those that entries say they raised, less those that came
	leads   int
	all     uint64 // entries that postings say there are
	chat    uint64
	// A record of that sort is damaged: what it said is not known.
	lostEntries, lostPostings, lostAgents, lostNotices bool
}

// entrySeen is an entry as the index by time has it.
type entrySeen struct {
	seq   uint64
	ms    int64
	terms uint64 // the sum of the fingerprints of its terms, less those that came
	came  bool
	lost  bool
}

// entryTerm is an entry under a term that it is found by.
type entryTerm struct {
	seq  uint64
	term string
}

func (c *checks) board(s *verify.Space, it store.Item) {
	b := &seen{agents: map[ident.Incarnation]*agentSeen{}, notices: map[ident.Incarnation]uint64{}}
	id := verify.IdIn(it.Key, 2)
	if !s.Decode(it, &b.Record) {
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

// on gives the board that a record is on; nil where there is none.
func (c *checks) on(s *verify.Space, key []byte) *seen {
	if binc := ident.Incarnation(key[2:]); c.now == nil || c.now.Incarnation != binc {
		c.end(s)
		if c.now = c.boards[binc]; c.now == nil {
			c.stray(s, records.BoardRecords.Under(binc).From, key)
			return nil
		}
	}
	return c.now
}

func (c *checks) stray(s *verify.Space, prefix, key []byte) {
	g := c.strays[string(prefix)]
	if g == nil {
		g = &straySeen{first: slices.Clone(key), kind: s.Kind}
		c.strays[string(prefix)] = g
	}
	g.count++
}

func (b *seen) find(seq uint64) *entrySeen {
	bySeq := func(e entrySeen, seq uint64) int { return cmp.Compare(e.seq, seq) }
	if at, ok := slices.BinarySearchFunc(b.entries, seq, bySeq); ok {
		return &b.entries[at]
	}
	return nil
}

// time takes an entry by its key, damaged or not: the value says nothing.
func (c *checks) time(s *verify.Space, it store.Item) {
	if !it.Damaged && len(it.Value) != 1 {
		s.Malformed("an entry by time holds %d bytes", len(it.Value))
	}
	b := c.on(s, it.Key)
	if b == nil {
		return
	}
	e := entrySeen{seq: entryTimeSeq(it.Key), ms: entryTimeAt(it.Key).UnixMilli()}
	if n := len(b.entries); n > 0 && b.entries[n-1].seq >= e.seq || e.seq == 0 || e.seq > b.Last ||
		e.ms > b.LastAt.UnixMilli() {
		s.Mismatch("board %q: entry %d of %s is out of order, or later than the last, %d of %s", b.ID, e.seq,
			records.TimeOf(e.ms), b.Last, b.LastAt)
		return
	}
	b.entries = append(b.entries, e)
}

// entry holds an entry against the index by time, and notes what it must be found by.
func (c *checks) entry(s *verify.Space, it store.Item) {
	b := c.on(s, it.Key)
	if b == nil {
		return
	}
	_, seq, _ := records.Entry.Split(it.Key)
	at := b.find(seq)
	if at == nil {
		s.Mismatch("board %q: entry %d is not among its entries by time", b.ID, seq)
		at = new(entrySeen)
	}
	at.came = true
	e := parseEntry(seq, it.Value)
	if it.Damaged || e.damaged {
		if at.lost, b.lostEntries = true, true; !it.Damaged {
			s.Malformed("board %q: entry %d cannot be read", b.ID, seq)
		}
		return
	}
	if at.seq == seq && at.ms != e.Created {
		s.Mismatch("board %q: entry %d was made at %s, the index by time has it at %s", b.ID, seq,
			records.TimeOf(e.Created), records.TimeOf(at.ms))
	}
	for _, term := range e.terms(wordsOf(e.content, maxWords)) {
		at.terms += verify.Fingerprint(s, entryTerm{seq, term})
	}
	for _, n := range e.Notified {
		b.notices[n.Inbox] += verify.Fingerprint(s, noticeSeen{n.Seq, seq, n.Kind})
	}
}

func (c *checks) postings(s *verify.Space, it store.Item) {
	b := c.on(s, it.Key)
	if b == nil {
		return
	}
	term, block := string(it.Key[2+8+1:len(it.Key)-9]), postingsBlock(it.Key)
	p, ok := decodePostings(it.Value)
	if !ok || p.count() == 0 {
		if b.lostPostings = true; !it.Damaged {
			s.Malformed("board %q: what names the entries of %q does not decode, or is empty", b.ID, term)
		}
		return
	}
	switch term {
	case termAll:
		b.all += uint64(p.count())
	case termTag + chatTag:
		b.chat += uint64(p.count())
	}
	for _, seq := range p.numbers(nil, block) {
		e := b.find(seq)
		if e == nil {
			s.Orphan("board %q: entry %d is to be found by %q and is not there", b.ID, seq, term)
			return
		}
		e.terms -= verify.Fingerprint(s, entryTerm{seq, term})
	}
}

// end holds what came of a board against what its record promises.
func (c *checks) end(s *verify.Space) {
	b := c.now
	if c.now = nil; b == nil {
		return
	}
	b.ended = true
	for _, e := range b.entries {
		key := records.Entry.Key(b.Incarnation, e.seq)
		switch {
		case !e.came:
			s.At(records.Entry, key).Missing("board %q: entry %d is not there", b.ID, e.seq)
		case e.terms != 0 && !e.lost && !b.lostPostings:
			s.At(records.Entry, key).Mismatch("board %q: entry %d is not found by what it says", b.ID, e.seq)
		}
	}
	wrong := s.At(records.Board, records.Board.Key(b.ID))
	if uint64(len(b.entries)) != b.Entries {
		wrong.Mismatch("board %q counts %d entries, there are %d", b.ID, b.Entries, len(b.entries))
	}
	if (b.all != b.Entries || b.chat != b.Chat) && !b.lostPostings {
		wrong.Mismatch("board %q counts %d entries, %d of them chat; the index has %d and %d", b.ID,
			b.Entries, b.Chat, b.all, b.chat)
	}
	if b.leads > 1 {
		wrong.Mismatch("board %q has %d leads", b.ID, b.leads)
	}
	b.inboxes(s)
	b.entries, b.agents, b.notices = nil, nil, nil
}

// due takes the job that is to look at a board.
func (c *checks) due(s *verify.Space, it store.Item) {
	if !s.Came(it.Key) && !c.lost {
		s.Orphan("the board %q is to be looked at, but not then", dueID(it.Key)).Harmless = true
	}
}

func (c *checks) Finish(s *verify.Space) {
	c.end(s)
	for binc, b := range c.boards {
		if !b.ended {
			c.now = b
			c.end(s)
		}
		if c.swept[string(records.BoardRecords.Under(binc).From)] {
			s.At(records.Board, records.Board.Key(b.ID)).Mismatch("board %q lives and is to be swept", b.ID)
		}
	}
	for prefix, g := range c.strays {
		whole := prefix[:len(records.BoardRecords.Under(ident.Incarnation{}).From)]
		binc := ident.Incarnation([]byte(whole[2:]))
		lost := c.lost && c.boards[binc] == nil
		if !c.swept[prefix] && !c.swept[whole] && !lost && !s.Staged[binc] {
			s.At(g.kind, g.first).Orphan("%d records are of no board, or of no agent", g.count)
		}
	}
}
