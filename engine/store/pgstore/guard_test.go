package pgstore

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// TestGuardOf chooses guards by what databases answer to SELECT version().
func TestGuardOf(t *testing.T) {
	for version, want := range map[string]guard{
		"PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc": locked,
		"PostgreSQL 17.2 on aarch64-unknown-linux-gnu":                                      locked,
		"PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu":                             serialized,
		"PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.12103":                         serialized,
		"CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu)":                                    serialized,
		"": serialized,
	} {
		if got := guardOf(version); got != want {
			t.Errorf("%q: guard %d, want %d", version, got, want)
		}
	}
}

// servers opens two stores over one database.
func servers(t *testing.T, url string) [2]*Store {
	t.Helper()
	var out [2]*Store
	for i := range out {
		out[i] = openURL(t, url)
		t.Cleanup(func() { out[i].Close() })
	}
	return out
}

const racers = 16

// race calls fn for each of the racers at once, on two servers in turn.
func race(t *testing.T, over [2]*Store, fn func(s *Store, racer int)) {
	t.Helper()
	var running sync.WaitGroup
	for i := range racers {
		running.Go(func() { fn(over[i%2], i) })
	}
	running.Wait()
}

// TestLostUpdates lets 16 writers on two servers increment one counter. It ends at the number of acknowledged
// increments.
func TestLostUpdates(t *testing.T) {
	underBoth(t, func(t *testing.T, database func(testing.TB) string) {
		const each = 6
		over := servers(t, database(t))
		mustCommit(t, over[0], store.Batch{Put: put("counter", "0")})
		race(t, over, func(s *Store, _ int) {
			for done := 0; done < each && !t.Failed(); {
				was := read(t, s, "counter")[0]
				n, _ := strconv.Atoi(was)
				err := s.Commit(t.Context(), "acme", store.Batch{Expect: holds("counter", was),
					Put: put("counter", strconv.Itoa(n+1))})
				switch {
				case err == nil:
					done++
				case !errors.As(err, new(*store.ConflictError)) && !errors.Is(err, store.ErrUnavailable):
					t.Errorf("Commit: %v", err)
				}
			}
		})
		if got := read(t, over[0], "counter")[0]; got != strconv.Itoa(racers*each) {
			t.Errorf("the counter is %s after %d acknowledged increments", got, racers*each)
		}
	})
}

// TestAbsentKeys lets 16 writers on two servers take a key that is absent. Exactly one gets it, and the key has its
// value.
func TestAbsentKeys(t *testing.T) {
	underBoth(t, func(t *testing.T, database func(testing.TB) string) {
		over := servers(t, database(t))
		for round := range 40 {
			key := fmt.Sprint("k", round)
			var takers atomic.Int32
			var taker atomic.Value
			race(t, over, func(s *Store, racer int) {
				value := fmt.Sprint("racer ", racer)
				err := s.Commit(t.Context(), "acme", store.Batch{Expect: absent(key), Put: put(key, value)})
				switch {
				case err == nil:
					takers.Add(1)
					taker.Store(value)
				case !errors.As(err, new(*store.ConflictError)):
					t.Errorf("Commit: %v", err)
				}
			})
			if got := read(t, over[1], key)[0]; takers.Load() != 1 || got != taker.Load() {
				t.Fatalf("round %d: %d writers took the key, the last was %v, and it has %q", round, takers.Load(),
					taker.Load(), got)
			}
		}
	})
}
