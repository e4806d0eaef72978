package summary

import (
	"context"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Units are the background work of summaries: jobs that this process may not know yet.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{{Due: func(tenant string, _ time.Time) store.Range { return svc.queue.summaryJobs(tenant) },
		Do: func(_ context.Context, tenant string, found []store.Item) (bool, error) {
			return svc.enqueue(tenant, found), nil
		}}}
}

// Start has summaries made, several at once, until ctx ends, where there is a provider.
func (svc *Service) Start(ctx context.Context, running *sync.WaitGroup) {
	if svc.summariser == nil {
		return
	}
	for range workers {
		running.Go(func() { svc.run(ctx) })
	}
}
