package board

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// maxEntryNumber bounds the numbers that a file may give to entries: there is room for more behind it.
const maxEntryNumber = 1 << 48

// Part is what a tenant's file holds of boards.
type Part struct {
	transfer.SimplePart
	E  *Service
	at *boardImport // the board at hand
}

func (*Part) Types() []string {
	return []string{"board", "board_agent", "board_entry", "board_end"}
}

// boardImport is a board on its way in.
type boardImport struct {
	line    line
	agents  []Agent
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

func (s *line) spec() *Spec {
	return &Spec{Name: s.Name, RetentionDays: s.RetentionDays, Projects: s.Projects}
}

// read reads a line of a board and holds it against all that does not depend on the store.
func (p *Part) read(im *transfer.Importing, line *transfer.ImportLine) error {
	b := p.at
	if line.Kind == "board" {
		if b != nil {
			return fault.Errorf(fault.Invalid, "invalid_export", "the board before has no end")
		}
		b = new(boardImport)
		p.at = b
		if err := line.Into(&b.line); err != nil {
			return err
		}
		if err := ident.CheckID("id", b.line.ID); err != nil {
			return err
		}
		if b.line.Last > maxEntryNumber {
			return fault.InvalidField("last", "out_of_range", "must be at most %d", uint64(maxEntryNumber))
		}
		return b.line.spec().check(im.Caller)
	}
	if b == nil {
		return fault.Errorf(fault.Invalid, "invalid_export", "a %s without a board", line.Kind)
	}
	switch line.Kind {
	case "board_agent":
		return b.readAgent(line)
	case "board_entry":
		return b.readEntry(line)
	}
	var end end
	if err := line.Into(&end); err != nil {
		return err
	}
	if end.Entries != b.entries {
		return fault.InvalidField("entries", "invalid_value", "the board ends with %d entries, the file has %d", end.Entries,
			b.entries)
	}
	b.deleted = end.Deleted
	return nil
}

func (b *boardImport) readAgent(line *transfer.ImportLine) error {
	var in agentLine
	if err := line.Into(&in); err != nil {
		return err
	}
	if err := ident.CheckID("id", in.ID); err != nil {
		return err
	}
	switch {
	case in.BoardID != b.line.ID:
		return fault.Errorf(fault.Invalid, "invalid_export", "an agent of board %q amid board %q", in.BoardID, b.line.ID)
	case b.entries > 0 || in.ID <= b.largest:
		return fault.InvalidField("id", "out_of_order", "agents must go up by id, before the entries; %q follows %q", in.ID,
			b.largest)
	case len(b.agents) == maxBoardAgents:
		return fault.InvalidField("id", "too_many", "a board may have at most %d agents", maxBoardAgents)
	case in.Lead && b.lead:
		return fault.InvalidField("lead", "invalid_value", "a board has one lead")
	}
	if err := checkDisplayName(in.DisplayName); err != nil {
		return err
	}
	b.largest, b.lead = in.ID, b.lead || in.Lead
	b.agents = append(b.agents, in.Agent)
	return nil
}

// readEntry reads the next entry. Its id is kept, so that who has read up to it goes on behind it.
func (b *boardImport) readEntry(line *transfer.ImportLine) error {
	var in entryLine
	if err := line.Into(&in); err != nil {
		return err
	}
	post := Post{Content: in.Content, Tags: in.Tags, Source: in.Source}
	p, err := post.parse()
	if err != nil {
		return err
	}
	series, seq, ok := splitEntryID(in.ID)
	at := records.ToTheMillisecond(in.CreatedAt)
	switch {
	case in.BoardID != b.line.ID:
		return fault.Errorf(fault.Invalid, "invalid_export", "an entry of board %q amid board %q", in.BoardID, b.line.ID)
	case !ok:
		return fault.InvalidField("id", "invalid_id", "must be the id of an entry")
	case b.series != "" && series != b.series || seq <= b.last || seq > b.line.Last:
		return fault.InvalidField("id", "out_of_order",
			"the entries of a board must go up by number, to last at most; %s follows %s_%012d",
			in.ID, b.series, b.last)
	case at.UnixMilli() < 0 || at.Before(b.newest):
		return fault.InvalidField("created_at", "out_of_range", "the times of a board never go back")
	case in.Damaged || in.IsChat != p.chat:
		return fault.InvalidField("is_chat", "invalid_value", "an entry is chat where it has the tag chat")
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
	begin, err := ident.Alphabet.DecodeString(encoded)
	return begin, ok && err == nil && len(begin) == 5 && ident.Alphabet.EncodeToString(begin) == encoded
}

func (p *Part) Check(im *transfer.Importing, line *transfer.ImportLine) error {
	if err := p.read(im, line); err != nil {
		return err
	}
	switch b := p.at; line.Kind {
	case "board":
		if err := im.Claim("board", b.line.ID); err != nil {
			return err
		}
		_, err := p.E.read(im.Ctx, im.Caller, b.line.ID)
		if err == nil {
			im.Conflict(line, "board %q exists", b.line.ID)
		} else if !fault.IsNotFound(err) {
			return err
		}
	case "board_end":
		p.at = nil
	}
	return nil
}

func (p *Part) End(*transfer.Importing) error {
	if p.at != nil {
		return fault.Errorf(fault.Invalid, "invalid_export", "the last board has no end")
	}
	return nil
}

func (p *Part) Abandon(ctx context.Context) {
	if p.at != nil && p.at.staged != nil {
		p.at.staged.Abandon(ctx)
	}
}

func (p *Part) Store(im *transfer.Importing, line *transfer.ImportLine) error {
	if line.Stored {
		return nil
	}
	if err := p.read(im, line); err != nil {
		return err
	}
	b := p.at
	if b.staged == nil && (line.Kind == "board_entry" || line.Kind == "board_end") {
		begin, _ := seriesOf(b.series)
		var err error
		if b.staged, err = p.E.stage(im.Ctx, im.Caller, begin); err != nil {
			return err
		}
	}
	switch line.Kind {
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
func (p *Part) reveal(im *transfer.Importing, line *transfer.ImportLine) error {
	b := p.at
	if b.deleted {
		b.staged.Abandon(im.Ctx)
		return nil
	}
	if err := b.staged.flush(); err != nil {
		return err
	}
	unlock, err := p.E.lock(im.Ctx, im.Caller.Tenant, b.line.ID)
	if err != nil {
		return err
	}
	defer unlock()
	err = im.Commit("board", line.Number, func(t *records.Tx) (int, error) {
		if _, err := p.E.board(t, im.Caller, b.line.ID, false); err == nil {
			return 0, fault.Errorf(fault.Conflict, "import_conflict", "board %q was made meanwhile", b.line.ID)
		} else if !fault.IsNotFound(err) {
			return 0, err
		}
		return 1, p.put(t, b)
	})
	if err == nil {
		p.E.followers.wake(topicOf(im.Caller.Tenant, b.line.ID))
		p.E.jobs.Poke(im.Caller.Tenant)
	}
	return err
}

// put collects the writes that make the staged board one that is seen.
func (p *Part) put(t *records.Tx, b *boardImport) error {
	s := b.staged
	s.Reveal(t)
	rec := &Record{ID: b.line.ID, Incarnation: s.inc, Revision: 1, Name: b.line.Name, Projects: b.line.Projects,
		RetentionDays: b.line.RetentionDays, Created: records.ToTheMillisecond(b.line.Created), Last: b.line.Last,
		LastAt: b.newest, Entries: b.entries, Chat: s.chat}
	if rec.RetentionDays != nil {
		schedule(t, rec, &t.Now)
	}
	for i := range b.agents {
		a := &b.agents[i]
		err := t.PutJSON(records.BoardAgent.Key(s.inc, a.ID), agentRecord{ID: a.ID, DisplayName: a.DisplayName, Lead: a.Lead,
			Paused: a.Paused, Created: records.ToTheMillisecond(a.CreatedAt), Inbox: p.E.db.NewIncarnation()})
		if err != nil {
			return err
		}
	}
	return t.PutJSON(records.Board.Key(rec.ID), rec)
}

func checkDisplayName(name string) error {
	if len(name) > 256 {
		return fault.InvalidField("display_name", "too_long", "must be at most 256 bytes")
	}
	return nil
}
