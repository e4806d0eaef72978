package board

import (
	"context"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// maxEntryNumber is the largest number that a file may give to an entry. It leaves enough numbers for later entries.
const maxEntryNumber = 1 << 48

// boardImport is a board that is being imported.
type boardImport struct {
	line    boardLine
	agents  []Agent
	entry   *draft // the latest one; its number and time are those of the file
	begin   []byte // of the incarnation in the ids of the entries
	entries uint64
	chat    uint64 // number of chat entries
	newest  time.Time
	value   *valueRecord // the latest one
	values  int
	deleted bool // while it was exported
	staged  *stagedBoard
}

// last returns the number of the latest entry.
func (b *boardImport) last() uint64 {
	if b.entry == nil {
		return 0
	}
	return b.entry.Seq
}

// read reads a line of a board and checks everything that does not depend on the store.
func (p *Part) read(im *transfer.Importing, line *transfer.ImportLine) error {
	b := p.at
	switch {
	case line.Kind == boardType && b != nil:
		return fault.Errorf(fault.Invalid, "invalid_export", "the previous board has no end")
	case line.Kind == boardType:
		p.at = new(boardImport)
		return p.at.readBoard(im, line)
	case b == nil:
		return fault.Errorf(fault.Invalid, "invalid_export", "a %s without a board", line.Kind)
	case line.Kind == agentType:
		return b.readAgent(line)
	case line.Kind == entryType:
		return b.readEntry(line)
	case line.Kind == valueType:
		return b.readValue(line)
	}
	var end endLine
	if err := line.Into(&end); err != nil {
		return err
	}
	if end.Entries != b.entries {
		return fault.InvalidField("entries", "invalid_value", "the board ends with %d entries, the file has %d",
			end.Entries, b.entries)
	}
	if end.Values != b.values {
		return fault.InvalidField("values", "invalid_value", "the board ends with %d values, the file has %d",
			end.Values, b.values)
	}
	b.deleted = end.Deleted
	return nil
}

func (b *boardImport) readBoard(im *transfer.Importing, line *transfer.ImportLine) error {
	in := &b.line
	if err := line.Into(in); err != nil {
		return err
	}
	if err := ident.CheckID("id", in.ID); err != nil {
		return err
	}
	if in.Last > maxEntryNumber {
		return fault.InvalidField("last", "out_of_range", "must be at most %d", uint64(maxEntryNumber))
	}
	spec := Spec{Name: in.Name, RetentionDays: in.RetentionDays, Projects: in.Projects, Commanders: in.Commanders}
	return spec.check(im.Caller)
}

func (b *boardImport) readAgent(line *transfer.ImportLine) error {
	var in agentLine
	if err := line.Into(&in); err != nil {
		return err
	}
	if err := ident.CheckID("id", in.ID); err != nil {
		return err
	}
	largest, n := "", len(b.agents)
	if n > 0 {
		largest = b.agents[n-1].ID
	}
	switch {
	case in.BoardID != b.line.ID:
		return fault.Errorf(fault.Invalid, "invalid_export", "an agent of board %q among those of board %q", in.BoardID,
			b.line.ID)
	case b.entries > 0 || in.ID <= largest:
		return fault.InvalidField("id", "out_of_order", "agents must be sorted by id and come before the entries; %q follows %q",
			in.ID, largest)
	case n == maxAgents:
		return fault.InvalidField("id", "too_many", "a board may have at most %d agents", maxAgents)
	case in.Lead && slices.ContainsFunc(b.agents, func(a Agent) bool { return a.Lead }):
		return fault.InvalidField("lead", "invalid_value", "a board has one lead")
	}
	b.agents = append(b.agents, in.Agent)
	return checkDisplayName(in.DisplayName)
}

// readEntry reads the next entry. It keeps the entry's id, so that an agent that has read up to it can continue after
// it.
func (b *boardImport) readEntry(line *transfer.ImportLine) error {
	var in entryLine
	if err := line.Into(&in); err != nil {
		return err
	}
	post := Post{Content: in.Content, Tags: in.Tags, Source: in.Source}
	d, err := post.parse()
	if err != nil {
		return err
	}
	d.Unverified = in.Unverified
	begin, seq, ok := ident.SplitNumbered(entryPrefix, in.ID)
	at := records.ToTheMillisecond(in.CreatedAt)
	switch {
	case in.BoardID != b.line.ID:
		return fault.Errorf(fault.Invalid, "invalid_export", "an entry of board %q among those of board %q", in.BoardID,
			b.line.ID)
	case !ok:
		return fault.InvalidField("id", "invalid_id", "must be the id of an entry")
	case b.values > 0:
		return fault.Errorf(fault.Invalid, "invalid_export", "an entry after the values of board %q", in.BoardID)
	case b.entries > 0 && string(begin) != string(b.begin) || seq <= b.last() || seq > b.line.Last:
		return fault.InvalidField("id", "out_of_order",
			"the entries of a board must be sorted by number, up to last; %s follows number %d", in.ID, b.last())
	case at.UnixMilli() < 0 || at.Before(b.newest):
		return fault.InvalidField("created_at", "out_of_range", "the entries of a board must be sorted by time")
	case in.Damaged || in.IsChat != d.IsChat():
		return fault.InvalidField("is_chat", "invalid_value", "an entry is chat if and only if it has the tag chat")
	}
	d.Seq, d.Created = seq, at.UnixMilli()
	b.begin, b.newest, b.entry = begin, at, d
	b.entries++
	if d.IsChat() {
		b.chat++
	}
	return nil
}

func (b *boardImport) readValue(line *transfer.ImportLine) error {
	var in valueLine
	if err := line.Into(&in); err != nil {
		return err
	}
	if err := ident.CheckID("key", in.Key); err != nil {
		return err
	}
	spec := ValueSpec{Value: in.Value.Value}
	value, err := spec.compact()
	switch {
	case err != nil:
		return err
	case in.BoardID != b.line.ID:
		return fault.Errorf(fault.Invalid, "invalid_export", "a value of board %q among those of board %q", in.BoardID, b.line.ID)
	case b.value != nil && in.Key <= b.value.Key:
		return fault.InvalidField("key", "out_of_order", "the values of a board must be sorted by key; %q follows %q",
			in.Key, b.value.Key)
	case b.values == maxValues:
		return fault.InvalidField("key", "too_many", "a board may have at most %d values", maxValues)
	}
	b.value = &valueRecord{Key: in.Key, Value: value, Created: records.ToTheMillisecond(in.CreatedAt),
		Updated: records.ToTheMillisecond(in.UpdatedAt)}
	b.values++
	return nil
}

// Check validates a line, and notes boards whose id is taken.
func (p *Part) Check(im *transfer.Importing, line *transfer.ImportLine) error {
	if err := p.read(im, line); err != nil {
		return err
	}
	switch line.Kind {
	case boardType:
		id := p.at.line.ID
		if err := im.Claim("board", id); err != nil {
			return err
		}
		_, err := p.Boards.read(im.Ctx, im.Caller, id)
		if err == nil {
			im.Conflict(line, "board %q exists", id)
		} else if !fault.IsNotFound(err) {
			return err
		}
	case endType:
		p.at = nil
	}
	return nil
}

// End returns an error if a board has no last line.
func (p *Part) End(*transfer.Importing) error {
	if p.at != nil {
		return fault.Errorf(fault.Invalid, "invalid_export", "the last board has no end")
	}
	return nil
}

// Store stores a line. A board becomes visible with its last line.
func (p *Part) Store(im *transfer.Importing, line *transfer.ImportLine) error {
	if line.Stored {
		return nil
	}
	if err := p.read(im, line); err != nil {
		return err
	}
	b := p.at
	if b.staged == nil && (line.Kind == entryType || line.Kind == valueType || line.Kind == endType) {
		var err error
		if b.staged, err = p.Boards.stage(im.Ctx, im.Caller, b.begin); err != nil {
			return err
		}
	}
	switch line.Kind {
	case entryType:
		return b.staged.post(b.entry)
	case valueType:
		return b.staged.Add(func(w *records.Tx) error { return b.value.put(w, b.staged.inc) })
	case endType:
		if err := p.reveal(im, line); err != nil {
			return err
		}
		p.at = nil
	}
	return nil
}

// Abandon queues the current board for sweeping.
func (p *Part) Abandon(ctx context.Context) {
	if p.at != nil && p.at.staged != nil {
		p.at.staged.Abandon(ctx)
	}
}

// reveal makes the staged board visible, or queues it for sweeping if it was deleted while it was exported.
func (p *Part) reveal(im *transfer.Importing, line *transfer.ImportLine) error {
	b := p.at
	if b.deleted {
		b.staged.Abandon(im.Ctx)
		return nil
	}
	if err := b.staged.flush(); err != nil {
		return err
	}
	id := b.line.ID
	unlock, err := p.Boards.lock(im.Ctx, im.Caller.Tenant, id)
	if err != nil {
		return err
	}
	defer unlock()
	err = im.Commit("board", line.Number, func(t *records.Tx) (int, error) {
		if _, err := p.Boards.readTx(t, im.Caller, id, existing); err == nil {
			return 0, fault.Errorf(fault.Conflict, "import_conflict", "board %q was created in the meantime", id)
		} else if !fault.IsNotFound(err) {
			return 0, err
		}
		return 1, p.put(t, b)
	})
	if err == nil {
		p.Boards.followers.wake(topicOf(im.Caller.Tenant, id))
		p.Boards.jobs.Poke(im.Caller.Tenant)
	}
	return err
}

// put collects the writes that make the staged board visible.
func (p *Part) put(t *records.Tx, b *boardImport) error {
	b.staged.Reveal(t)
	series := Series{Incarnation: b.staged.inc, Last: b.line.Last, LastAt: b.newest, Entries: b.entries,
		Chat: b.chat}
	rec := &boardRecord{Series: series, ID: b.line.ID, Revision: 1, Name: b.line.Name, Projects: b.line.Projects, Commanders: b.line.Commanders,
		RetentionDays: b.line.RetentionDays, Created: records.ToTheMillisecond(b.line.Created), Values: b.values}
	if rec.RetentionDays != nil {
		schedule(t, rec, &t.Now)
	}
	for _, in := range b.agents {
		a := agentRecord{ID: in.ID, DisplayName: in.DisplayName, Lead: in.Lead, Paused: in.Paused,
			Created: records.ToTheMillisecond(in.CreatedAt), Inbox: p.Boards.db.NewIncarnation()}
		if err := a.put(t, rec); err != nil {
			return err
		}
	}
	return t.PutJSON(records.Board.Key(rec.ID), rec)
}
