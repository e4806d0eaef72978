package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxEntryNumber bounds the numbers that a file may give to entries: there is room for more behind it.
const maxEntryNumber = 1 << 48

// boardPart is what a tenant's file holds of boards.
type boardPart struct {
	simplePart
	e  *Engine
	at *boardImport // the board at hand
}

func (*boardPart) types() []string {
	return []string{"board", "board_agent", "board_entry", "board_end"}
}

// boardImport is a board on its way in.
type boardImport struct {
	line    boardLine
	agents  []BoardAgent
	entries uint64
	deleted bool // while it was being exported

	series  string // what the ids of its entries begin with
	last    uint64 // number of the newest so far
	newest  time.Time
	entry   *parsedPost // the one read last
	staged  *stagedBoard
	largest string // id of the last agent
	lead    bool
}

func (s *boardLine) spec() *BoardSpec {
	return &BoardSpec{Name: s.Name, RetentionDays: s.RetentionDays, Projects: s.Projects}
}

// read reads a line of a board and holds it against all that does not depend on the store.
func (p *boardPart) read(im *importing, line *importLine) error {
	b := p.at
	if line.kind == "board" {
		if b != nil {
			return errorf(Invalid, "invalid_export", "the board before has no end")
		}
		b = new(boardImport)
		p.at = b
		if err := line.into(&b.line); err != nil {
			return err
		}
		if err := checkID("id", b.line.ID); err != nil {
			return err
		}
		if b.line.Last > maxEntryNumber {
			return invalidField("last", "out_of_range", "must be at most %d", uint64(maxEntryNumber))
		}
		return b.line.spec().check(im.caller)
	}
	if b == nil {
		return errorf(Invalid, "invalid_export", "a %s without a board", line.kind)
	}
	switch line.kind {
	case "board_agent":
		return b.readAgent(line)
	case "board_entry":
		return b.readEntry(line)
	}
	var end boardEnd
	if err := line.into(&end); err != nil {
		return err
	}
	if end.Entries != b.entries {
		return invalidField("entries", "invalid_value", "the board ends with %d entries, the file has %d", end.Entries,
			b.entries)
	}
	b.deleted = end.Deleted
	return nil
}

func (b *boardImport) readAgent(line *importLine) error {
	var in boardAgentLine
	if err := line.into(&in); err != nil {
		return err
	}
	if err := checkID("id", in.ID); err != nil {
		return err
	}
	switch {
	case in.BoardID != b.line.ID:
		return errorf(Invalid, "invalid_export", "an agent of board %q amid board %q", in.BoardID, b.line.ID)
	case b.entries > 0 || in.ID <= b.largest:
		return invalidField("id", "out_of_order", "agents must go up by id, before the entries; %q follows %q", in.ID,
			b.largest)
	case len(b.agents) == maxBoardAgents:
		return invalidField("id", "too_many", "a board may have at most %d agents", maxBoardAgents)
	case in.Lead && b.lead:
		return invalidField("lead", "invalid_value", "a board has one lead")
	}
	if err := checkDisplayName(in.DisplayName); err != nil {
		return err
	}
	b.largest, b.lead = in.ID, b.lead || in.Lead
	b.agents = append(b.agents, in.BoardAgent)
	return nil
}

// readEntry reads the next entry. Its id is kept, so that who has read up to it goes on behind it.
func (b *boardImport) readEntry(line *importLine) error {
	var in boardEntryLine
	if err := line.into(&in); err != nil {
		return err
	}
	post := BoardPost{Content: in.Content, Tags: in.Tags, Source: in.Source}
	p, err := post.parse()
	if err != nil {
		return err
	}
	series, seq, ok := splitEntryID(in.ID)
	at := toTheMillisecond(in.CreatedAt)
	switch {
	case in.BoardID != b.line.ID:
		return errorf(Invalid, "invalid_export", "an entry of board %q amid board %q", in.BoardID, b.line.ID)
	case !ok:
		return invalidField("id", "invalid_id", "must be the id of an entry")
	case b.series != "" && series != b.series || seq <= b.last || seq > b.line.Last:
		return invalidField("id", "out_of_order",
			"the entries of a board must go up by number, to last at most; %s follows %s_%012d",
			in.ID, b.series, b.last)
	case at.UnixMilli() < 0 || at.Before(b.newest):
		return invalidField("created_at", "out_of_range", "the times of a board never go back")
	case in.Damaged || in.IsChat != p.chat:
		return invalidField("is_chat", "invalid_value", "an entry is chat where it has the tag chat")
	}
	p.seq, p.Created = seq, at.UnixMilli()
	b.series, b.last, b.newest, b.entry = series, seq, at, p
	b.entries++
	return nil
}

