package engine

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

// lock makes this process's writers to what has the name queue up, so that they rarely have to retry.
func (e *Engine) lock(ctx context.Context, name string) (unlock func(), err error) {
	lock := e.locks.stripes[maphash.String(e.locks.seed, name)%uint64(len(e.locks.stripes))]
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
