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

// setJobs puts the background work of all rooms in order.
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

// Step does one unit of background work, if there is any, and tells whether there may be more. Vectors and summaries
// come last, because a call of a provider may take long.
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

// Run does background work until ctx ends: at once what an earlier process left, when woken what was queued, and with
// every tick what came due meanwhile. Summaries and vectors are made beside it, several at once, and counts are
// written.
func (e *Engine) Run(ctx context.Context, tick <-chan struct{}) {
	var workers sync.WaitGroup
	defer workers.Wait()
	e.Summaries.Start(ctx, &workers)
	e.Recall.Start(ctx, &workers)
	workers.Go(func() { e.Stats.Run(ctx) })
	e.Jobs.Run(ctx, tick)
}

// expire removes what the expiry index says is due: a memory with all that belongs to it, any other record by itself.
func (e *Engine) expire(ctx context.Context, tenant string, due []store.Item) (bool, error) {
	var b store.Batch
	var failed error // an error of one memory must not stop the others
	for _, it := range due {
		key := records.SplitExpiry(it.Key)
		if records.Memory.Is(key) {
			failed = errors.Join(failed, e.Memories.Expire(ctx, tenant, it.Key))
		} else {
			b.Delete = append(b.Delete, it.Key, key)
			// Where the entry is gone, another process has removed the record, and what the key holds now is new.
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
