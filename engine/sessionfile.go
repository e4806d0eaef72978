package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxFile bounds a session's file, in bytes: what is exported can be imported again.
const maxFile = 64 << 20

// messageOverhead is what a file says of a message beside its JSON, in bytes, generously.
const messageOverhead = 512

// ExportSession gives a session as the file state/sessions/<session_id>.json.
func (e *Engine) ExportSession(ctx context.Context, c Caller, projectID, id string) (SessionFile, error) {
	_, h, err := e.existing(ctx, c, projectID, id)
	if err != nil {
		return SessionFile{}, err
	}
	f := SessionFile{Version: 1, Session: SessionSpec{ID: id, Kind: h.Kind, Agent: h.Agent, Title: h.Title},
		Created: h.Created,
		Turns:   []FileTurn{}}
	size := 0
	for first := uint64(1); first <= h.Messages; first += 64 {
		bodies, err := e.readBodies(ctx, c.Tenant, h.Incarnation, first, min(first+63, h.Messages))
		if err != nil {
			return f, err
		}
		for i, body := range bodies {
			hd, m, err := parseBody(body)
			if err != nil {
				if replaced, err := e.replaced(ctx, c, projectID, id, h.Incarnation); err != nil {
					return SessionFile{}, err
				} else if replaced {
					return e.ExportSession(ctx, c, projectID, id)
				}
				return f, errorf(Internal, "storage_damaged", "message %s cannot be read, so the export would not be whole",
					messageID(h.Incarnation, first+uint64(i)))
			}
			if size += len(m.Raw) + messageOverhead; size > maxFile {
				return f, errorf(TooLarge, "session_too_large",
					"the session holds more than %d bytes; page through its messages instead", maxFile)
			}
			f.add(hd, m)
		}
	}
	return f, nil
}

func (f *SessionFile) add(h *header, m *chat.Message) {
	if n := len(f.Turns); n == 0 || f.Turns[n-1].Turn != h.turn {
		f.Turns = append(f.Turns, FileTurn{Turn: h.turn, CreatedAt: timeOf(h.created), Messages: []FileMessage{}})
	}
	t := &f.Turns[len(f.Turns)-1]
	t.Messages = append(t.Messages, FileMessage{Format: m.Format.String(), Agent: h.agent, Delegation: h.delegation,
		CreatedAt: timeOf(h.created), Message: m.Raw})
}

// ImportSession makes a session out of a file, whole or not at all: its messages are written under an incarnation
// that nobody can see until the last commit gives the session its head.
func (e *Engine) ImportSession(ctx context.Context, c Caller, once Once, projectID string, f SessionFile) (Session,
	error) {
	turns, err := f.parse()
	if err != nil {
		return Session{}, err
	}
	staged := &staging{turns: turns}
	s, err := update(ctx, e, c, once, func(t *tx) (Session, error) {
		p, err := t.project(c, projectID)
		if err != nil {
			return Session{}, err
		}
		r, err := e.resolve(p)
		if err != nil {
			return Session{}, err
		}
		key := headKey(p.Incarnation, f.Session.ID)
		got, err := t.get(key)
		if err != nil {
			return Session{}, err
		}
		if got[0].Value != nil {
			return Session{}, errorf(Conflict, "session_exists",
				"session %q exists; delete it first or import under another id", f.Session.ID)
		}
		h, err := staged.write(t, c, p, &f)
		if err != nil {
			return Session{}, err
		}
		// A job that ran out is taken by the sweep: what was written may be gone already.
		t.batch.Expect = append(t.batch.Expect, store.Expect{Key: staged.job, Value: staged.project[:]})
		t.delete(staged.job)
		if err := t.putOpenCalls(p, f.Session.ID, h, &staged.open); err != nil {
			return Session{}, err
		}
		return h.session(f.Session.ID, r.encoding), t.putJSON(key, h)
	})
	if err != nil && staged.head != nil {
		// What was written is swept. Where this fails too, the job does it later.
		sweep := store.Batch{Delete: [][]byte{staged.job},
			Put: []store.Pair{{Key: sweepKey(sweepSession, staged.head.Incarnation[:]), Value: staged.project[:]}}}
		if serr := e.commit(ctx, c.Tenant, sweep); serr != nil {
			e.log.Error("sweeping a failed import; it is tried again later", "error", serr)
		}
		e.poke()
	}
	return s, err
}

