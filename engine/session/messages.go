package session

import (
	"context"

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
	out, damaged, err := svc.Service.List(ctx, c.Tenant, h.Extent(), h.Absent, page, order, set.Encoding)
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
