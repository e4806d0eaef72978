package memory

import (
	"context"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/index"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// ticket says whether a change has stood in the queue of those that change what is in a project's index.
type ticket struct {
	served  bool
	project ident.Incarnation // whose queue it is
}

// errTicket ends a run of a change that has to queue first.
var errTicket = errors.New("the change has to queue first")

// need is called by a change that overwrites or removes what is there, before it does so.
func (k *ticket) need(project ident.Incarnation) error {
	if k.served {
		return nil
	}
	k.project = project
	return errTicket
}

// update is records.Update for a change that may have to queue. What only adds a memory runs at once, beside others.
// Only a run of the change knows which it is, so one that has to queue runs again when it is served.
func update[T any](ctx context.Context, svc *Service, c access.Caller, once access.Once,
	change func(*records.Tx, *ticket) (T, error)) (T, error) {
	var own ticket
	run := func(t *records.Tx) (T, error) { return change(t, &own) }
	out, err := records.Update(ctx, svc.db, c, once, run)
	if !errors.Is(err, errTicket) {
		return out, err
	}
	leave, err := svc.index.Queue(ctx, c.Tenant, index.Memories(own.project))
	if err != nil {
		return out, err
	}
	defer leave()
	own.served = true
	return records.Update(ctx, svc.db, c, once, run)
}
