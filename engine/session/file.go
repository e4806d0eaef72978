package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// File is a session's transcript on its own: state/sessions/<session_id>.json.
type File struct {
	Version int          `json:"version"` // 1
	Session Spec         `json:"session"`
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

// Export gives a session as the file state/sessions/<session_id>.json.
func (svc *Service) Export(ctx context.Context, c access.Caller, projectID, id string) (File, error) {
	_, h, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return File{}, err
	}
	f := File{Version: 1, Session: Spec{ID: id, Kind: h.Kind, Agent: h.Agent, Title: h.Title},
		Created: h.Created,
		Turns:   []FileTurn{}}
	size := 0
	for first := uint64(1); first <= h.Messages; first += 64 {
		bodies, err := svc.ReadBodies(ctx, c.Tenant, h.Incarnation, first, min(first+63, h.Messages))
		if err != nil {
			return f, err
		}
		for i, body := range bodies {
			hd, m, err := ParseBody(body)
			if err != nil {
				if replaced, err := svc.replaced(ctx, c, projectID, id, h.Incarnation); err != nil {
					return File{}, err
				} else if replaced {
					return svc.Export(ctx, c, projectID, id)
				}
				return f, fault.Errorf(fault.Internal, "storage_damaged", "message %s cannot be read, so the export would not be whole",
					MessageID(h.Incarnation, first+uint64(i)))
			}
			if size += len(m.Raw) + messageOverhead; size > maxFile {
				return f, fault.Errorf(fault.TooLarge, "session_too_large",
					"the session holds more than %d bytes; page through its messages instead", maxFile)
			}
			f.add(hd, m)
		}
	}
	f.Summary, err = svc.fileSummary(ctx, c.Tenant, h)
	return f, err
}

func (f *File) add(h *Header, m *chat.Message) {
	if n := len(f.Turns); n == 0 || f.Turns[n-1].Turn != h.Turn {
		f.Turns = append(f.Turns, FileTurn{Turn: h.Turn, CreatedAt: records.TimeOf(h.Created), Messages: []FileMessage{}})
	}
	t := &f.Turns[len(f.Turns)-1]
	t.Messages = append(t.Messages, FileMessage{Format: m.Format.String(), Agent: h.Agent, Delegation: h.Delegation,
		CreatedAt: records.TimeOf(h.Created), Message: m.Raw})
}

// Import makes a session out of a file, whole or not at all: its messages are written under an incarnation
// that nobody can see until the last commit gives the session its head.
func (svc *Service) Import(ctx context.Context, c access.Caller, once access.Once, projectID string, f File) (Session,
	error) {
	turns, err := f.Parse()
	if err != nil {
		return Session{}, err
	}
	size := int64(0)
	for _, turn := range turns {
		size += turn.size()
	}
	if err := svc.checkQuota(ctx, c, size); err != nil {
		return Session{}, err
	}
	var staged *stagedSession
	s, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (Session, error) {
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil {
			return Session{}, err
		}
		r, err := svc.projects.SetupOf(p)
		if err != nil {
			return Session{}, err
		}
		got, err := t.Get(records.Session.Key(p.Incarnation, f.Session.ID))
		if err != nil {
			return Session{}, err
		}
		if got[0].Value != nil {
			return Session{}, fault.Errorf(fault.Conflict, "session_exists",
				"session %q exists; delete it first or import under another id", f.Session.ID)
		}
		if staged == nil { // once, however often the commit below is tried
			if staged, err = svc.stage(ctx, c, p, &f.Session, f.Created); err != nil {
				return Session{}, err
			}
			for _, turn := range turns {
				if err := svc.stageTurn(staged, turn); err != nil {
					return Session{}, err
				}
			}
			if err := staged.Flush(); err != nil {
				return Session{}, err
			}
		}
		h, err := staged.putHead(t, p, f.Session.ID, f.Summary)
		if err != nil {
			return Session{}, err
		}
		return h.Session(f.Session.ID, r.Encoding), nil
	})
	switch {
	case err == nil:
		svc.MessageUse.Add(c.Tenant, records.Amount{Bytes: size})
	case staged != nil:
		staged.Abandon(ctx)
	}
	return s, err
}

// Parse checks all of a file that does not depend on the store.
func (f *File) Parse() ([]*ParsedTurn, error) {
	if f.Version != 1 {
		return nil, fault.InvalidField("version", "invalid_value", "must be 1")
	}
	if err := f.Session.check(); err != nil {
		return nil, err
	}
	if err := ident.CheckID("session.id", f.Session.ID); err != nil {
		return nil, err
	}
	var turns []*ParsedTurn
	size := 0
	for i := range f.Turns {
		if f.Turns[i].Turn != uint32(i)+1 {
			return nil, fault.InvalidField("turns", "invalid_turn",
				"turn numbers must go up from 1 without a gap; the entry at %d says %d", i, f.Turns[i].Turn)
		}
		t, err := f.Turns[i].parse()
		if known := (*fault.Error)(nil); errors.As(err, &known) {
			known.Detail = fmt.Sprintf("turn %d: %s", f.Turns[i].Turn, known.Detail)
		}
		if err != nil {
			return nil, err
		}
		if len(t.Messages) == 0 {
			return nil, fault.InvalidField("turns", "invalid_turn", "turn %d has no message that can be stored", f.Turns[i].Turn)
		}
		for j := range t.Messages {
			size += len(t.Messages[j].Raw)
		}
		if size > maxFile {
			return nil, fault.Errorf(fault.TooLarge, "session_too_large", "the messages take more than %d bytes", maxFile)
		}
		turns = append(turns, t)
	}
	return turns, f.Summary.checkTurns(turns)
}

func (ft *FileTurn) parse() (*ParsedTurn, error) {
	t := &ParsedTurn{}
	if len(ft.Messages) == 0 || len(ft.Messages) > maxTurnMessages {
		return nil, fault.InvalidField("turns", "invalid_turn", "turn %d must have from 1 to %d messages", ft.Turn, maxTurnMessages)
	}
	for i := range ft.Messages {
		fm := &ft.Messages[i]
		format, err := ParseFormat(fm.Format, false)
		if err != nil {
			return nil, err
		}
		var skipped []Skipped
		parsed, err := ParseMessages(format, elementsOf(format, fm.Message), &skipped)
		if known := (*fault.Error)(nil); errors.As(err, &known) {
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
			t.Messages, t.created = append(t.Messages, *m), append(t.created, at)
		}
	}
	return t, nil
}

// put collects the file's summary, which is then the session's first.
func (f *FileSummary) put(t *records.Tx, h *Head) error {
	if f == nil {
		return nil
	}
	h.Summary = &SummaryHead{Version: 1, Covers: f.Covers, Count: f.Count}
	return t.PutJSON(records.Summary.Key(h.Incarnation, 1), SummaryRecord{Text: f.Text, FirstTurn: f.Turns[0], LastTurn: f.Turns[1],
		Covers: f.Covers, Count: f.Count, Model: f.Model, Prompt: f.Prompt, Created: t.Now})
}
