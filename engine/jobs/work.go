package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Bell wakes workers that wait for something to do. The zero Bell is ready to use.
type Bell struct {
	mu   sync.Mutex
	rung chan struct{} // closed at the next ring; nil if nobody waits for it
}

// Ring wakes the workers. Call it when there may be something new to do.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// next returns a channel that is closed at the next ring.
func (b *Bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

// Work runs one worker for work that calls a provider, which would hold up the steps of other work. It runs unit again
// and again until ctx ends. If unit finds nothing to do, it returns when something becomes due, or the zero time; the
// worker then waits for that time or for the bell. what names the work in the log, to which errors are written.
func Work(ctx context.Context, db *records.DB, bell *Bell, what string,
	unit func(ctx context.Context) (done bool, next time.Time, err error)) {
	for ctx.Err() == nil {
		rung := bell.next() // taken before the unit runs, so that work queued in the meantime is not missed
		done, next, err := unit(ctx)
		if err != nil && ctx.Err() == nil {
			db.Log.Error(what+" failed and will be retried", "error", err)
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