// parse checks all of a file that does not depend on the store.
func (f *SessionFile) parse() ([]*parsedTurn, error) {
	if f.Version != 1 {
		return nil, invalidField("version", "invalid_value", "must be 1")
	}
	if err := f.Session.check(); err != nil {
		return nil, err
	}
	if err := checkID("session.id", f.Session.ID); err != nil {
		return nil, err
	}
	var turns []*parsedTurn
	size := 0
	for i := range f.Turns {
		if f.Turns[i].Turn != uint32(i)+1 {
			return nil, invalidField("turns", "invalid_turn",
				"turn numbers must go up from 1 without a gap; the entry at %d says %d", i, f.Turns[i].Turn)
		}
		t, err := f.Turns[i].parse()
		if known := (*Error)(nil); errors.As(err, &known) {
			known.Detail = fmt.Sprintf("turn %d: %s", f.Turns[i].Turn, known.Detail)
		}
		if err != nil {
			return nil, err
		}
		if len(t.messages) == 0 {
			return nil, invalidField("turns", "invalid_turn", "turn %d has no message that can be stored", f.Turns[i].Turn)
		}
		for j := range t.messages {
			size += len(t.messages[j].Raw)
		}
		if size > maxFile {
			return nil, errorf(TooLarge, "session_too_large", "the messages take more than %d bytes", maxFile)
		}
		turns = append(turns, t)
	}
	return turns, nil
}

func (ft *FileTurn) parse() (*parsedTurn, error) {
	t := &parsedTurn{}
	if len(ft.Messages) == 0 || len(ft.Messages) > maxTurnMessages {
		return nil, invalidField("turns", "invalid_turn", "turn %d must have from 1 to %d messages", ft.Turn, maxTurnMessages)
	}
	for i := range ft.Messages {
		fm := &ft.Messages[i]
		format, err := parseFormat(fm.Format, false)
		if err != nil {
			return nil, err
		}
		var skipped []Skipped
		parsed, err := parseMessages(format, elementsOf(format, fm.Message), &skipped)
		if known := (*Error)(nil); errors.As(err, &known) {
			for j := range known.Fields {
				known.Fields[j].Index = &i
			}
		}
		if err != nil {
			return nil, err
		}
		for j := range parsed {
			m := &parsed[j]
			if m.Index = i; fm.Agent != "" {
				m.Agent = fm.Agent
			}
			if fm.Delegation != "" {
				m.Delegation = fm.Delegation
			}
			at := fm.CreatedAt
			if at.IsZero() {
				if at = ft.CreatedAt; at.IsZero() {
					at = time.UnixMilli(0)
				}
			}
			t.messages, t.created = append(t.messages, *m), append(t.created, at)
		}
	}
	return t, nil
}

// importLife is how long an import may take before what it wrote is swept.
const importLife = time.Hour

// A commit of an import is sent once it holds this many records or bytes.
const (
	stagedWrites = 1000
	stagedBytes  = 1 << 20
)

// staging is an import whose messages are written but not yet a session.
type staging struct {
	turns   []*parsedTurn
	head    *head
	open    openCalls
	project incarnation
	job     []byte
}

// write commits the turns where nobody sees them, behind a job that would sweep them away again, once.
func (s *staging) write(t *tx, c Caller, p *project, f *SessionFile) (*head, error) {
	if s.head != nil {
		h := *s.head
		return &h, nil
	}
	s.head, s.project = f.Session.head(t.e, t.now), p.Incarnation
	if !f.Created.IsZero() {
		s.head.Created = f.Created.UTC()
	}
	s.open.Incarnation = s.head.Incarnation
	s.job = stagedKey(t.now.Add(importLife), s.head.Incarnation)
	job := store.Batch{Expect: []store.Expect{{Key: liveKey, Value: t.live[:]}},
		Put: []store.Pair{{Key: s.job, Value: p.Incarnation[:]}}}
	if err := t.e.commit(t.ctx, c.Tenant, job); err != nil {
		return nil, err
	}
	w := &tx{ctx: t.ctx, e: t.e, tenant: c.Tenant, now: t.now}
	for i, turn := range s.turns {
		if _, err := turn.write(w, s.head, &s.open); err != nil {
			return nil, err
		}
		// As many turns as one commit holds well, so that a long session does not wait for the disk once a turn.
		if i+1 < len(s.turns) && w.writes() < stagedWrites && w.bytes() < stagedBytes {
			continue
		}
		if err := t.e.commit(t.ctx, c.Tenant, w.batch); err != nil {
			return nil, err
		}
		w.batch = store.Batch{}
	}
	h := *s.head
	return &h, nil
}
