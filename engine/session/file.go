package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// File is the transcript of one session as a file: state/sessions/<session_id>.json.
type File struct {
	Version int          `json:"version"` // 1
	Session Spec         `json:"session"`
	Created time.Time    `json:"created_at"`
	Turns   []FileTurn   `json:"turns"`
	Summary *FileSummary `json:"summary,omitempty"`
	Mode    string       `json:"mode,omitempty"` // as in a TurnRequest; exports leave it out
}

// FileTurn is one turn of a session in a file, or a part that was added to it later.
type FileTurn struct {
	Turn      uint32    `json:"turn"`
	CreatedAt time.Time `json:"created_at"`
	// Continues means that the messages were added to an earlier turn. Superseded means that a rewind took the turn
	// back; such a turn may have no messages, and then only reserves its number. Removed means that it is superseded
	// because a client removed it, so that it lives again once the client sends it again.
	Continues  bool          `json:"continues,omitempty"`
	Superseded bool          `json:"superseded,omitempty"`
	Removed    bool          `json:"removed,omitempty"`
	Messages   []FileMessage `json:"messages"`
}

// FileMessage is one message of a session in a file: its JSON as posted, with the fields it inherited from its turn.
type FileMessage struct {
	Format     string        `json:"format"`
	Agent      string        `json:"agent,omitempty"`
	Delegation string        `json:"delegation_id,omitempty"`
	CreatedAt  time.Time     `json:"created_at"`
	Made       *prefix.Place `json:"made,omitempty"` // the prompt that a model answered with the message; nil if unknown
	// Removed means that a client removed the message from its turn. It lives again once the client sends it again.
	Removed bool `json:"removed,omitempty"`
	// Reminder is what windows showed before the message, or before an earlier one; nil if nothing.
	Reminder *reminder.Bound `json:"reminder,omitempty"`
	// SourceIDs are the ids that the message has in the file of another program, of which it may join several records.
	SourceIDs []string        `json:"source_ids,omitempty"`
	Message   json.RawMessage `json:"message"`
}

// maxFile is the maximum size of a session's file, in bytes. Every exported file can be imported again.
const maxFile = 64 << 20

// messageOverhead is an upper bound for what a file stores of a message besides its JSON, in bytes.
const messageOverhead = 512

