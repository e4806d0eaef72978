package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// TestCampaignSoak sends requests of every kind to one server under a memory limit, for about ten minutes in its long
// form. The server's memory must stay within the limit plus an allowance for memory outside Go's heap, and must stop
// growing: the median of the last quarter must not exceed that of the second quarter by more than a quarter. The
// maximum of a quarter says less about growth, because a memtable takes 250 MiB for a moment while it is written to a
// table.
//
//	scripts/campaigns -run Soak ./server/e2e
func TestCampaignSoak(t *testing.T) {
	const limit, beside = 384 << 10, 256 << 10 // KiB
	seed, requests, every := campaign.Seed(t), campaign.Size(400, 240_000), campaign.Size(50, 100)
	t.Setenv("GOMEMLIMIT", fmt.Sprint(limit, "KiB"))
	data := t.TempDir()
	server := summarising(t, data, provider(t))
	server.client(t).do("PATCH", "/api/v1/projects/default/settings", object{"summary_enabled": true,
		"daily_memory_days": 1}).want(200)
	all := testify(server.client(t), 0)
	var mu sync.Mutex
	var seen [4][]int // anonymous memory in each quarter, in KiB
	var done atomic.Int64
	count := func() bool {
		n := int(done.Add(1))
		if n%every == 0 {
			held, quarter := server.anonymous(t), min(4*n/requests, 3)
			mu.Lock()
			seen[quarter] = append(seen[quarter], held)
			mu.Unlock()
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
	median := func(quarter []int) int { return quarter[len(quarter)/2] }
	for i, quarter := range seen {
		if len(quarter) == 0 {
			t.Fatalf("quarter %d: memory was never measured", i+1)
		}
	}
	for i, quarter := range seen {
		slices.Sort(quarter)
		most := quarter[len(quarter)-1]
		t.Logf("quarter %d: %d MiB of anonymous memory, at most %d", i+1, median(quarter)>>10, most>>10)
		if most > limit+beside {
			t.Errorf("quarter %d: %d KiB of anonymous memory, want at most %d", i+1, most, limit+beside)
		}
	}
	if campaign.Long() && median(seen[3]) > median(seen[1])*5/4 {
		t.Error("memory still grows in the last quarter")
	}
	server.stop(t)
	verifiedAt(t, stores.where(data)...)
}
