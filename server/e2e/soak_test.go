package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// TestCampaignSoak sends requests of every kind to one server under a memory limit, for about ten minutes in its long
// form. The memory that the server holds stays within the limit and what lies beside Go's heap, and stops growing: the
// last quarter needs no more than the second one, and a quarter again for chance.
//
//	scripts/campaigns -run Soak ./server/e2e
func TestCampaignSoak(t *testing.T) {
	const limit, beside = 384 << 10, 256 << 10 // KiB
	seed, requests := campaign.Seed(t), campaign.Size(800, 240_000)
	t.Setenv("GOMEMLIMIT", fmt.Sprint(limit, "KiB"))
	data := t.TempDir()
	server := summarising(t, data, provider(t))
	server.client(t).do("PATCH", "/api/v1/projects/default/settings", object{"summary_enabled": true,
		"daily_memory_days": 1}).want(200)
	all := testify(server.client(t), 0)
	var peaks [4]atomic.Int64 // of each quarter
	var done atomic.Int64
	count := func() bool {
		n := int(done.Add(1))
		if n%100 == 0 {
			held, quarter := int64(server.anonymous(t)), min(4*n/requests, 3)
			for old := peaks[quarter].Load(); held > old && !peaks[quarter].CompareAndSwap(old, held); {
				old = peaks[quarter].Load()
			}
		}
		return n < requests && !t.Failed()
	}
	var group sync.WaitGroup
	for n := range 8 {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		group.Go(func() {
			c := server.client(t)
			for more := true; more; more = count() {
				change := c.anything
				if random.IntN(2) == 0 {
					change = c.anythingShared
				}
				if err := change(random); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, w := range all {
		group.Go(func() {
			c := server.client(t)
			for more := true; more && w.act(c); more = count() {
			}
		})
	}
	group.Wait()
	all.check(server.client(t))
	for quarter := range peaks {
		t.Logf("quarter %d: at most %d MiB of anonymous memory", quarter+1, peaks[quarter].Load()>>10)
		if held := peaks[quarter].Load(); held > limit+beside {
			t.Errorf("quarter %d: %d KiB of anonymous memory, want at most %d", quarter+1, held, limit+beside)
		}
	}
	if campaign.Long() && peaks[3].Load() > peaks[1].Load()*5/4 {
		t.Error("memory still grows in the last quarter")
	}
	server.stop(t)
	verifiedAt(t, stores.where(data)...)
}
