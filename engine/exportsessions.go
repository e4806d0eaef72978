package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sessionLine begins a session; its turns and its end follow.
type sessionLine struct {
	fileLine
	Project string `json:"project"`
	SessionSpec
	Created      time.Time    `json:"created_at"`
	LastActivity time.Time    `json:"last_activity_at"`
	Summary      *FileSummary `json:"summary,omitempty"`
}

// turnLine is one turn of the session that was begun last.
type turnLine struct {
	fileLine
	Turn     uint32        `json:"turn"`
	Messages []lineMessage `json:"messages"`
}

// lineMessage is a message with its JSON in place, or, where that holds a line break, as text.
type lineMessage struct {
	FileMessage
	Text string `json:"text,omitempty"`
}

// sessionEnd ends a session. One that was deleted while it was being exported is to be forgotten.
type sessionEnd struct {
	fileLine
	Turns   uint32 `json:"turns"`
	Deleted bool   `json:"deleted,omitempty"`
}

func (p *sessionPart) export(x *exporting) error {
	return eachProject(x, func(project *project) error {
		var after []byte
		for more := true; more; more = after != nil {
			heads, next, err := p.e.readHeads(x.ctx, x.caller.Tenant, project.Incarnation, after)
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

func (p *sessionPart) exportSession(x *exporting, project *project, h *namedHead) error {
	summary, err := p.e.fileSummary(x.ctx, x.caller.Tenant, &h.head)
	if err != nil {
		return err
	}
	err = x.put(sessionLine{fileLine{"session"}, project.ID,
		SessionSpec{ID: h.id, Kind: h.Kind, Agent: h.Agent, Title: h.Title}, h.Created, h.LastActivity, summary})
	if err != nil {
		return err
	}
	t := &turnWriter{x: x}
	err = p.e.eachBody(x.ctx, x.caller.Tenant, h.extent(), t.add)
	if err == nil {
		err = t.flush()
	}
	if err != nil {
		gone, gerr := p.e.sessionGone(x.ctx, x.caller.Tenant, kindSession.Key(project.Incarnation, h.id), h.Incarnation)
		if gerr != nil || !gone {
			return err
		}
	}
	return x.put(sessionEnd{fileLine{"session_end"}, t.turns, err != nil})
}

// turnWriter gathers messages into lines, one a turn.
type turnWriter struct {
	x        *exporting
	turn     uint32
	turns    uint32
	messages [][]byte // encoded
}

func (t *turnWriter) add(seq uint64, body []byte) error {
	h, m, err := parseBody(body)
	if err != nil || h.seq != seq {
		return errorf(Internal, "storage_damaged",
			"message %d of a session cannot be read, so the export would not be whole", seq)
	}
	if h.turn != t.turn {
		if err := t.flush(); err != nil {
			return err
		}
		t.turn = h.turn
	}
	encoded, err := encodeLineMessage(h, m)
	t.messages = append(t.messages, encoded)
	return err
}

// encodeLineMessage keeps the message's JSON to the byte, which an encoder would not.
func encodeLineMessage(h *header, m *chat.Message) ([]byte, error) {
	type about struct { // FileMessage without the message
		Format     string    `json:"format"`
		Agent      string    `json:"agent,omitempty"`
		Delegation string    `json:"delegation_id,omitempty"`
		CreatedAt  time.Time `json:"created_at"`
	}
	out, err := json.Marshal(about{m.Format.String(), h.agent, h.delegation, timeOf(h.created)})
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
		fileLine
		Turn uint32 `json:"turn"`
	}{fileLine{"turn"}, t.turn})
	if err != nil {
		return err
	}
	messages := bytes.Join(t.messages, []byte{','})
	t.messages = t.messages[:0]
	t.turns++
	return t.x.putRaw("turn", start[:len(start)-1], []byte(`,"messages":[`), messages, []byte("]}"))
}

// bodiesAtOnce bounds the messages that one read of a long session brings to memory.
const bodiesAtOnce = 32

// eachBody visits the bodies of an extent in order; nil where one is damaged or missing.
func (e *Engine) eachBody(ctx context.Context, tenant string, x extent, visit func(seq uint64,
	body []byte) error) error {
	for first := uint64(1); first <= x.messages; first += bodiesAtOnce {
		bodies, err := e.readBodies(ctx, tenant, x.incarnation, first, min(first+bodiesAtOnce-1, x.messages))
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

// sessionGone tells whether a session was deleted, or made anew, since its head was read.
func (e *Engine) sessionGone(ctx context.Context, tenant string, key []byte, was incarnation) (bool, error) {
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: [][]byte{key}})
	if err != nil {
		return false, err
	}
	h := new(head)
	return r.Keys[0].Value == nil || json.Unmarshal(r.Keys[0].Value, h) == nil && h.Incarnation != was, nil
}
