package records

import (
	"context"
	"hash/maphash"
)

// locks are striped by name, so that their number is bounded: two names may share one.
type locks struct {
	seed    maphash.Seed
	stripes [256]chan struct{}
}

func newLocks() *locks {
	l := &locks{seed: maphash.MakeSeed()}
	for i := range l.stripes {
		l.stripes[i] = make(chan struct{}, 1)
	}
	return l
}

// Lock makes this process's writers to what has the name queue up, so that they rarely have to retry.
func (db *DB) Lock(ctx context.Context, name string) (unlock func(), err error) {
	lock := db.locks.stripes[maphash.String(db.locks.seed, name)%uint64(len(db.locks.stripes))]
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
