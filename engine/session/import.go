package session

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// Part is what a tenant's file holds of sessions.
type Part struct {
	E     *Service
	at    *sessionImport // the session at hand
	bytes int64          // of messages, that the file adds
}

func (*Part) Types() []string { return []string{"session", "turn", "session_end"} }

// sessionImport is a session on its way in.
type sessionImport struct {
	line   line
	turns  uint32
	size   int64     // of its messages, in bytes
	open   OpenCalls // these while it is checked
	seen   covering
	staged *stagedSession // this while it is stored
}

// taken tells whether the session's id is another's. An empty dashboard is nobody's.
func (s *line) taken(h *Head) bool { return h != nil && (s.ID != ident.DefaultSession || h.Turns > 0) }

func (p *Part) Check(im *transfer.Importing, line *transfer.ImportLine) error {
	switch line.Kind {
	case "session":
		return p.checkBegin(im, line)
	case "turn":
		turn, err := p.turn(line)
		if err != nil {
			return err
		}
		return p.at.follow(turn)
	}
	end, err := p.finish(line)
	if err == nil && !end.Deleted {
		if !line.Stored {
			p.bytes += p.at.size
		}
		err = p.at.line.Summary.within(p.at.seen)
	}
	p.at = nil
	return err
}

func (p *Part) checkBegin(im *transfer.Importing, line *transfer.ImportLine) error {
	s, err := p.begin(line)
	if err != nil {
		return err
	}
	if err := s.line.Spec.check(); err != nil {
		return err
	}
	if err := ident.CheckID("id", s.line.ID); err != nil {
		return err
	}
	if err := im.Needs("project", s.line.Project); err != nil {
		return err
	}
	if err := im.Claim("session", s.line.Project, s.line.ID); err != nil {
		return err
	}
	_, h, _, err := p.E.ReadHead(im.Ctx, im.Caller, s.line.Project, s.line.ID)
	if fault.IsNotFound(err) { // the project is yet to be made
		return nil
	}
	if err == nil && s.line.taken(h) {
		im.Conflict(line, "session %q of project %q exists", s.line.ID, s.line.Project)
	}
	return err
}

// begin reads a session's first line.
func (p *Part) begin(line *transfer.ImportLine) (*sessionImport, error) {
	if p.at != nil {
		return nil, fault.Errorf(fault.Invalid, "invalid_export", "the session before has no end")
	}
	p.at = new(sessionImport)
	return p.at, line.Into(&p.at.line)
}

// turn reads the next turn of the session at hand.
func (p *Part) turn(line *transfer.ImportLine) (*ParsedTurn, error) {
	if p.at == nil {
		return nil, fault.Errorf(fault.Invalid, "invalid_export", "a turn without a session")
	}
	var in turnLine
	if err := line.Into(&in); err != nil {
		return nil, err
	}
	if p.at.turns++; in.Turn != p.at.turns {
		return nil, fault.InvalidField("turn", "invalid_turn", "turn numbers must go up from 1 without a gap; %d is next",
			p.at.turns)
	}
	file := FileTurn{Turn: in.Turn}
	for _, m := range in.Messages {
		if m.Text != "" {
			m.Message = json.RawMessage(m.Text)
		}
		file.Messages = append(file.Messages, m.FileMessage)
	}
	turn, err := file.parse()
	if err == nil && len(turn.Messages) == 0 {
		err = fault.InvalidField("turn", "invalid_turn", "turn %d has no message that can be stored", in.Turn)
	}
	if err == nil {
		p.at.size += turn.size()
	}
	return turn, err
}

// follow finds the call that each result answers, as storing the turn will.
func (s *sessionImport) follow(t *ParsedTurn) error {
	var bad []chat.FieldError
	for i := range t.Messages {
		seq := s.seen.messages + uint64(i) + 1
		m := t.Messages[i].Message
		if problem := s.open.follow(&m, &Header{Seq: seq, Call: seq, Turn: s.turns}); problem != nil {
			problem.Index = t.Messages[i].Index
			bad = append(bad, *problem)
		}
	}
	s.seen.add(s.line.Summary, t)
	if len(bad) > 0 {
		return refuseMessages(bad)
	}
	return nil
}

// finish reads a session's last line.
func (p *Part) finish(line *transfer.ImportLine) (end end, err error) {
	if p.at == nil {
		return end, fault.Errorf(fault.Invalid, "invalid_export", "the end of a session that was not begun")
	}
	if err := line.Into(&end); err != nil {
		return end, err
	}
	if end.Turns != p.at.turns {
		return end, fault.InvalidField("turns", "invalid_turn", "the session ends with %d turns, the file has %d", end.Turns,
			p.at.turns)
	}
	return end, nil
}

func (p *Part) Fits(im *transfer.Importing) error { return p.E.checkQuota(im.Ctx, im.Caller, p.bytes) }

func (p *Part) End(*transfer.Importing) error {
	if p.at != nil {
		return fault.Errorf(fault.Invalid, "invalid_export", "the last session has no end")
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
	switch line.Kind {
	case "session":
		s, err := p.begin(line)
		if err != nil {
			return err
		}
		project, _, _, err := p.E.ReadHead(im.Ctx, im.Caller, s.line.Project, s.line.ID)
		if err != nil {
			return err
		}
		s.staged, err = p.E.stage(im.Ctx, im.Caller, project, &s.line.Spec, s.line.Created)
		return err
	case "turn":
		turn, err := p.turn(line)
		if err != nil {
			return err
		}
		return p.E.stageTurn(p.at.staged, turn)
	}
	end, err := p.finish(line)
	if err == nil {
		err = p.reveal(im, line, end)
	}
	if err == nil {
		p.at = nil
	}
	return err
}

// reveal makes the session one that is seen, or forgets one that was deleted while it was being exported.
func (p *Part) reveal(im *transfer.Importing, line *transfer.ImportLine, end end) error {
	s := p.at
	if end.Deleted {
		s.staged.Abandon(im.Ctx)
		return nil
	}
	if err := s.staged.Flush(); err != nil {
		return err
	}
	if !s.line.LastActivity.IsZero() {
		s.staged.head.LastActivity = s.line.LastActivity.UTC()
	}
	err := im.Commit("session", line.Number, func(t *records.Tx) (int, error) {
		project, err := p.E.projects.Project(t, im.Caller, s.line.Project)
		if err != nil {
			return 0, err
		}
		if project.Incarnation != s.staged.project {
			return 0, fault.Errorf(fault.Conflict, "import_conflict", "project %q was deleted meanwhile", project.ID)
		}
		got, err := t.Get(records.Session.Key(project.Incarnation, s.line.ID))
		if err != nil {
			return 0, err
		}
		if got[0].Value != nil {
			before := new(Head)
			if err := json.Unmarshal(got[0].Value, before); err != nil {
				return 0, err
			}
			if s.line.taken(before) {
				return 0, fault.Errorf(fault.Conflict, "import_conflict", "session %q was made meanwhile", s.line.ID)
			}
			t.Put(records.SessionJob.Key(before.Incarnation), project.Incarnation[:])
			dropUnborn(t, project.Incarnation, s.line.ID)
		}
		_, err = s.staged.putHead(t, project, s.line.ID, s.line.Summary)
		return 1, err
	})
	if err == nil {
		p.E.MessageUse.Add(im.Caller.Tenant, records.Amount{Bytes: s.size})
	}
	return err
}
