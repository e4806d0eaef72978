package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// boardChecks is what is known of a tenant's boards. Their records come before what is on them, which comes board by
// board: entries by time, entries, agents, postings, notifications. Jobs come last.
type boardChecks struct {
	boards map[incarnation]*boardSeen
	lost   bool                  // a board's record cannot be read
	swept  map[string]bool       // prefixes to be swept
	strays map[string]*straySeen // what is of no board or of no agent, by the prefix that would sweep it
	now    *boardSeen
}

// straySeen counts records that only a sweep may still have to do with.
type straySeen struct {
	first []byte
	kind  string
	count int
}

func newBoardChecks() *boardChecks {
	return &boardChecks{boards: map[incarnation]*boardSeen{}, swept: map[string]bool{}, strays: map[string]*straySeen{}}
}

func (c *boardChecks) checks() []recordCheck {
	sweep := func(_ *space, it store.Item) { c.swept[string(it.Key[3:])] = true }
	return []recordCheck{
		{kind: "board", record: c.board},
		{kind: "board_time", record: c.time},
		{kind: "board_entry", record: c.entry},
		{kind: "board_agent", record: c.agent},
		{kind: "board_postings", record: c.postings},
		{kind: "board_notice", record: c.notice},
		{kind: "job_board", record: sweep},
		{kind: "job_inbox", record: sweep},
		{kind: "job_board_due", record: c.due},
	}
}

