package session

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// incoming is a session that is being imported.
type incoming struct {
	begin  beginLine
	order  transcript.History
	size   int64 // of its messages, in bytes
	seen   covering
	staged *staged // nil until its messages are being stored
}

// taken reports whether the session's id is in use. An empty dashboard is not, unless it may have lost its turns.
func (in *incoming) taken(h *Head) bool { return h != nil && (h.Counts(in.begin.ID) || h.Closed) }

// Check validates a line, and notes sessions whose id is taken. It returns invalid_export if the lines are out of
// order, invalid_turn, invalid_messages, and the errors of the summary.
func (p *Part) Check(im *transfer.Importing, line *transfer.ImportLine) error {
	switch line.Kind {
	case "session":
		return p.checkBegin(im, line)
	case "turn":
		file, turn, err := p.turn(line)
		if err != nil {
			return err
		}
		return p.at.follow(file, turn)
	}
	end, err := p.readEnd(line)
	if err == nil && !end.Deleted {
		if !line.Stored {
			p.bytes += p.at.size
		}
		err = p.at.begin.Summary.within(p.at.seen, &p.at.order)
	}
	p.at = nil
	return err
}

func (p *Part) checkBegin(im *transfer.Importing, line *transfer.ImportLine) error {
	in, err := p.readBegin(line)
	if err != nil {
		return err
	}
	s := &in.begin
	if err := s.Spec.check(); err != nil {
		return err
	}
	if err := ident.CheckID("id", s.ID); err != nil {
		return err
	}
	if err := im.Needs("project", s.Project); err != nil {
		return err
	}
	if err := im.Claim("session", s.Project, s.ID); err != nil {
		return err
	}
	_, h, _, err := p.Sessions.ReadHead(im.Ctx, im.Caller, s.Project, s.ID)
	if fault.IsNotFound(err) { // the project does not exist yet
		return nil
	}
	if err == nil && in.taken(h) {
		im.Conflict(line, "session %q of project %q exists", s.ID, s.Project)
	}
	return err
}

// readBegin reads the first line of a session.
func (p *Part) readBegin(line *transfer.ImportLine) (*incoming, error) {
	if p.at != nil {
		return nil, fault.Errorf(fault.Invalid, "invalid_export", "the session before has no end")
	}
	p.at = new(incoming)
	return p.at, line.Into(&p.at.begin)
}

// turn reads the next turn of the current session.
func (p *Part) turn(line *transfer.ImportLine) (*FileTurn, *transcript.Turn, error) {
	if p.at == nil {
		return nil, nil, fault.Errorf(fault.Invalid, "invalid_export", "a turn without a session")
	}
	file, err := readTurn(line)
	if err != nil {
		return nil, nil, err
	}
	turn, _, err := file.parse(transcript.ParseMessages, p.at.begin.Created)
	if err == nil {
		p.at.size += turn.Bytes()
	}
	return file, turn, err
}

// follow finds the call that each result answers, as storing the turn will.
func (in *incoming) follow(ft *FileTurn, t *transcript.Turn) error {
	if err := in.order.Take(ft.place(), t); err != nil {
		return err
	}
	var bad []chat.FieldError
	for i := range t.Messages {
		seq := in.seen.messages + uint64(i) + 1
		h := &transcript.Header{Seq: seq, Call: seq, Turn: ft.Turn}
		if problem := in.order.Open.Follow(&t.Messages[i].Message, h, t.Superseded); problem != nil {
			problem.Index = t.Messages[i].Index
			bad = append(bad, *problem)
		}
	}
	in.seen.add(in.begin.Summary, t)
	return transcript.Refusal(bad)
}

// readEnd reads the last line of a session.
func (p *Part) readEnd(line *transfer.ImportLine) (end endLine, err error) {
	if p.at == nil {
		return end, fault.Errorf(fault.Invalid, "invalid_export", "the end of a session that was not begun")
	}
	if err := line.Into(&end); err != nil {
		return end, err
	}
	turns := p.at.order.Turns
	if p.at.staged != nil {
		turns = p.at.staged.order.Turns
	}
	if end.Turns != turns {
		return end, fault.InvalidField("turns", "invalid_turn", "the session ends with %d turns, the file has %d",
			end.Turns, turns)
	}
	return end, nil
}

// Fits returns quota_exceeded if the file's messages exceed the tenant's quota.
func (p *Part) Fits(im *transfer.Importing) error {
	return p.Sessions.checkQuota(im.Ctx, im.Caller, p.bytes)
}

