package engine

import (
	"context"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// summaryUnits are the background work of summaries: jobs that this process may not know yet.
func (e *Engine) summaryUnits() []unit {
	return []unit{{func(tenant string, _ time.Time) store.Range { return e.summaries.summaryJobs(tenant) },
		func(_ context.Context, tenant string, found []store.Item) (bool, error) {
			return e.queueSummaries(tenant, found), nil
		}}}
}

// startSummaries has summaries made, several at once, until ctx ends, where there is a provider.
func (e *Engine) startSummaries(ctx context.Context, running *sync.WaitGroup) {
	if e.summariser == nil {
		return
	}
	for range summaryWorkers {
		running.Go(func() { e.runSummaries(ctx) })
	}
}
