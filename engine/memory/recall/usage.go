package recall

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

func usageOf(got Embedded, failed *ProviderError) tenant.EmbeddingUsage {
	u := tenant.EmbeddingUsage{Calls: 1, Tokens: int64(got.Tokens)}
	if failed != nil {
		u.Failures = 1
	}
	return u
}

// noteUsed records the usage of a query's call. The job stores it, because a query writes nothing.
func (svc *Service) noteUsed(tenantID string, u tenant.EmbeddingUsage) {
	e := &svc.embedding
	e.mu.Lock()
	defer e.mu.Unlock()
	sum := e.used[tenantID]
	sum.Add(u)
	e.used[tenantID] = sum
}

// writeUsed stores the usage of queries.
func (svc *Service) writeUsed(ctx context.Context, tenantID string) (done bool, err error) {
	e := &svc.embedding
	e.mu.Lock()
	sum, some := e.used[tenantID]
	delete(e.used, tenantID)
	e.mu.Unlock()
	if !some {
		return false, nil
	}
	t := svc.db.Begin(ctx, tenantID)
	if err = tenant.Use(t, tenant.UsageRecord{Embeddings: sum}); err == nil {
		err = svc.db.Commit(ctx, tenantID, t.Batch)
	}
	if err != nil {
		svc.noteUsed(tenantID, sum)
	}
	return true, records.LostRace(err)
}
