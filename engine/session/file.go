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
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// File is a session's transcript on its own: state/sessions/<session_id>.json.
type File struct {
	Version int          `json:"version"` // 1
	Session Spec         `json:"session"`
	Created time.Time    `json:"created_at"`
	Turns   []FileTurn   `json:"turns"`
	Summary *FileSummary `json:"summary,omitempty"`
}

// FileTurn is one turn of a session in a file.
type FileTurn struct {
	Turn      uint32        `json:"turn"`
	CreatedAt time.Time     `json:"created_at"`
	Messages  []FileMessage `json:"messages"`
}

// FileMessage is one message of a session in a file: its JSON as posted, with what it took from its turn.
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

// Export gives a session as the file state/sessions/<session_id>.json. It answers not_found, storage_damaged where a
// message cannot be read, and session_too_large.
func (svc *Service) Export(ctx context.Context, c access.Caller, projectID, id string) (File, error) {
	_, h, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return File{}, err
	}
	f := File{Version: 1, Session: h.spec(id), Created: h.Created, Turns: []FileTurn{}}
	size := 0
	err = svc.eachTurn(ctx, c.Tenant, h.Extent(), func(t FileTurn) error {
		for i := range t.Messages {
			size += len(t.Messages[i].Message) + messageOverhead
		}
		if size > maxFile {
			return fault.Errorf(fault.TooLarge, "session_too_large",
				"the session holds more than %d bytes; page through its messages instead", maxFile)
		}
		f.Turns = append(f.Turns, t)
		return nil
	})
	if err != nil {
		if replaced, gone := svc.replaced(ctx, c, projectID, id, h.Incarnation); gone != nil {
			return File{}, gone
		} else if replaced {
			return svc.Export(ctx, c, projectID, id)
		}
		return f, err
	}
	f.Summary, err = svc.fileSummary(ctx, c.Tenant, h)
	return f, err
}

// spec is what makes a session like this one, without what was said in it.
func (h *Head) spec(id string) Spec {
	return Spec{ID: id, Kind: h.Kind, Agent: h.Agent, Title: h.Title}
}

// eachTurn visits the turns of an extent in order, as files keep them. It answers storage_damaged where a message
// cannot be read.
func (svc *Service) eachTurn(ctx context.Context, tenant string, x transcript.Extent, visit func(FileTurn) error,
) error {
	var turn FileTurn
	err := svc.EachMessage(ctx, tenant, x, func(h *transcript.Header, m *chat.Message) error {
		at := records.TimeOf(h.Created)
		if h.Turn != turn.Turn {
			if turn.Turn > 0 {
				if err := visit(turn); err != nil {
					return err
				}
			}
			turn = FileTurn{Turn: h.Turn, CreatedAt: at}
		}
		turn.Messages = append(turn.Messages, FileMessage{Format: m.Format.String(), Agent: h.Agent,
			Delegation: h.Delegation, CreatedAt: at, Message: m.Raw})
		return nil
	})
	if err == nil && turn.Turn > 0 {
		err = visit(turn)
	}
	return err
}

// Parse checks all of a file that does not depend on the store, and gives its turns. It answers invalid_value where the
// version is not 1, invalid_turn, invalid_messages, session_too_large, and what is wrong with the summary.
func (f *File) Parse() ([]*transcript.Turn, error) {
	if f.Version != 1 {
		return nil, fault.InvalidField("version", "invalid_value", "must be 1")
	}
	if err := f.Session.check(); err != nil {
		return nil, err
	}
	if err := ident.CheckID("session.id", f.Session.ID); err != nil {
		return nil, err
	}
	var turns []*transcript.Turn
	var seen covering
	size := int64(0)
	for i := range f.Turns {
		if f.Turns[i].Turn != uint32(i)+1 {
			return nil, fault.InvalidField("turns", "invalid_turn",
				"turn numbers must go up from 1 without a gap; the entry at %d says %d", i, f.Turns[i].Turn)
		}
		t, err := f.Turns[i].parse()
		if err != nil {
			if known, ok := errors.AsType[*fault.Error](err); ok {
				known.Detail = fmt.Sprintf("turn %d: %s", f.Turns[i].Turn, known.Detail)
			}
			return nil, err
		}
		if size += t.Bytes(); size > maxFile {
			return nil, fault.Errorf(fault.TooLarge, "session_too_large", "the messages take more than %d bytes",
				maxFile)
		}
		seen.add(f.Summary, t)
		turns = append(turns, t)
	}
	return turns, f.Summary.within(seen)
}

// parse reads a turn's messages. Each has the time that the file says: its own, else its turn's, else the year 1970.
func (ft *FileTurn) parse() (*transcript.Turn, error) {
	if len(ft.Messages) == 0 || len(ft.Messages) > maxTurnMessages {
		return nil, fault.InvalidField("turns", "invalid_turn", "must have from 1 to %d messages", maxTurnMessages)
	}
	t := new(transcript.Turn)
	for i := range ft.Messages {
		fm := &ft.Messages[i]
		format, err := transcript.ParseFormat(fm.Format, false)
		if err != nil {
			return nil, err
		}
		parsed, _, err := transcript.ParseMessages(format, transcript.Elements(format, fm.Message))
		if err != nil {
			if known, ok := errors.AsType[*fault.Error](err); ok {
				for j := range known.Fields {
					known.Fields[j].Index = &i
				}
			}
			return nil, err
		}
		for _, m := range parsed {
			if m.Index = i; fm.Agent != "" {
				m.Agent = fm.Agent
			}
			if fm.Delegation != "" {
				m.Delegation = fm.Delegation
			}
			m.CreatedAt = time.UnixMilli(0)
			for _, at := range []time.Time{ft.CreatedAt, fm.CreatedAt} {
				if !at.IsZero() {
					m.CreatedAt = at
				}
			}
			t.Messages = append(t.Messages, m)
		}
	}
	if len(t.Messages) == 0 {
		return nil, fault.InvalidField("turns", "invalid_turn", "it has no message that can be stored")
	}
	return t, nil
}
