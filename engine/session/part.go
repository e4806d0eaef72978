package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// Part reads and writes the sessions in a tenant's file. Each session is a line that begins it, a line for each turn,
// and a line that ends it.
type Part struct {
	Sessions *Service
	at       *incoming // the current session
	ended    ended
	bytes    int64 // of the messages in the file
}

func (*Part) Types() []string { return []string{"session", "turn", "session_end"} }

// beginLine begins a session.
type beginLine struct {
	transfer.FileLine
	Project string `json:"project"`
	Spec
	Created      time.Time    `json:"created_at"`
	LastActivity time.Time    `json:"last_activity_at"`
	Summary      *FileSummary `json:"summary,omitempty"`
}

// turnLine is one turn of the current session, without its messages.
type turnLine struct {
	transfer.FileLine
	Turn       uint32 `json:"turn"`
	Continues  bool   `json:"continues,omitempty"`
	Superseded bool   `json:"superseded,omitempty"`
	Removed    bool   `json:"removed,omitempty"`
}

// readTurn reads a turn's line. It does not decode the messages, which are most of it, but slices them out: each has
// its JSON either as "message" or, if that contains a line break, as "text".
func readTurn(line *transfer.ImportLine) (*FileTurn, error) {
	raw := bytes.Clone(line.Raw())
	var messages []byte
	var about turnLine
	if err := readAround(raw, &about, map[string]*[]byte{"messages": &messages}); err != nil {
		return nil, err
	}
	turn := &FileTurn{Turn: about.Turn, Continues: about.Continues, Superseded: about.Superseded,
		Removed: about.Removed}
	if messages == nil {
		return turn, nil
	}
	if !rawjson.IsArray(messages) {
		return nil, fault.Errorf(fault.Invalid, "invalid_export", "turn: messages must be an array")
	}
	for from, to := range rawjson.Elements(messages) {
		var m FileMessage
		var message, text []byte
		err := readAround(messages[from:to], &m, map[string]*[]byte{"message": &message, "text": &text})
		if err != nil {
			return nil, err
		}
		m.Message = message
		if own, ok := rawjson.String(text); ok && own != "" {
			m.Message = json.RawMessage(own)
		} else if text != nil && !ok {
			return nil, fault.Errorf(fault.Invalid, "invalid_export", "turn: text must be a string")
		}
		turn.Messages = append(turn.Messages, m)
	}
	return turn, nil
}

// readAround decodes an object into v except for the given members, whose raw JSON it returns; nil if a member is
// absent or null. It returns invalid_export for an unknown field, a wrong type, and a name that occurs twice.
func readAround(raw []byte, v any, members map[string]*[]byte) error {
	o, twice, ok := rawjson.ReadObject(raw)
	if !ok || twice != nil {
		return fault.Errorf(fault.Invalid, "invalid_export", "turn: must be an object with each name once")
	}
	for name, to := range members {
		*to = o.Get(name)
	}
	rest := o.Without(func(_ *rawjson.Object, f *rawjson.Field) bool { return members[string(f.Name)] != nil })
	if string(rest) == "{}" {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(rest))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fault.Errorf(fault.Invalid, "invalid_export", "turn: %s", err)
	}
	return nil
}

// endLine ends a session. A session that was deleted while it was exported is marked to be ignored.
type endLine struct {
	transfer.FileLine
	Turns   uint32 `json:"turns"`
	Deleted bool   `json:"deleted,omitempty"`
}

// Export writes the sessions of all projects.
func (p *Part) Export(x *transfer.Exporting) error {
	return project.Each(x, func(of *project.Record) error {
		for h, err := range p.Sessions.Heads(x.Ctx, x.Caller.Tenant, of.Incarnation, "") {
			if err == nil {
				err = p.exportSession(x, of.ID, &h)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *Part) exportSession(x *transfer.Exporting, project string, h *NamedHead) error {
	svc := p.Sessions
	summary, err := svc.fileSummary(x.Ctx, x.Caller.Tenant, &h.Head)
	if err != nil {
		return err
	}
	err = x.Put(beginLine{FileLine: transfer.FileLine{Type: "session"}, Project: project, Spec: h.spec(h.ID),
		Created: h.Created, LastActivity: h.LastActivity, Summary: summary})
	if err != nil {
		return err
	}
	end := endLine{FileLine: transfer.FileLine{Type: "session_end"}}
	err = svc.eachTurn(x.Ctx, x.Caller.Tenant, &h.Head, func(t FileTurn) error {
		line, err := t.line()
		if err != nil {
			return err
		}
		end.Turns = max(end.Turns, t.Turn)
		return x.PutRaw("turn", line)
	})
	if err != nil {
		replaced, gone := svc.replaced(x.Ctx, x.Caller, project, h.ID, h.Incarnation)
		if end.Deleted = replaced || fault.IsNotFound(gone); !end.Deleted {
			return err
		}
	}
	return x.Put(end)
}

// line returns the turn's line, with the exact bytes of its messages' JSON, which an encoder would not preserve.
func (ft *FileTurn) line() ([]byte, error) {
	line := fmt.Appendf(nil, `{"type":"turn","turn":%d,`, ft.Turn)
	for _, flag := range [...]struct {
		name string
		set  bool
	}{{"continues", ft.Continues}, {"superseded", ft.Superseded}, {"removed", ft.Removed}} {
		if flag.set {
			line = fmt.Appendf(line, "%q:true,", flag.name)
		}
	}
	line = append(line, `"messages":[`...)
	for i, m := range ft.Messages {
		raw := m.Message
		m.Message = nil
		about, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, bytes.TrimSuffix(about, []byte(`"message":null}`))...)
		if bytes.ContainsAny(raw, "\r\n") {
			if raw, err = json.Marshal(string(raw)); err != nil {
				return nil, err
			}
			line = append(line, `"text":`...)
		} else {
			line = append(line, `"message":`...)
		}
		line = append(append(line, raw...), '}')
	}
	return append(line, "]}"...), nil
}
