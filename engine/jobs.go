package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// setJobs sets the order of all background work.
func (e *Engine) setJobs() {
	expired := func(_ string, now time.Time) store.Range { return records.ExpiredRange(now, records.SweepChunk/2) }
	e.Jobs.Units = slices.Concat(
		e.Summaries.Units(),
		[]jobs.Unit{{Due: expired, Do: e.expire}},
		e.Sessions.Units(),
		[]jobs.Unit{
			jobs.FirstJob(records.SessionJob.All(), e.sweepSession),
			jobs.FirstJob(records.ProjectJob.All(), e.sweepProject),
			jobs.FirstJob(records.TenantJob.All(), e.sweepTenant),
			jobs.FirstJob(jobs.PrefixJobs, e.Jobs.SweepPrefixed),
		},
		e.Decisions.Units(),
		e.Boards.Units(),
		e.Recall.Units(),
		e.Index.Units())
	e.Jobs.Dailies = slices.Concat(e.Sessions.Dailies(), e.Decisions.Dailies(), e.Stats.Dailies())
	e.Jobs.SystemDailies = []jobs.Daily{{Name: "files", Piece: e.db.CompactStore}}
}

// Step does one unit of background work, if there is any, and reports whether there may be more. Vectors and
// summaries come last, because calling a provider may take long.
func (e *Engine) Step(ctx context.Context) (more bool, err error) {
	if more, err := e.Jobs.Step(ctx); more || err != nil {
		return more, err
	}
	if more, _, err = e.Recall.MakeVectors(ctx); more || err != nil {
		return more, err
	}
	more, _, err = e.Summaries.MakeSummary(ctx)
	return more, err
}

// Run does background work until ctx ends: first what an earlier process left, then what is queued whenever it is
// woken, and what has become due on every tick. Concurrently it makes summaries and vectors, several at once, and
// writes counts.
func (e *Engine) Run(ctx context.Context, tick <-chan struct{}) {
	var workers sync.WaitGroup
	defer workers.Wait()
	e.Summaries.Start(ctx, &workers)
	e.Recall.Start(ctx, &workers)
	workers.Go(func() { e.Stats.Run(ctx) })
	e.Jobs.Run(ctx, tick)
}

// expire removes the records that the expiry index lists as due. A memory is removed with all that belongs to it, any
// other record by itself.
func (e *Engine) expire(ctx context.Context, tenant string, due []store.Item) (bool, error) {
	var b store.Batch
	var failed error // an error with one memory must not stop the others
	for _, it := range due {
		key := records.SplitExpiry(it.Key)
		if records.Memory.Is(key) {
			failed = errors.Join(failed, e.Memories.Expire(ctx, tenant, it.Key))
		} else {
			b.Delete = append(b.Delete, it.Key, key)
			// If the entry is gone, another process has removed the record, and the key now holds a new one.
			if !it.Damaged {
				b.Expect = append(b.Expect, store.Expect{Key: it.Key, Value: it.Value})
			}
		}
	}
	e.db.Removed.Main.Store(true)
	if len(b.Delete) > 0 {
		failed = errors.Join(failed, records.LostRace(e.db.Commit(ctx, tenant, b)))
	}
	return true, failed
}
