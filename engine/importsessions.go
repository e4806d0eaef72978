package engine

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/chat"
)

// sessionPart is what a tenant's file holds of sessions.
type sessionPart struct {
	e     *Engine
	at    *sessionImport // the session at hand
	bytes int64          // of messages, that the file adds
}

func (*sessionPart) types() []string { return []string{"session", "turn", "session_end"} }

// sessionImport is a session on its way in.
type sessionImport struct {
	line   sessionLine
	turns  uint32
	size   int64     // of its messages, in bytes
	open   openCalls // these while it is checked
	seen   covering
	staged *stagedSession // this while it is stored
}

// taken tells whether the session's id is another's. An empty dashboard is nobody's.
func (s *sessionLine) taken(h *head) bool { return h != nil && (s.ID != DefaultSession || h.Turns > 0) }

func (p *sessionPart) check(im *importing, line *importLine) error {
	switch line.kind {
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
		if !line.stored {
			p.bytes += p.at.size
		}
		err = p.at.line.Summary.within(p.at.seen)
	}
	p.at = nil
	return err
}

func (p *sessionPart) checkBegin(im *importing, line *importLine) error {
	s, err := p.begin(line)
	if err != nil {
		return err
	}
	if err := s.line.SessionSpec.check(); err != nil {
		return err
	}
	if err := checkID("id", s.line.ID); err != nil {
		return err
	}
	if err := im.needs("project", s.line.Project); err != nil {
		return err
	}
	if err := im.claim("session", s.line.Project, s.line.ID); err != nil {
		return err
	}
	_, h, _, err := p.e.readHead(im.ctx, im.caller, s.line.Project, s.line.ID)
	if isNotFound(err) { // the project is yet to be made
		return nil
	}
	if err == nil && s.line.taken(h) {
		im.conflict(line, "session %q of project %q exists", s.line.ID, s.line.Project)
	}
	return err
}

// begin reads a session's first line.
func (p *sessionPart) begin(line *importLine) (*sessionImport, error) {
	if p.at != nil {
		return nil, errorf(Invalid, "invalid_export", "the session before has no end")
	}
	p.at = new(sessionImport)
	return p.at, line.into(&p.at.line)
}

// turn reads the next turn of the session at hand.
func (p *sessionPart) turn(line *importLine) (*parsedTurn, error) {
	if p.at == nil {
		return nil, errorf(Invalid, "invalid_export", "a turn without a session")
	}
	var in turnLine
	if err := line.into(&in); err != nil {
		return nil, err
	}
	if p.at.turns++; in.Turn != p.at.turns {
		return nil, invalidField("turn", "invalid_turn", "turn numbers must go up from 1 without a gap; %d is next",
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
	if err == nil && len(turn.messages) == 0 {
		err = invalidField("turn", "invalid_turn", "turn %d has no message that can be stored", in.Turn)
	}
	if err == nil {
		p.at.size += turn.size()
	}
	return turn, err
}

// follow finds the call that each result answers, as storing the turn will.
func (s *sessionImport) follow(t *parsedTurn) error {
	var bad []chat.FieldError
	for i := range t.messages {
		seq := s.seen.messages + uint64(i) + 1
		m := t.messages[i].Message
		if problem := s.open.follow(&m, &header{seq: seq, call: seq, turn: s.turns}); problem != nil {
			problem.Index = t.messages[i].Index
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
func (p *sessionPart) finish(line *importLine) (end sessionEnd, err error) {
	if p.at == nil {
		return end, errorf(Invalid, "invalid_export", "the end of a session that was not begun")
	}
	if err := line.into(&end); err != nil {
		return end, err
	}
	if end.Turns != p.at.turns {
		return end, invalidField("turns", "invalid_turn", "the session ends with %d turns, the file has %d", end.Turns,
			p.at.turns)
	}
	return end, nil
}

func (p *sessionPart) fits(im *importing) error { return p.e.checkQuota(im.ctx, im.caller, p.bytes) }

func (p *sessionPart) end(*importing) error {
	if p.at != nil {
		return errorf(Invalid, "invalid_export", "the last session has no end")
	}
	return nil
}

func (p *sessionPart) abandon(ctx context.Context) {
	if p.at != nil && p.at.staged != nil {
		p.at.staged.abandon(ctx)
	}
}

func (p *sessionPart) store(im *importing, line *importLine) error {
	if line.stored {
		return nil
	}
	switch line.kind {
	case "session":
		s, err := p.begin(line)
		if err != nil {
			return err
		}
		project, _, _, err := p.e.readHead(im.ctx, im.caller, s.line.Project, s.line.ID)
		if err != nil {
			return err
		}
		s.staged, err = p.e.stageSession(im.ctx, im.caller, project, &s.line.SessionSpec, s.line.Created)
		return err
	case "turn":
		turn, err := p.turn(line)
		if err != nil {
			return err
		}
		return p.e.stageTurn(p.at.staged, turn)
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
func (p *sessionPart) reveal(im *importing, line *importLine, end sessionEnd) error {
	s := p.at
	if end.Deleted {
		s.staged.abandon(im.ctx)
		return nil
	}
	if err := s.staged.flush(); err != nil {
		return err
	}
	if !s.line.LastActivity.IsZero() {
		s.staged.head.LastActivity = s.line.LastActivity.UTC()
	}
	err := im.commit("session", line.number, func(t *tx) (int, error) {
		project, err := t.project(im.caller, s.line.Project)
		if err != nil {
			return 0, err
		}
		if project.Incarnation != s.staged.project {
			return 0, errorf(Conflict, "import_conflict", "project %q was deleted meanwhile", project.ID)
		}
		got, err := t.get(kindSession.Key(project.Incarnation, s.line.ID))
		if err != nil {
			return 0, err
		}
		if got[0].Value != nil {
			before := new(head)
			if err := json.Unmarshal(got[0].Value, before); err != nil {
				return 0, err
			}
			if s.line.taken(before) {
				return 0, errorf(Conflict, "import_conflict", "session %q was made meanwhile", s.line.ID)
			}
			t.put(kindSessionJob.Key(before.Incarnation), project.Incarnation[:])
			t.dropUnborn(project.Incarnation, s.line.ID)
		}
		_, err = s.staged.putHead(t, project, s.line.ID, s.line.Summary)
		return 1, err
	})
	if err == nil {
		p.e.messageUse.add(im.caller.Tenant, amount{bytes: s.size})
	}
	return err
}