// boardSeen is what a board's record promises, and follows what is on it.
type boardSeen struct {
	board
	ended   bool
	entries []entrySeen                // ascending
	agents  map[incarnation]*agentSeen // by inbox
	notices map[incarnation]uint64     // the sum of those that entries say they raised, less those that came
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

func (c *boardChecks) board(s *space, it store.Item) {
	b := &boardSeen{agents: map[incarnation]*agentSeen{}, notices: map[incarnation]uint64{}}
	id := idIn(it.Key, 2)
	if !s.decode(it, &b.board) {
		c.lost = true
		return
	}
	if b.ID != id || b.Incarnation == (incarnation{}) || b.Chat > b.Entries || b.Entries > b.Last {
		s.malformed("board %q calls itself %q, incarnation %s, with %d entries of %d, %d of them chat", id, b.ID,
			b.Incarnation, b.Entries, b.Last, b.Chat)
	}
	if other := c.boards[b.Incarnation]; other != nil {
		s.mismatch("boards %q and %q have one incarnation", id, other.ID)
		return
	}
	c.boards[b.Incarnation], s.inUse = b, true
	switch {
	case b.Due != nil:
		job := kindBoardDueJob.Key(*b.Due, id)
		s.expect(job, s.at("job_board_due", job), "the board %q is to be looked at %s, and no job does it", id,
			b.Due.Truncate(time.Millisecond).UTC().Format(time.RFC3339))
	case b.RetentionDays != nil:
		s.mismatch("board %q keeps entries for %d days and is never looked at", id, *b.RetentionDays)
	}
}

// on gives the board that a record is on; nil where there is none.
func (c *boardChecks) on(s *space, key []byte) *boardSeen {
	if binc := incarnation(key[2:]); c.now == nil || c.now.Incarnation != binc {
		c.end(s)
		if c.now = c.boards[binc]; c.now == nil {
			c.stray(s, boardRecords.Under(binc).From, key)
			return nil
		}
	}
	return c.now
}

func (c *boardChecks) stray(s *space, prefix, key []byte) {
	g := c.strays[string(prefix)]
	if g == nil {
		g = &straySeen{first: slices.Clone(key), kind: s.kind}
		c.strays[string(prefix)] = g
	}
	g.count++
}

func (b *boardSeen) find(seq uint64) *entrySeen {
	bySeq := func(e entrySeen, seq uint64) int { return cmp.Compare(e.seq, seq) }
	if at, ok := slices.BinarySearchFunc(b.entries, seq, bySeq); ok {
		return &b.entries[at]
	}
	return nil
}

// time takes an entry by its key, damaged or not: the value says nothing.
func (c *boardChecks) time(s *space, it store.Item) {
	if !it.Damaged && len(it.Value) != 1 {
		s.malformed("an entry by time holds %d bytes", len(it.Value))
	}
	b := c.on(s, it.Key)
	if b == nil {
		return
	}
	e := entrySeen{seq: entryTimeSeq(it.Key), ms: entryTimeAt(it.Key).UnixMilli()}
	if n := len(b.entries); n > 0 && b.entries[n-1].seq >= e.seq || e.seq == 0 || e.seq > b.Last ||
		e.ms > b.LastAt.UnixMilli() {
		s.mismatch("board %q: entry %d of %s is out of order, or later than the last, %d of %s", b.ID, e.seq,
			timeOf(e.ms), b.Last, b.LastAt)
		return
	}
	b.entries = append(b.entries, e)
}

// entry holds an entry against the index by time, and notes what it must be found by.
func (c *boardChecks) entry(s *space, it store.Item) {
	b := c.on(s, it.Key)
	if b == nil {
		return
	}
	_, seq, _ := kindEntry.Split(it.Key)
	at := b.find(seq)
	if at == nil {
		s.mismatch("board %q: entry %d is not among its entries by time", b.ID, seq)
		at = new(entrySeen)
	}
	at.came = true
	e := parseEntry(seq, it.Value)
	if it.Damaged || e.damaged {
		if at.lost, b.lostEntries = true, true; !it.Damaged {
			s.malformed("board %q: entry %d cannot be read", b.ID, seq)
		}
		return
	}
	if at.seq == seq && at.ms != e.Created {
		s.mismatch("board %q: entry %d was made at %s, the index by time has it at %s", b.ID, seq,
			timeOf(e.Created), timeOf(at.ms))
	}
	for _, term := range e.terms(wordsOf(e.content, maxWords)) {
		at.terms += fingerprint(s, entryTerm{seq, term})
	}
	for _, n := range e.Notified {
		b.notices[n.Inbox] += fingerprint(s, noticeSeen{n.Seq, seq, n.Kind})
	}
}

func (c *boardChecks) postings(s *space, it store.Item) {
	b := c.on(s, it.Key)
	if b == nil {
		return
	}
	term, block := string(it.Key[2+8+1:len(it.Key)-9]), postingsBlock(it.Key)
	p, ok := decodePostings(it.Value)
	if !ok || p.count() == 0 {
		if b.lostPostings = true; !it.Damaged {
			s.malformed("board %q: what names the entries of %q does not decode, or is empty", b.ID, term)
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
			s.orphan("board %q: entry %d is to be found by %q and is not there", b.ID, seq, term)
			return
		}
		e.terms -= fingerprint(s, entryTerm{seq, term})
	}
}

// end holds what came of a board against what its record promises.
func (c *boardChecks) end(s *space) {
	b := c.now
	if c.now = nil; b == nil {
		return
	}
	b.ended = true
	for _, e := range b.entries {
		key := kindEntry.Key(b.Incarnation, e.seq)
		switch {
		case !e.came:
			s.at("board_entry", key).missing("board %q: entry %d is not there", b.ID, e.seq)
		case e.terms != 0 && !e.lost && !b.lostPostings:
			s.at("board_entry", key).mismatch("board %q: entry %d is not found by what it says", b.ID, e.seq)
		}
	}
	wrong := s.at("board", kindBoard.Key(b.ID))
	if uint64(len(b.entries)) != b.Entries {
		wrong.mismatch("board %q counts %d entries, there are %d", b.ID, b.Entries, len(b.entries))
	}
	if (b.all != b.Entries || b.chat != b.Chat) && !b.lostPostings {
		wrong.mismatch("board %q counts %d entries, %d of them chat; the index has %d and %d", b.ID,
			b.Entries, b.Chat, b.all, b.chat)
	}
	if b.leads > 1 {
		wrong.mismatch("board %q has %d leads", b.ID, b.leads)
	}
	b.inboxes(s)
	b.entries, b.agents, b.notices = nil, nil, nil
}

// due takes the job that is to look at a board.
func (c *boardChecks) due(s *space, it store.Item) {
	if !s.came(it.Key) && !c.lost {
		s.orphan("the board %q is to be looked at, but not then", dueBoardID(it.Key)).harmless = true
	}
}

func (c *boardChecks) finish(s *space) {
	c.end(s)
	for binc, b := range c.boards {
		if !b.ended {
			c.now = b
			c.end(s)
		}
		if c.swept[string(boardRecords.Under(binc).From)] {
			s.at("board", kindBoard.Key(b.ID)).mismatch("board %q lives and is to be swept", b.ID)
		}
	}
	for prefix, g := range c.strays {
		whole := prefix[:len(boardRecords.Under(incarnation{}).From)]
		binc := incarnation([]byte(whole[2:]))
		lost := c.lost && c.boards[binc] == nil
		if !c.swept[prefix] && !c.swept[whole] && !lost && !s.staged[binc] {
			s.at(g.kind, g.first).orphan("%d records are of no board, or of no agent", g.count)
		}
	}
}
