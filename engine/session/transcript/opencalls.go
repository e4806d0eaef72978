package transcript

import (
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxOpenCalls is the maximum number of unanswered calls that a session remembers; the oldest are dropped first.
const maxOpenCalls = 1024

// CodeNoOpenCall is the error code for a result that answers no open call.
const CodeNoOpenCall = "no_open_call"

// OpenCall is a call that waits for its result.
type OpenCall struct {
	ID         string `json:"id"`
	Seq        uint64 `json:"seq"`   // of the message that makes it
	Index      uint16 `json:"index"` // among that message's calls
	Turn       uint32 `json:"turn"`
	Name       string `json:"name"`
	Delegation string `json:"delegation,omitempty"`
}

// UnknownCall is used in the header of a pending result whose call lies outside the window's messages.
const UnknownCall = 0

// OpenCalls is the record of a session's open calls.
type OpenCalls struct {
	Incarnation ident.Incarnation `json:"incarnation"`
	Calls       []OpenCall        `json:"calls"`

	// More reports that some open calls are not listed, so that a result that answers none of the listed ones may
	// answer one of those.
	More bool `json:"-"`
}

// Open returns the open calls of a session; had is their number according to its head. The record is taken from read if
// it is there, and read from the store otherwise.
func (svc *Service) Open(t *records.Tx, pinc ident.Incarnation, session string, sinc ident.Incarnation, had int,
	read []store.Item) (open *OpenCalls, err error) {
	switch {
	case had == 0:
	case len(read) == 0:
		open, err = records.Get[OpenCalls](t.Ctx, svc.db, t.Tenant, records.OpenCalls.Key(pinc, session))
	case read[0].Damaged:
		err = records.ErrDamaged
	case read[0].Value != nil:
		open = new(OpenCalls)
		err = json.Unmarshal(read[0].Value, open)
	}
	if open == nil || open.Incarnation != sinc { // the record is of a deleted session with the same name
		open = &OpenCalls{Incarnation: sinc}
	}
	return open, err
}

// Put collects the write of a session's open calls and returns their number. had is the number that was stored before.
func (o *OpenCalls) Put(t *records.Tx, pinc ident.Incarnation, session string, had int) (int, error) {
	if drop := len(o.Calls) - maxOpenCalls; drop > 0 {
		o.Calls = o.Calls[drop:]
	}
	key, n := records.OpenCalls.Key(pinc, session), len(o.Calls)
	if n > 0 {
		return n, t.PutJSON(key, o)
	}
	if had > 0 {
		t.Delete(key)
	}
	return n, nil
}

// note adds one of a message's calls.
func (o *OpenCalls) note(h *Header, m *chat.Message, index uint16) {
	call := &m.Calls[index]
	o.Calls = append(o.Calls, OpenCall{ID: call.ID, Seq: h.Seq, Index: index, Turn: h.Turn, Name: call.Name,
		Delegation: m.Delegation})
}

// Follow adds a message's calls to the open ones or, if the message is a result, closes the newest open call with its
// id. The result of a superseded message does not close a call.
func (o *OpenCalls) Follow(m *chat.Message, h *Header, superseded bool) *chat.FieldError {
	for i := range m.Calls {
		o.note(h, m, uint16(i))
	}
	if m.Role != plan.RoleTool {
		return nil
	}
	for i := len(o.Calls) - 1; i >= 0; i-- {
		call := o.Calls[i]
		if call.ID != m.CallID {
			continue
		}
		if call.Delegation != m.Delegation {
			return &chat.FieldError{Code: "delegation_mismatch", Detail: fault.Words(
				"the result's delegation is %q, that of its call %q; post it with the call's delegation_id",
				m.Delegation, call.Delegation)}
		}
		h.Call, h.CallIndex, h.Tool = call.Seq, call.Index, call.Name
		if superseded {
			return nil
		}
		o.Calls = append(o.Calls[:i:i], o.Calls[i+1:]...)
		return nil
	}
	if o.More {
		h.Call = UnknownCall
		return nil
	}
	return &chat.FieldError{Code: CodeNoOpenCall, Detail: fault.Words(
		"no open call has the id %q; post the assistant message that makes the call first", m.CallID)}
}
