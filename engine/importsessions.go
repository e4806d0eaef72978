package engine

import (
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/chat"
)

// sessionImport is a session on its way in.
type sessionImport struct {
	line   sessionLine
	turns  uint32
	skip   bool
	size   int64     // of its messages, in bytes
	open   openCalls // these while it is checked
	seen   covering
	staged *staging // this while it is stored
}

// taken tells whether the session's id is another's. An empty dashboard is nobody's.
func (s *sessionLine) taken(h *head) bool { return h != nil && (s.ID != DefaultSession || h.Turns > 0) }

func checkSession(im *importing, line *importLine) error {
	switch line.kind {
	case "session":
		return im.beginCheck(line)
	case "turn":
		turn, err := im.turn(line)
		if err != nil {
			return err
		}
		return im.session.follow(turn)
	}
	end, err := im.sessionEnd(line)
	if err == nil && !end.Deleted {
		im.messageBytes += im.session.size
		err = im.session.line.Summary.within(im.session.seen)
	}
	im.session = nil
	return err
}

func (im *importing) beginCheck(line *importLine) error {
	s, err := im.beginSession(line)
	if err != nil {
		return err
	}
	if err := s.line.SessionSpec.check(); err != nil {
		return err
	}
	if err := checkID("id", s.line.ID); err != nil {
		return err
	}
	if !im.projects[s.line.Project] {
		return invalidField("project", "unknown_project", "no project %q comes before it in the file", s.line.Project)
	}
	// The order of an export, by which a session that comes twice shows.
	at := [2]string{s.line.Project, s.line.ID}
	if slices.Compare(im.lastSession[:], at[:]) >= 0 {
		return invalidField("id", "out_of_order", "sessions must go up by project and id; %q follows %q", at, im.lastSession)
	}
	im.lastSession = at
	_, h, _, err := im.e.readHead(im.ctx, im.caller, s.line.Project, s.line.ID)
	if isNotFound(err) { // the project is yet to be made
		return nil
	}
	if err == nil && s.line.taken(h) {
		im.conflict("session %q of project %q exists", s.line.ID, s.line.Project)
	}
	return err
}

// beginSession reads a session's first line.
func (im *importing) beginSession(line *importLine) (*sessionImport, error) {
	if im.session != nil {
		return nil, errorf(Invalid, "invalid_export", "the session before has no end")
	}
	s := new(sessionImport)
	im.session = s
	return s, line.into(&s.line)
}

// turn reads the next turn of the session at hand.
func (im *importing) turn(line *importLine) (*parsedTurn, error) {
	if im.session == nil {
		return nil, errorf(Invalid, "invalid_export", "a turn without a session")
	}
	var in turnLine
	if err := line.into(&in); err != nil {
		return nil, err
	}
	if im.session.turns++; in.Turn != im.session.turns {
		return nil, invalidField("turn", "invalid_turn", "turn numbers must go up from 1 without a gap; %d is next",
			im.session.turns)
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
		im.session.size += turn.size()
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

func (im *importing) sessionEnd(line *importLine) (end sessionEnd, err error) {
	if im.session == nil {
		return end, errorf(Invalid, "invalid_export", "the end of a session that was not begun")
	}
	if err := line.into(&end); err != nil {
		return end, err
	}
	if end.Turns != im.session.turns {
		return end, invalidField("turns", "invalid_turn", "the session ends with %d turns, the file has %d", end.Turns,
			im.session.turns)
	}
	return end, nil
}

func storeSession(im *importing, line *importLine) error {
	switch line.kind {
	case "session":
		return im.beginStore(line)
	case "turn":
		if im.session.skip {
			im.session.turns++
			return nil
		}
		turn, err := im.turn(line)
		if err != nil {
			return err
		}
		return im.session.staged.add(turn)
	}
	end, err := im.sessionEnd(line)
	if err == nil && !im.session.skip {
		err = im.endStore(end)
	}
	if err == nil {
		im.session = nil
	}
	return err
}

// beginStore stages the session, unless it is to be left as it is.
func (im *importing) beginStore(line *importLine) error {
	s, err := im.beginSession(line)
	if err != nil {
		return err
	}
	t := im.tx()
	if err := t.expectLive(im.caller); err != nil {
		return err
	}
	p, h, _, err := im.e.readHead(im.ctx, im.caller, s.line.Project, s.line.ID)
	if err != nil {
		return err
	}
	if s.line.taken(h) && im.mode == conflictSkip {
		s.skip = true
		im.note("skipped", "session")
		return nil
	}
	s.staged, err = t.stage(p, &s.line.SessionSpec, s.line.Created)
	return err
}

// endStore makes the session one that is seen, or forgets one that was deleted while it was being exported.
func (im *importing) endStore(end sessionEnd) error {
	s := im.session
	if end.Deleted {
		im.e.abandon(im.ctx, im.caller.Tenant, s.staged)
		return nil
	}
	if err := s.staged.flush(); err != nil {
		return err
	}
	if !s.line.LastActivity.IsZero() {
		s.staged.head.LastActivity = s.line.LastActivity.UTC()
	}
	how := "imported"
	freed := uint64(0)
	_, err := update(im.ctx, im.e, im.caller, Once{}, func(t *tx) (struct{}, error) {
		p, err := t.project(im.caller, s.line.Project)
		if err != nil {
			return struct{}{}, err
		}
		if p.Incarnation != s.staged.project {
			return struct{}{}, errorf(Conflict, "import_conflict", "project %q was deleted meanwhile", p.ID)
		}
		got, err := t.get(headKey(p.Incarnation, s.line.ID))
		if err != nil {
			return struct{}{}, err
		}
		var before *head
		if got[0].Value != nil {
			before = new(head)
			if err := json.Unmarshal(got[0].Value, before); err != nil {
				return struct{}{}, err
			}
			taken := s.line.taken(before)
			if taken && im.mode != conflictReplace {
				return struct{}{}, errorf(Conflict, "import_conflict", "session %q was made meanwhile", s.line.ID)
			}
			if freed = before.Bytes; taken {
				how = "replaced"
			}
		}
		_, err = t.reveal(s.staged, p, s.line.ID, s.line.Summary, before)
		return struct{}{}, err
	})
	if err == nil {
		im.note(how, "session")
		im.e.messageUse.add(im.caller.Tenant, amount{bytes: s.size - int64(freed)})
	}
	return err
}
