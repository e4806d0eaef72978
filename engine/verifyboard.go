package engine

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"
)

// boardChecks is what is known of a tenant's boards. Their records come before what is on them, which comes board by
// board: entries by time, entries, agents, postings, notifications. Jobs come last.
type boardChecks struct {
	boards     map[incarnation]*boardSeen
	lostBoards int
	due        map[string]bool       // jobs that boards say there are
	swept      map[string]bool       // prefixes to be swept
	strays     map[string]*straySeen // what is of no board or of no agent, by the prefix that would sweep it
	boardNow   *boardSeen
}

// straySeen counts records that only a sweep may still have to do with.
type straySeen struct {
	first []byte
	kind  string
	count int
}

func (c *boardChecks) init() {
	c.boards, c.due, c.swept = map[incarnation]*boardSeen{}, map[string]bool{}, map[string]bool{}
	c.strays = map[string]*straySeen{}
}

// boardSeen is what a board's record promises, and follows what is on it.
type boardSeen struct {
	board
	ended   bool
	entries []entrySeen                // ascending
	agents  map[incarnation]*agentSeen // by inbox
	notices map[incarnation]uint64     // the sums of what entries say of the notifications they raised, less those that came
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

type agentSeen struct {
	agentRecord
	notices, unread, mentions uint64
}

func (s *space) board(key, value []byte) {
	b := &boardSeen{agents: map[incarnation]*agentSeen{}, notices: map[incarnation]uint64{}}
	id := idIn(key, 2)
	if !s.decode(key, value, &b.board) {
		s.lostBoards++
		return
	}
	if b.ID != id || b.Incarnation == (incarnation{}) || b.Chat > b.Entries || b.Entries > b.Last {
		s.bad(key, foundMalformed, "board %q calls itself %q, incarnation %s, with %d entries of %d, %d of them chat", id, b.ID,
			b.Incarnation, b.Entries, b.Last, b.Chat)
	}
	if other := s.boards[b.Incarnation]; other != nil {
		s.bad(key, foundMismatch, "boards %q and %q have one incarnation", id, other.ID)
		return
	}
	s.boards[b.Incarnation] = b
	switch {
	case b.Due != nil:
		s.due[string(boardDueKey(*b.Due, id))] = true
	case b.RetentionDays != nil:
		s.bad(key, foundMismatch, "board %q keeps entries for %d days and is never looked at", id, *b.RetentionDays)
	}
}

func (s *space) damagedBoard([]byte) { s.lostBoards++ }

// onBoard gives the board that a record is of; nil where there is none.
func (s *space) onBoard(key []byte) *boardSeen {
	binc := incarnation(key[2:])
	if s.boardNow != nil && s.boardNow.Incarnation == binc {
		return s.boardNow
	}
	s.endBoard()
	if s.boardNow = s.boards[binc]; s.boardNow == nil {
		s.stray(boardPrefix(binc), key)
	}
	return s.boardNow
}

func (s *space) stray(prefix, key []byte) {
	g := s.strays[string(prefix)]
	if g == nil {
		g = &straySeen{first: slices.Clone(key), kind: s.kind}
		s.strays[string(prefix)] = g
	}
	g.count++
}

func (b *boardSeen) find(seq uint64) *entrySeen {
	at, ok := slices.BinarySearchFunc(b.entries, seq, func(e entrySeen, seq uint64) int {
		switch {
		case e.seq < seq:
			return -1
		case e.seq > seq:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &b.entries[at]
}

func (s *space) boardTime(key, value []byte) {
	if len(value) != 1 {
		s.bad(key, foundMalformed, "an entry by time holds %d bytes", len(value))
	}
	s.damagedBoardTime(key)
}

// damagedBoardTime takes an entry by its key: the value says nothing.
func (s *space) damagedBoardTime(key []byte) {
	b := s.onBoard(key)
	if b == nil {
		return
	}
	e := entrySeen{seq: entryTimeSeq(key), ms: entryTimeAt(key).UnixMilli()}
	if n := len(b.entries); n > 0 && b.entries[n-1].seq >= e.seq || e.seq == 0 || e.seq > b.Last ||
		e.ms > b.LastAt.UnixMilli() {
		s.bad(key, foundMismatch, "board %q: entry %d of %s is out of order, or later than the last, %d of %s", b.ID, e.seq,
			timeOf(e.ms), b.Last, b.LastAt)
		return
	}
	b.entries = append(b.entries, e)
}

func (s *space) damagedBoardEntry(key []byte) {
	if b := s.onBoard(key); b != nil {
		s.entryCame(b, key)
		b.lostEntries = true
	}
}

// entryCame notes that an entry is there, and gives what the index by time said of it. It counts as lost until it is read.
func (s *space) entryCame(b *boardSeen, key []byte) *entrySeen {
	_, seq, _ := kindEntry.Split(key)
	at := b.find(seq)
	if at == nil {
		s.wrong("board_entry", key, foundMismatch, "board %q: entry %d is not among its entries by time", b.ID, seq)
		at = new(entrySeen)
	}
	at.came, at.lost = true, true
	return at
}

// boardEntry holds an entry against the index by time, and notes what it must be found by.
func (s *space) boardEntry(key, value []byte) {
	b := s.onBoard(key)
	if b == nil {
		return
	}
	at := s.entryCame(b, key)
	_, seq, _ := kindEntry.Split(key)
	wrong := func(code, format string, args ...any) { s.wrong("board_entry", key, code, format, args...) }
	e := parseEntry(seq, value)
	if e.damaged {
		wrong(foundMalformed, "board %q: entry %d cannot be read", b.ID, seq)
		b.lostEntries = true
		return
	}
	if at.seq == seq && at.ms != e.Created {
		wrong(foundMismatch, "board %q: entry %d was made at %s, the index by time has it at %s", b.ID, seq, timeOf(e.Created),
			timeOf(at.ms))
	}
	at.lost = false
	for _, term := range e.terms(wordsOf(e.content, maxWords)) {
		at.terms += s.print(seq, term)
	}
	for _, n := range e.Notified {
		b.notices[n.Inbox] += s.print(n.Seq, n.Kind, binary.BigEndian.AppendUint64(nil, seq)...)
	}
}

// print is the fingerprint of a number, a word, and perhaps more.
func (s *space) print(n uint64, word string, more ...byte) uint64 {
	b := append(binary.BigEndian.AppendUint64(nil, n), more...)
	return maphash.Bytes(s.seed, append(b, word...))
}

func (s *space) boardPostings(key, value []byte) {
	b := s.onBoard(key)
	if b == nil {
		return
	}
	term, block := string(key[2+8+1:len(key)-9]), postingsBlock(key)
	p, ok := decodePostings(value)
	if !ok || p.count() == 0 {
		s.bad(key, foundMalformed, "board %q: what names the entries of %q does not decode, or is empty", b.ID, term)
		b.lostPostings = true
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
			s.bad(key, foundOrphan, "board %q: entry %d is to be found by %q and is not there", b.ID, seq, term)
			return
		}
		e.terms -= s.print(seq, term)
	}
}

func (s *space) damagedBoardPostings(key []byte) {
	if b := s.onBoard(key); b != nil {
		b.lostPostings = true
	}
}

// endBoard holds what came of a board against what its record promises.
func (s *space) endBoard() {
	b := s.boardNow
	if s.boardNow = nil; b == nil {
		return
	}
	b.ended = true
	wrong := func(kind string, key []byte, code, format string, args ...any) {
		s.wrong(kind, key, code, format, args...)
	}
	for _, e := range b.entries {
		key := entryKey(b.Incarnation, e.seq)
		switch {
		case !e.came:
			wrong("board_entry", key, foundMissing, "board %q: entry %d is not there", b.ID, e.seq)
		case e.terms != 0 && !e.lost && !b.lostPostings:
			wrong("board_entry", key, foundMismatch, "board %q: entry %d is not found by what it says", b.ID, e.seq)
		}
	}
	if uint64(len(b.entries)) != b.Entries {
		wrong("board", boardKey(b.ID), foundMismatch, "board %q counts %d entries, there are %d", b.ID, b.Entries, len(b.entries))
	}
	if (b.all != b.Entries || b.chat != b.Chat) && !b.lostPostings {
		wrong("board", boardKey(b.ID), foundMismatch, "board %q counts %d entries, %d of them chat; the index has %d and %d", b.ID,
			b.Entries, b.Chat, b.all, b.chat)
	}
	if b.leads > 1 {
		wrong("board", boardKey(b.ID), foundMismatch, "board %q has %d leads", b.ID, b.leads)
	}
	s.inboxes(b)
	b.entries, b.agents, b.notices = nil, nil, nil
}

func (s *space) boardJob(key, _ []byte) { s.damagedBoardJob(key) }

func (s *space) damagedBoardJob(key []byte) { s.swept[string(key[3:])] = true }

func (s *space) boardDueJob(key, _ []byte) { s.damagedBoardDueJob(key) }

func (s *space) damagedBoardDueJob(key []byte) {
	if !s.due[string(key)] && s.lostBoards == 0 {
		s.bad(key, foundOrphan, "the board %q is to be looked at, but not then", dueBoardID(key)).harmless = true
	}
	delete(s.due, string(key))
}

func (s *space) finishBoards() {
	s.endBoard()
	for binc, b := range s.boards {
		if !b.ended {
			s.boardNow = b
			s.endBoard()
		}
		if s.swept[string(boardPrefix(binc))] {
			s.wrong("board", boardKey(b.ID), foundMismatch, "board %q lives and is to be swept", b.ID)
		}
	}
	for prefix, g := range s.strays {
		whole := prefix[:len(boardPrefix(incarnation{}))]
		lost := s.lostBoards > 0 && s.boards[incarnation([]byte(whole[2:]))] == nil
		staged := s.staged[incarnation([]byte(whole[2:]))] // of an import under way
		if !s.swept[prefix] && !s.swept[whole] && !lost && !staged {
			s.wrong(g.kind, g.first, foundOrphan, "%d records are of no board, or of no agent", g.count)
		}
	}
	for key := range s.due {
		s.wrong("job_board_due", []byte(key), foundMissing, "the board %q is to be looked at %s, and no job does it",
			dueBoardID([]byte(key)), timeOf(int64(binary.BigEndian.Uint64([]byte(key)[3:]))).Format(time.RFC3339))
	}
	s.due = nil
}
