package pgstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// TestRandomRaces commits three random batches at the same moment from two servers, in many rounds. Their outcomes, a
// reader's views and the final state must be those of some sequential order. A failure prints the round.
func TestRandomRaces(t *testing.T) { underBoth(t, testRandomRaces) }

func testRandomRaces(t *testing.T, database func(testing.TB) string) {
	const rounds, seed = 300, 11
	random := rand.New(rand.NewPCG(seed, 0))
	url := database(t)
	servers := []*Store{openURL(t, url), openURL(t, url)}
	for _, s := range servers {
		defer s.Close()
	}
	keys := []string{"a", "b", "c"}
	conflicts := 0
	for round := range rounds {
		start := read(t, servers[0], keys...)
		batches := make([]store.Batch, 3)
		for i := range batches {
			batches[i] = randomBatch(random, keys, start, fmt.Sprint(round, ".", i))
		}
		outcomes := make([]string, len(batches))
		var both sync.WaitGroup
		for i, batch := range batches {
			both.Go(func() { outcomes[i] = outcome(servers[i%2].Commit(t.Context(), "acme", batch)) })
		}
		var seen string
		both.Go(func() { seen = strings.Join(read(t, servers[1], keys...), ",") })
		both.Wait()
		end := strings.Join(read(t, servers[0], keys...), ",")
		if !explained(t, keys, start, batches, outcomes, seen, end) {
			t.Fatalf("seed %d, round %d: from %q\n%+v\nended in %q with %q seen and %q left, which no order explains",
				seed, round, start, batches, outcomes, seen, end)
		}
		for _, o := range outcomes {
			if o != "" {
				conflicts++
			}
		}
	}
	if conflicts < rounds/2 {
		t.Errorf("only %d of %d commits met a conflict: the test tells little", conflicts, 3*rounds)
	}
}

// randomBatch expects the current values of some keys, and puts and deletes others.
func randomBatch(random *rand.Rand, keys, held []string, value string) store.Batch {
	var batch store.Batch
	for i, k := range keys {
		if random.IntN(2) == 0 {
			e := store.Expect{Key: b(k)}
			if held[i] != "" {
				e.Value = b(held[i])
			}
			batch.Expect = append(batch.Expect, e)
		}
		switch random.IntN(5) {
		case 0, 1:
			batch.Put = append(batch.Put, put(k, value)...)
		case 2:
			batch.Delete = append(batch.Delete, b(k))
		}
	}
	return batch
}

// outcome returns a word for the outcome of a commit; empty means success.
func outcome(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// explained tries every order of the batches, with the read between any two.
func explained(t *testing.T, keys, start []string, batches []store.Batch, outcomes []string, seen, end string) bool {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		s := memstore.New()
		for i, k := range keys {
			if start[i] != "" {
				mustCommit(t, s, store.Batch{Put: put(k, start[i])})
			}
		}
		same, met := true, false
		for _, i := range order {
			met = met || strings.Join(read(t, s, keys...), ",") == seen
			same = same && outcome(s.Commit(t.Context(), "acme", batches[i])) == outcomes[i]
		}
		left := strings.Join(read(t, s, keys...), ",")
		if same && left == end && (met || left == seen) {
			return true
		}
	}
	return false
}
