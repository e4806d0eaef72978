package board

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Units are the background work of boards.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{{Due: func(_ string, now time.Time) store.Range { return due(now) },
		Do: func(ctx context.Context, tenant string, found []store.Item) (bool, error) {
			return true, svc.expire(ctx, tenant, found[0].Key)
		}}}
}
