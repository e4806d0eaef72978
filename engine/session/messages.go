package session

import (
	"context"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// Message is a stored message in a list. MessageOrder selects and orders messages.
type (
	Message      = transcript.Message
	MessageOrder = transcript.Order
)

// ListMessages pages through a session's messages by number. A message that cannot be read is listed as damaged, never
// left out. It returns not_found if there is no such session.
func (svc *Service) ListMessages(ctx context.Context, c ident.Caller, projectID, id string, page records.Page,
	order MessageOrder) (records.List[Message], error) {
	none := records.List[Message]{Data: []Message{}}
	p, h, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return none, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return none, err
	}
	return svc.list(ctx, c, projectID, id, h, page, order, set.Encoding)
}

// list lists messages of a session. Where one cannot be read because the session was replaced in the meantime, it
// lists those of the session that replaced it.
func (svc *Service) list(ctx context.Context, c ident.Caller, projectID, id string, h *Head, page records.Page,
	order MessageOrder, encoding int) (records.List[Message], error) {
	none := records.List[Message]{Data: []Message{}}
	out, damaged, err := svc.Service.List(ctx, c.Tenant, h.Extent(), h.Absent, page, order, encoding)
	if err != nil || !damaged {
		return out, err
	}
	replaced, err := svc.replaced(ctx, c, projectID, id, h.Incarnation)
	if err != nil {
		return none, err
	}
	if replaced {
		return svc.ListMessages(ctx, c, projectID, id, page, order)
	}
	return out, nil
}

// Message returns one message of a session, also one that is superseded. It returns not_found if there is none.
func (svc *Service) Message(ctx context.Context, c ident.Caller, projectID, id, message string) (Message, error) {
	missing := fault.Errorf(fault.NotFound, "not_found", "session %q has no message %q", id, message)
	seq, err := strconv.ParseUint(message[strings.LastIndexByte(message, '_')+1:], 10, 64)
	if err != nil || seq == 0 {
		return Message{}, missing
	}
	p, h, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return Message{}, err
	}
	if seq > h.Messages || transcript.MessageID(h.Incarnation, seq) != message {
		return Message{}, missing
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return Message{}, err
	}
	only := MessageOrder{Superseded: true, First: seq, Last: seq}
	list, err := svc.list(ctx, c, projectID, id, h, records.Page{}, only, set.Encoding)
	if err != nil {
		return Message{}, err
	}
	if len(list.Data) != 1 || list.Data[0].ID != message {
		return Message{}, missing
	}
	return list.Data[0], nil
}

// Turn pages through the messages of a turn. It returns not_found if the session has no such turn, or if a rewind took
// it back.
func (svc *Service) Turn(ctx context.Context, c ident.Caller, projectID, id string, turn uint32, page records.Page) (
	records.List[Message], error) {
	none := records.List[Message]{Data: []Message{}}
	p, h, err := svc.Existing(ctx, c, projectID, id)
	if err != nil {
		return none, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return none, err
	}
	missing := fault.Errorf(fault.NotFound, "not_found", "session %q has no turn %d", id, turn)
	if turn == 0 || turn > h.Turns {
		return none, missing
	}
	before, _, err := svc.Until(ctx, c.Tenant, h.Extent(), h.Tokens, turn-1)
	if err != nil {
		return none, err
	}
	upto, _, err := svc.Until(ctx, c.Tenant, h.Extent(), h.Tokens, turn)
	if err != nil {
		return none, err
	}
	if upto.Messages == before.Messages {
		return none, missing
	}
	only := MessageOrder{First: before.Messages + 1, Last: upto.Messages}
	list, err := svc.list(ctx, c, projectID, id, h, page, only, set.Encoding)
	if err == nil && len(list.Data) == 0 { // the extent ends with superseded messages
		err = missing
	}
	return list, err
}