// splitEntryID gives what an entry's id is made of.
func splitEntryID(id string) (series string, seq uint64, ok bool) {
	at := max(0, strings.LastIndexByte(id, '_'))
	series = id[:at]
	if _, ok = seriesOf(series); !ok {
		return "", 0, false
	}
	seq, err := strconv.ParseUint(id[at+1:], 10, 64)
	return series, seq, err == nil && id == fmt.Sprintf("%s_%012d", series, seq)
}

// seriesOf is the part of an incarnation that the ids of a board's entries begin with.
func seriesOf(series string) ([]byte, bool) {
	encoded, ok := strings.CutPrefix(series, entryIDPrefix)
	begin, err := idAlphabet.DecodeString(encoded)
	return begin, ok && err == nil && len(begin) == 5 && idAlphabet.EncodeToString(begin) == encoded
}

func (p *boardPart) check(im *importing, line *importLine) error {
	if err := p.read(im, line); err != nil {
		return err
	}
	switch b := p.at; line.kind {
	case "board":
		if err := im.claim("board", b.line.ID); err != nil {
			return err
		}
		_, err := p.e.readBoard(im.ctx, im.caller, b.line.ID)
		if err == nil {
			im.conflict(line, "board %q exists", b.line.ID)
		} else if !isNotFound(err) {
			return err
		}
	case "board_end":
		p.at = nil
	}
	return nil
}

func (p *boardPart) end(*importing) error {
	if p.at != nil {
		return errorf(Invalid, "invalid_export", "the last board has no end")
	}
	return nil
}

func (p *boardPart) abandon(ctx context.Context) {
	if p.at != nil && p.at.staged != nil {
		p.at.staged.abandon(ctx)
	}
}

func (p *boardPart) store(im *importing, line *importLine) error {
	if line.stored {
		return nil
	}
	if err := p.read(im, line); err != nil {
		return err
	}
	b := p.at
	if b.staged == nil && (line.kind == "board_entry" || line.kind == "board_end") {
		begin, _ := seriesOf(b.series)
		var err error
		if b.staged, err = p.e.stageBoard(im.ctx, im.caller, begin); err != nil {
			return err
		}
	}
	switch line.kind {
	case "board_entry":
		return b.staged.post(b.entry)
	case "board_end":
		if err := p.reveal(im, line); err != nil {
			return err
		}
		p.at = nil
	}
	return nil
}

// reveal makes the board one that is seen, or forgets one that was deleted while it was being exported.
func (p *boardPart) reveal(im *importing, line *importLine) error {
	b := p.at
	if b.deleted {
		b.staged.abandon(im.ctx)
		return nil
	}
	if err := b.staged.flush(); err != nil {
		return err
	}
	unlock, err := p.e.lockBoard(im.ctx, im.caller.Tenant, b.line.ID)
	if err != nil {
		return err
	}
	defer unlock()
	err = im.commit("board", line.number, func(t *tx) (int, error) {
		if _, err := t.board(im.caller, b.line.ID, false); err == nil {
			return 0, errorf(Conflict, "import_conflict", "board %q was made meanwhile", b.line.ID)
		} else if !isNotFound(err) {
			return 0, err
		}
		return 1, p.put(t, b)
	})
	if err == nil {
		p.e.followers.wake(topicOf(im.caller.Tenant, b.line.ID))
		p.e.poke(im.caller.Tenant)
	}
	return err
}

// put collects the writes that make the staged board one that is seen.
func (p *boardPart) put(t *tx, b *boardImport) error {
	s := b.staged
	s.reveal(t)
	rec := &board{ID: b.line.ID, Incarnation: s.inc, Revision: 1, Name: b.line.Name, Projects: b.line.Projects,
		RetentionDays: b.line.RetentionDays, Created: toTheMillisecond(b.line.Created), Last: b.line.Last,
		LastAt: b.newest, Entries: b.entries, Chat: s.chat}
	if rec.RetentionDays != nil {
		t.schedule(rec, &t.now)
	}
	for i := range b.agents {
		a := &b.agents[i]
		err := t.putJSON(kindBoardAgent.Key(s.inc, a.ID), agentRecord{ID: a.ID, DisplayName: a.DisplayName, Lead: a.Lead,
			Paused: a.Paused, Created: toTheMillisecond(a.CreatedAt), Inbox: p.e.newIncarnation()})
		if err != nil {
			return err
		}
	}
	return t.putJSON(kindBoard.Key(rec.ID), rec)
}

func checkDisplayName(name string) error {
	if len(name) > 256 {
		return invalidField("display_name", "too_long", "must be at most 256 bytes")
	}
	return nil
}
