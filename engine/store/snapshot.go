package store

import (
	"context"
	"errors"
)

// Snapshotter is a Store that can walk over all it holds. Every backend should be one: backups and checks need it.
type Snapshotter interface {
	// Snapshot calls fn with every record of every tenant while writers go on. Synced keys come as of one instant, and
	// loose ones as of one that is no later, so that no loose record tells of what the walk does not show. One tenant's
	// records come together, in the order of their keys; the order of tenants is the backend's own. fn may take its
	// time, and may read what it is given until it returns. An error of fn ends the walk and is answered.
	Snapshot(ctx context.Context, fn func(tenant string, it Item) error) error
}

// Snapshot walks over a store, or answers errors.ErrUnsupported where it is no Snapshotter.
func Snapshot(ctx context.Context, s Store, fn func(tenant string, it Item) error) error {
	if walker, ok := s.(Snapshotter); ok {
		return walker.Snapshot(ctx, fn)
	}
	return errors.ErrUnsupported
}