// End returns invalid_export if a session has no last line, and makes the completed ones visible.
func (p *Part) End(im *transfer.Importing) error {
	if p.at != nil {
		return fault.Errorf(fault.Invalid, "invalid_export", "the last session has no end")
	}
	return p.reveal(im)
}

// Abandon queues the half stored sessions for sweeping.
func (p *Part) Abandon(ctx context.Context) {
	if p.at != nil {
		p.ended.sessions = append(p.ended.sessions, p.at)
	}
	for _, in := range p.ended.sessions {
		if in.staged != nil {
			in.staged.Abandon(ctx)
		}
	}
}

// Store stores a line. A session becomes visible in one commit with others, some time after its last line is stored.
func (p *Part) Store(im *transfer.Importing, line *transfer.ImportLine) error {
	if line.Stored {
		return nil
	}
	switch line.Kind {
	case "session":
		in, err := p.readBegin(line)
		if err != nil {
			return err
		}
		of, _, _, err := p.Sessions.ReadHead(im.Ctx, im.Caller, in.begin.Project, in.begin.ID)
		if err != nil {
			return err
		}
		in.staged, err = p.Sessions.stage(im.Ctx, im.Caller, of, &in.begin.Spec, in.begin.Created)
		return err
	case "turn":
		file, turn, err := p.turn(line)
		if err != nil {
			return err
		}
		_, err = p.at.staged.addTurn(file, turn, "")
		return err
	}
	end, err := p.readEnd(line)
	if err != nil {
		return err
	}
	in := p.at
	p.at = nil
	if end.Deleted {
		in.staged.Abandon(im.Ctx)
		return nil
	}
	if !in.begin.LastActivity.IsZero() {
		in.staged.head.LastActivity = in.begin.LastActivity.UTC()
	}
	p.ended.add(in, line.Number)
	if p.ended.fill() {
		return p.reveal(im)
	}
	return nil
}

// ended holds sessions whose last lines were read and that become visible with the next commit.
type ended struct {
	sessions []*incoming
	last     int // number of the last line
	writes   int // waiting for the commit
	bytes    int // of all messages, so that a long session does not wait for others
}

func (e *ended) add(in *incoming, line int) {
	e.sessions, e.last = append(e.sessions, in), line
	e.writes, e.bytes = e.writes+in.staged.W.Writes()+headWrites, e.bytes+int(in.size)
}

// headWrites is the approximate number of records that a session has besides its messages.
const headWrites = 3

func (e *ended) fill() bool { return records.FillsCommit(e.writes, e.bytes) }

// reveal makes the completed sessions visible. It returns import_conflict if a project was deleted or an id was taken
// in the meantime.
func (p *Part) reveal(im *transfer.Importing) error {
	if len(p.ended.sessions) == 0 {
		return nil
	}
	err := im.Commit("session", p.ended.last, func(t *records.Tx) (int, error) {
		var of *project.Record
		for _, in := range p.ended.sessions {
			var err error
			if of == nil || of.ID != in.begin.Project {
				if of, err = p.Sessions.projects.Project(t, im.Caller, in.begin.Project); err != nil {
					return 0, err
				}
			}
			if err := in.reveal(t, of); err != nil {
				return 0, err
			}
		}
		return len(p.ended.sessions), nil
	})
	if err != nil {
		return err
	}
	size := int64(0)
	for _, in := range p.ended.sessions {
		size += in.size
	}
	p.ended = ended{}
	p.Sessions.MessageUse.Add(im.Caller.Tenant, records.Amount{Bytes: size})
	return nil
}

// reveal collects the writes that make the session visible in its project. It returns import_conflict.
func (in *incoming) reveal(t *records.Tx, of *project.Record) error {
	id := in.begin.ID
	if of.Incarnation != in.staged.project {
		return fault.Errorf(fault.Conflict, "import_conflict", "project %q was deleted meanwhile", of.ID)
	}
	before, err := records.GetTx[Head](t, records.Session.Key(of.Incarnation, id))
	if err != nil {
		return err
	}
	if in.taken(before) {
		return fault.Errorf(fault.Conflict, "import_conflict", "session %q was made meanwhile", id)
	}
	if before != nil {
		t.Put(records.SessionJob.Key(before.Incarnation), of.Incarnation[:])
		dropUnborn(t, of.Incarnation, id)
	}
	_, err = in.staged.putHead(t, of, id, in.begin.Summary)
	return err
}
