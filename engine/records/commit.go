package records

import (
	"context"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Commit writes a batch, tells e.committed of it, and puts a store's refusals into the words of the edge. A lost
// precondition stays a *store.ConflictError.
func (db *DB) Commit(ctx context.Context, tenant string, b store.Batch) error {
	err := db.Store.Commit(ctx, tenant, b)
	if err == nil && db.Committed != nil {
		db.Committed(tenant, b)
	}
	return Worded(err)
}

// LostRace leaves out an error that only says that another writer came first, for work that is found and done again.
func LostRace(err error) error {
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) {
		return nil
	}
	return err
}

// Worded puts a store's refusals into the words of the edge. Every other error comes back as it is.
func Worded(err error) error {
	switch {
	case errors.Is(err, store.ErrNoSpace):
		return fault.Errorf(fault.NoSpace, "disk_full", "the server's disk is nearly full; nothing was stored, reading goes on")
	case errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrClosed):
		return fault.Errorf(fault.Unavailable, "store_stopped", "the store has stopped writing; the operator must restart the server")
	case errors.Is(err, store.ErrUnknown):
		return fault.Errorf(fault.Unavailable, "outcome_unknown", "the database was lost while this was being stored, so it may or may "+
			"not be there; send it again with the same Idempotency-Key, or look before you repeat it")
	case errors.Is(err, store.ErrUnavailable):
		return fault.Errorf(fault.Unavailable, "store_unavailable", "the database is away or too busy; nothing was stored; try again")
	case errors.Is(err, store.ErrTooLarge):
		return fault.Errorf(fault.TooLarge, "commit_too_large", "this is more than one commit can hold (%d bytes); split it",
			store.MaxBatch)
	}
	return err
}
