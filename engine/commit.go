package engine

import (
	"context"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// commit writes a batch, sees to it that jobs in it get done, and puts a store's refusals into the words of the edge. A
// lost precondition stays a *store.ConflictError.
func (e *Engine) commit(ctx context.Context, tenant string, b store.Batch) error {
	err := e.store.Commit(ctx, tenant, b)
	switch {
	case err == nil:
		e.queueWork(tenant, b)
	case errors.Is(err, store.ErrNoSpace):
		return errorf(NoSpace, "disk_full", "the server's disk is nearly full; nothing was stored, reading goes on")
	case errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrClosed):
		return errorf(Unavailable, "store_stopped", "the store has stopped writing; the operator must restart the server")
	case errors.Is(err, store.ErrTooLarge):
		return errorf(TooLarge, "commit_too_large", "this is more than one commit can hold (%d bytes); split it",
			store.MaxBatch)
	}
	return err
}
