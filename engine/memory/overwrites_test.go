package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// losing is a store that counts the changes of memories that lost to another writer, but not those of the job that
// moves documents into blocks and out of them.
type losing struct {
	store.Store
	lost atomic.Int64
}

func (c *losing) Commit(ctx context.Context, tenant string, b store.Batch) error {
	err := c.Store.Commit(ctx, tenant, b)
	conflict, lost := errors.AsType[*store.ConflictError](err)
	changes := slices.ContainsFunc(b.Put, func(p store.Pair) bool { return records.Memory.Is(p.Key) }) ||
		slices.ContainsFunc(b.Delete, records.Memory.Is)
	if lost && changes {
		key := b.Expect[conflict.Index].Key
		if !records.RecallFresh.Is(key) && !records.RecallDocument.Is(key) && !records.RecallEpoch.Is(key) {
			c.lost.Add(1)
		}
	}
	return err
}

// TestCampaignOverwrites: eight writers overwrite and forget memories in blocks, while the job moves them into blocks
// and out of them. All succeed, and none loses to another.
func TestCampaignOverwrites(t *testing.T) {
	seed, each, keys := campaign.Seed(t), campaign.Size(60, 3000), 200
	raw := &losing{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	for i := range keys {
		k.Keep(fmt.Sprint("k", i), fmt.Sprintf("common words of all and word%d", i))
	}
	k.Drain()
	raw.lost.Store(0)
	ctx, stop := context.WithCancel(t.Context())
	var worker, writers sync.WaitGroup
	worker.Go(func() {
		for ctx.Err() == nil {
			if _, err := k.Jobs.Step(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for w := range 8 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			for n := range each {
				// Each key has one writer, because two changes of the same memory do conflict.
				key := fmt.Sprint("k", w+8*random.IntN(keys/8))
				_, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
					memory.Spec{Key: key, Content: fmt.Sprintf("common words, writer %d time %d", w, n)})
				if err != nil {
					t.Error(err)
				}
				if random.IntN(4) == 0 {
					_, err := k.Memories.Forget(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, key)
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writers.Wait()
	stop()
	worker.Wait()
	t.Logf("%d changes, %d commits lost", 8*each, raw.lost.Load())
	if lost := raw.lost.Load(); lost > 0 {
		t.Errorf("%d commits of %d changes were lost to other writers", lost, 8*each)
	}
	k.Drain()
	if r := enginetest.Verified(t, raw.Store); len(r.Findings) > 0 {
		t.Errorf("%+v", r.Findings[:min(3, len(r.Findings))])
	}
}
