package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
)

// SessionFile is a session's transcript on its own: state/sessions/<session_id>.json.
type SessionFile struct {
	Version int          `json:"version"` // 1
	Session SessionSpec  `json:"session"`
	Created time.Time    `json:"created_at"`
	Turns   []FileTurn   `json:"turns"`
	Summary *FileSummary `json:"summary,omitempty"`
}

// FileSummary is the running summary of a SessionFile.
type FileSummary struct {
	Text  string    `json:"text"`
	Turns [2]uint32 `json:"covers_turns"`
	// Covers is how many of the file's first messages are behind it; Count those of them that it covers: all but
	// delegations'.
	Covers uint64 `json:"covers"`
	Count  uint64 `json:"covers_messages"`
	Model  string `json:"model,omitempty"`
	Prompt string `json:"prompt,omitempty"`
}

// FileTurn is one turn of a SessionFile.
type FileTurn struct {
	Turn      uint32        `json:"turn"`
	CreatedAt time.Time     `json:"created_at"`
	Messages  []FileMessage `json:"messages"`
}

// FileMessage is one message of a SessionFile: its JSON as posted, with what it took from its turn.
type FileMessage struct {
	Format     string          `json:"format"`
	Agent      string          `json:"agent,omitempty"`
	Delegation string          `json:"delegation_id,omitempty"`
	CreatedAt  time.Time       `json:"created_at"`
	Message    json.RawMessage `json:"message"`
}

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
	f.Summary, err = e.fileSummary(ctx, c.Tenant, h)
	return f, err
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
	size := int64(0)
	for _, turn := range turns {
		size += turn.size()
	}
	if err := e.checkQuota(ctx, c, size); err != nil {
		return Session{}, err
	}
	var staged *stagedSession
	s, err := update(ctx, e, c, once, func(t *tx) (Session, error) {
		p, err := t.project(c, projectID)
		if err != nil {
			return Session{}, err
		}
		r, err := e.setupOf(p)
		if err != nil {
			return Session{}, err
		}
		got, err := t.get(kindSession.Key(p.Incarnation, f.Session.ID))
		if err != nil {
			return Session{}, err
		}
		if got[0].Value != nil {
			return Session{}, errorf(Conflict, "session_exists",
				"session %q exists; delete it first or import under another id", f.Session.ID)
		}
		if staged == nil { // once, however often the commit below is tried
			if staged, err = e.stageSession(ctx, c, p, &f.Session, f.Created); err != nil {
				return Session{}, err
			}
			for _, turn := range turns {
				if err := e.stageTurn(staged, turn); err != nil {
					return Session{}, err
				}
			}
			if err := staged.flush(); err != nil {
				return Session{}, err
			}
		}
		h, err := staged.putHead(t, p, f.Session.ID, f.Summary)
		if err != nil {
			return Session{}, err
		}
		return h.session(f.Session.ID, r.encoding), nil
	})
	switch {
	case err == nil:
		e.messageUse.add(c.Tenant, amount{bytes: size})
	case staged != nil:
		staged.abandon(ctx)
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
	return turns, f.Summary.checkTurns(turns)
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

// put collects the file's summary, which is then the session's first.
func (f *FileSummary) put(t *tx, h *head) error {
	if f == nil {
		return nil
	}
	h.Summary = &summaryHead{Version: 1, Covers: f.Covers, Count: f.Count}
	return t.putJSON(kindSummary.Key(h.Incarnation, 1), summaryRecord{Text: f.Text, FirstTurn: f.Turns[0], LastTurn: f.Turns[1],
		Covers: f.Covers, Count: f.Count, Model: f.Model, Prompt: f.Prompt, Created: t.now})
}
