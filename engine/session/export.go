package session

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// line begins a session; its turns and its end follow.
type line struct {
	transfer.FileLine
	Project string `json:"project"`
	Spec
	Created      time.Time    `json:"created_at"`
	LastActivity time.Time    `json:"last_activity_at"`
	Summary      *FileSummary `json:"summary,omitempty"`
}

// turnLine is one turn of the session that was begun last.
type turnLine struct {
	transfer.FileLine
	Turn     uint32        `json:"turn"`
	Messages []lineMessage `json:"messages"`
}

// lineMessage is a message with its JSON in place, or, where that holds a line break, as text.
type lineMessage struct {
	FileMessage
	Text string `json:"text,omitempty"`
}

// end ends a session. One that was deleted while it was being exported is to be forgotten.
type end struct {
	transfer.FileLine
	Turns   uint32 `json:"turns"`
	Deleted bool   `json:"deleted,omitempty"`
}

func (p *Part) Export(x *transfer.Exporting) error {
	return project.Each(x, func(project *project.Record) error {
		var after []byte
		for more := true; more; more = after != nil {
			heads, next, err := p.E.ReadHeads(x.Ctx, x.Caller.Tenant, project.Incarnation, after)
			if err != nil {
				return err
			}
			for i := range heads {
				if err := p.exportSession(x, project, &heads[i]); err != nil {
					return err
				}
			}
			after = next
		}
		return nil
	})
}

func (p *Part) exportSession(x *transfer.Exporting, project *project.Record, h *NamedHead) error {
	summary, err := p.E.fileSummary(x.Ctx, x.Caller.Tenant, &h.Head)
	if err != nil {
		return err
	}
	err = x.Put(line{transfer.FileLine{Type: "session"}, project.ID,
		Spec{ID: h.Id, Kind: h.Kind, Agent: h.Agent, Title: h.Title}, h.Created, h.LastActivity, summary})
	if err != nil {
		return err
	}
	t := &turnWriter{x: x}
	err = p.E.eachBody(x.Ctx, x.Caller.Tenant, h.Extent(), t.add)
	if err == nil {
		err = t.flush()
	}
	if err != nil {
		gone, gerr := p.E.gone(x.Ctx, x.Caller.Tenant, records.Session.Key(project.Incarnation, h.Id), h.Incarnation)
		if gerr != nil || !gone {
			return err
		}
	}
	return x.Put(end{transfer.FileLine{Type: "session_end"}, t.turns, err != nil})
}

// turnWriter gathers messages into lines, one a turn.
type turnWriter struct {
	x        *transfer.Exporting
	turn     uint32
	turns    uint32
	messages [][]byte // encoded
}

func (t *turnWriter) add(seq uint64, body []byte) error {
	h, m, err := ParseBody(body)
	if err != nil || h.Seq != seq {
		return fault.Errorf(fault.Internal, "storage_damaged",
			"message %d of a session cannot be read, so the export would not be whole", seq)
	}
	if h.Turn != t.turn {
		if err := t.flush(); err != nil {
			return err
		}
		t.turn = h.Turn
	}
	encoded, err := encodeLineMessage(h, m)
	t.messages = append(t.messages, encoded)
	return err
}

// encodeLineMessage keeps the message's JSON to the byte, which an encoder would not.
func encodeLineMessage(h *Header, m *chat.Message) ([]byte, error) {
	type about struct { // FileMessage without the message
		Format     string    `json:"format"`
		Agent      string    `json:"agent,omitempty"`
		Delegation string    `json:"delegation_id,omitempty"`
		CreatedAt  time.Time `json:"created_at"`
	}
	out, err := json.Marshal(about{m.Format.String(), h.Agent, h.Delegation, records.TimeOf(h.Created)})
	if err != nil {
		return nil, err
	}
	out = out[:len(out)-1]
	if !bytes.ContainsAny(m.Raw, "\r\n") {
		return append(append(append(out, `,"message":`...), m.Raw...), '}'), nil
	}
	text, err := json.Marshal(string(m.Raw))
	return append(append(append(out, `,"text":`...), text...), '}'), err
}

func (t *turnWriter) flush() error {
	if len(t.messages) == 0 {
		return nil
	}
	start, err := json.Marshal(struct {
		transfer.FileLine
		Turn uint32 `json:"turn"`
	}{transfer.FileLine{Type: "turn"}, t.turn})
	if err != nil {
		return err
	}
	messages := bytes.Join(t.messages, []byte{','})
	t.messages = t.messages[:0]
	t.turns++
	return t.x.PutRaw("turn", start[:len(start)-1], []byte(`,"messages":[`), messages, []byte("]}"))
}

// BodiesAtOnce bounds the messages that one read of a long session brings to memory.
const BodiesAtOnce = 32

// eachBody visits the bodies of an extent in order; nil where one is damaged or missing.
func (svc *Service) eachBody(ctx context.Context, tenant string, x Extent, visit func(seq uint64,
	body []byte) error) error {
	for first := uint64(1); first <= x.Messages; first += BodiesAtOnce {
		bodies, err := svc.ReadBodies(ctx, tenant, x.Incarnation, first, min(first+BodiesAtOnce-1, x.Messages))
		if err != nil {
			return err
		}
		for i, body := range bodies {
			if err := visit(first+uint64(i), body); err != nil {
				return err
			}
		}
	}
	return nil
}

// gone tells whether a session was deleted, or made anew, since its head was read.
func (svc *Service) gone(ctx context.Context, tenant string, key []byte, was ident.Incarnation) (bool, error) {
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{key}})
	if err != nil {
		return false, err
	}
	h := new(Head)
	return r.Keys[0].Value == nil || json.Unmarshal(r.Keys[0].Value, h) == nil && h.Incarnation != was, nil
}
