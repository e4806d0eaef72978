package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Bell wakes workers that wait for something to do. The zero Bell is ready.
type Bell struct {
	mu   sync.Mutex
	rung chan struct{} // closed at the next ring; nil: nobody has asked for it
}

// Ring is called once there may be something to do that was not due before.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// next returns a channel that is closed when the bell is rung from now on.
func (b *Bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

// Work is one worker of a room whose work calls a provider, which a step of all rooms' work would wait for. It does one
// unit after the other until ctx ends. Where a unit finds nothing to do, it says when something comes due, or the zero
// time; the worker waits for that time or for the bell. what names the work in the log, where an error ends up.
func Work(ctx context.Context, db *records.DB, bell *Bell, what string,
	unit func(ctx context.Context) (done bool, next time.Time, err error)) {
	for ctx.Err() == nil {
		rung := bell.next() // before the unit looks, so that what is queued after its look is not missed
		done, next, err := unit(ctx)
		if err != nil && ctx.Err() == nil {
			db.Log.Error(what+" failed; it is tried again later", "error", err)
		}
		if done {
			continue
		}
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(max(time.Millisecond, next.Sub(db.Now())))
		}
		select {
		case <-ctx.Done():
		case <-rung:
		case <-due:
		}
	}
}
