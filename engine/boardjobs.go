package engine

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// boardUnits are the background work of boards.
func (e *Engine) boardUnits() []unit {
	return []unit{{func(_ string, now time.Time) store.Range { return dueBoard(now) },
		func(ctx context.Context, tenant string, found []store.Item) (bool, error) {
			return true, e.expireBoard(ctx, tenant, found[0].Key)
		}}}
}