// Export returns a session as the file state/sessions/<session_id>.json. It returns not_found, storage_damaged if a
// message cannot be read, and session_too_large.
func (svc *Service) Export(ctx context.Context, c ident.Caller, projectID, id string) (File, error) {
	_, h, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return File{}, err
	}
	f := File{Version: 1, Session: h.spec(id), Created: h.Created, Turns: []FileTurn{}}
	size := 0
	err = svc.eachTurn(ctx, c.Tenant, h, func(t FileTurn) error {
		for i := range t.Messages {
			size += len(t.Messages[i].Message) + messageOverhead
		}
		if size > maxFile {
			return fault.Errorf(fault.TooLarge, "session_too_large",
				"the session has more than %d bytes; page through its messages instead", maxFile)
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

// spec returns the Spec that makes a session like this one, without its messages.
func (h *Head) spec(id string) Spec {
	return Spec{ID: id, Kind: h.Kind, Agent: h.Agent, Title: h.Title, Namespace: h.Namespace, Metadata: h.Metadata,
		Origin: h.Origin}
}

// eachTurn visits the turns of a session in the form that files use, in the order of their messages. It returns
// storage_damaged if a message cannot be read.
func (svc *Service) eachTurn(ctx context.Context, tenant string, head *Head, visit func(FileTurn) error) error {
	var turn FileTurn
	given := uint32(0) // turns so far
	begin := func(next FileTurn) error {
		if len(turn.Messages) > 0 {
			if err := visit(turn); err != nil {
				return err
			}
		}
		for ; given+1 < next.Turn; given++ { // a copied session stores nothing of superseded turns
			if err := visit(FileTurn{Turn: given + 1, Superseded: true, Messages: []FileMessage{}}); err != nil {
				return err
			}
		}
		next.Continues = next.Turn <= given
		turn, given = next, max(given, next.Turn)
		return nil
	}
	err := svc.EachMessage(ctx, tenant, head.Extent(), head.Absent, func(h *transcript.Header, m *chat.Message) error {
		at := records.TimeOf(h.Created)
		if h.Turn != turn.Turn || len(turn.Messages) == maxTurnMessages {
			next := FileTurn{Turn: h.Turn, CreatedAt: at, Superseded: head.Superseded.Turnwise().Message(h.Seq),
				Removed: head.Removed.Turnwise().Message(h.Seq)}
			if err := begin(next); err != nil {
				return err
			}
		}
		var made *prefix.Place
		if h.Made.Known() {
			made = &h.Made
		}
		turn.Messages = append(turn.Messages, FileMessage{Format: m.Format.String(), Agent: h.Agent, Made: made,
			Delegation: h.Delegation, CreatedAt: at, Removed: head.Removed.Part(h.Seq), Reminder: h.Filed(head.Absent),
			SourceIDs: h.Sources,
			Message:   m.Raw})
		return nil
	})
	if err == nil {
		err = begin(FileTurn{Turn: head.Turns + 1})
	}
	return err
}

// Parse checks everything in a file that does not depend on the store. It returns the file's turns, and what was left
// out in mode repair. It returns invalid_value for an unknown version or mode, invalid_turn, invalid_messages,
// session_too_large, and the errors of the summary.
func (f *File) Parse() ([]*transcript.Turn, []chat.Skipped, error) {
	if f.Version != 1 {
		return nil, nil, fault.InvalidField("version", "invalid_value", "must be 1")
	}
	if err := f.Session.check(); err != nil {
		return nil, nil, err
	}
	if err := ident.CheckID("session.id", f.Session.ID); err != nil {
		return nil, nil, err
	}
	parser, err := transcript.ParserFor(f.Mode)
	if err != nil {
		return nil, nil, err
	}
	var turns []*transcript.Turn
	var skipped []chat.Skipped
	var seen covering
	var order transcript.History
	size := int64(0)
	for i := range f.Turns {
		t, left, err := f.Turns[i].parse(parser, f.Created)
		if err == nil {
			err = order.Take(f.Turns[i].place(), t)
		}
		if err != nil {
			if known, ok := errors.AsType[*fault.Error](err); ok {
				known.Detail = fmt.Sprintf("turn %d: %s", f.Turns[i].Turn, known.Detail)
			}
			return nil, nil, err
		}
		skipped = append(skipped, left...)
		if size += t.Bytes(); size > maxFile {
			return nil, nil, fault.Errorf(fault.TooLarge, "session_too_large", "the messages take more than %d bytes",
				maxFile)
		}
		seen.add(f.Summary, t)
		turns = append(turns, t)
	}
	return turns, skipped, f.Summary.within(seen, &order)
}

func (ft *FileTurn) place() transcript.Place {
	return transcript.Place{Turn: ft.Turn, Continues: ft.Continues, Superseded: ft.Superseded, Removed: ft.Removed}
}

// parse reads a turn's messages. A message without a time has the time of its turn, or else created, which is that of
// the session. If that is zero, it gets the time at which it is stored.
func (ft *FileTurn) parse(parser transcript.Parser, created time.Time) (*transcript.Turn, []chat.Skipped, error) {
	if len(ft.Messages) == 0 && ft.Superseded && !ft.Continues {
		return new(transcript.Turn), nil, nil
	}
	if len(ft.Messages) == 0 || len(ft.Messages) > maxTurnMessages {
		return nil, nil, fault.InvalidField("turns", "invalid_turn", "must have from 1 to %d messages", maxTurnMessages)
	}
	t := new(transcript.Turn)
	var skipped []chat.Skipped
	for i := range ft.Messages {
		fm := &ft.Messages[i]
		at := fm.CreatedAt
		if at.IsZero() {
			at = ft.CreatedAt
		}
		if at.IsZero() {
			at = created
		}
		left, err := t.Post(parser, &transcript.Posted{Format: fm.Format, JSON: fm.Message, Agent: fm.Agent,
			Delegation: fm.Delegation, Made: fm.Made, Reminder: fm.Reminder, SourceIDs: fm.SourceIDs, Removed: fm.Removed,
			At: at, Turn: ft.Turn, Index: i})
		if err != nil {
			return nil, nil, err
		}
		skipped = append(skipped, left...)
	}
	if len(t.Messages) == 0 {
		return nil, nil, fault.InvalidField("turns", "invalid_turn", "it has no message that can be stored")
	}
	return t, skipped, nil
}
