package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// openJobs makes ready what background work needs, and puts the work of all rooms in order.
func (e *Engine) openJobs() {
	e.wake, e.livingTenant = make(chan struct{}, 1), livingTenant
	e.units = slices.Concat(
		e.summaryUnits(),
		[]unit{{func(_ string, now time.Time) store.Range { return expiredRange(now, sweepChunk/2) }, e.expire}},
		e.sessionUnits(),
		[]unit{
			firstJob(kindSessionJob.All(), e.sweepSession),
			firstJob(kindProjectJob.All(), e.sweepProject),
			firstJob(kindTenantJob.All(), e.sweepTenant),
			firstJob(prefixJobs, e.sweepPrefixed),
		},
		e.windowUnits(),
		e.boardUnits(),
		e.recallUnits(),
		e.indexUnits())
	e.dailies = slices.Concat(e.sessionDailies(), e.windowDailies())
	e.systemDailies = []daily{{"files", e.compactStore}}
}

// Step does one unit of background work, if there is any, and tells whether there may be more. Summaries come last,
// because a call of the provider may take long.
func (e *Engine) Step(ctx context.Context) (more bool, err error) {
	if more, err := e.step(ctx); more || err != nil {
		return more, err
	}
	more, _, err = e.makeSummary(ctx)
	return more, err
}

// Run does background work until ctx ends: at once what an earlier process left, when woken what was queued, and with
// every tick a look for what came due. Summaries are made beside it, several at once.
func (e *Engine) Run(ctx context.Context, tick <-chan struct{}) {
	var workers sync.WaitGroup
	defer workers.Wait()
	e.startSummaries(ctx, &workers)
	e.runJobs(ctx, tick)
}

// expire removes what the expiry index says is due: single records together, memories each with all that is theirs.
func (e *Engine) expire(ctx context.Context, tenant string, due []store.Item) (bool, error) {
	var b store.Batch
	var failed error // an error of one memory must not stop the others
	for _, it := range due {
		key := splitExpiry(it.Key)
		if _, _, ok := splitMemoryKey(key); ok {
			failed = errors.Join(failed, e.expireMemory(ctx, tenant, it.Key))
		} else {
			b.Delete = append(b.Delete, it.Key, key)
			if !it.Damaged { // else another process removed it, and what the key holds now is new
				b.Expect = append(b.Expect, store.Expect{Key: it.Key, Value: it.Value})
			}
		}
	}
	if e.removed.main.Store(true); len(b.Delete) > 0 {
		failed = errors.Join(failed, lostRace(e.commit(ctx, tenant, b)))
	}
	return true, failed
}
