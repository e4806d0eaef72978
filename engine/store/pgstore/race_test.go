package pgstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

func b(s string) []byte { return []byte(s) }

func put(kv ...string) []store.Pair {
	var out []store.Pair
	for i := 0; i < len(kv); i += 2 {
		out = append(out, store.Pair{Key: b(kv[i]), Value: b(kv[i+1])})
	}
	return out
}

func absent(key string) []store.Expect { return []store.Expect{{Key: b(key)}} }

func holds(key, value string) []store.Expect { return []store.Expect{{Key: b(key), Value: b(value)}} }

// read returns the values of keys, "" for an absent one.
func read(t testing.TB, s store.Store, keys ...string) []string {
	t.Helper()
	var q store.Query
	for _, k := range keys {
		q.Keys = append(q.Keys, b(k))
	}
	res, err := s.Read(t.Context(), "acme", q)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	out := make([]string, len(keys))
	for i, it := range res.Keys {
		out[i] = string(it.Value)
	}
	return out
}

func mustCommit(t testing.TB, s store.Store, batch store.Batch) {
	t.Helper()
	if err := s.Commit(t.Context(), "acme", batch); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// TestRaces lets two servers commit at the same moment changes that must not both see the earlier state, in many
// rounds. Each final state must be one that a sequential order leaves.
func TestRaces(t *testing.T) { underBoth(t, testRaces) }

func testRaces(t *testing.T, database func(testing.TB) string) {
	const rounds = 80
	url := database(t)
	one, two := openURL(t, url), openURL(t, url)
	defer one.Close()
	defer two.Close()
	for _, c := range []struct {
		name        string
		before      store.Batch
		first, then store.Batch
		possible    []string // possible states of a and b
	}{
		{"each expects what the other writes", store.Batch{Put: put("a", "0", "b", "0")},
			store.Batch{Expect: holds("a", "0"), Put: put("b", "1")},
			store.Batch{Expect: holds("b", "0"), Put: put("a", "2")}, []string{"0 1", "2 0"}},
		{"each expects absent what the other writes", store.Batch{Delete: [][]byte{b("a"), b("b")}},
			store.Batch{Expect: absent("a"), Put: put("b", "1")},
			store.Batch{Expect: absent("b"), Put: put("a", "2")}, []string{" 1", "2 "}},
		{"each expects what the other deletes", store.Batch{Put: put("a", "0", "b", "0")},
			store.Batch{Expect: holds("a", "0"), Delete: [][]byte{b("b")}},
			store.Batch{Expect: holds("b", "0"), Delete: [][]byte{b("a")}}, []string{"0 ", " 0"}},
		{"one replaces what the other deletes", store.Batch{Put: put("a", "0", "b", "0")},
			store.Batch{Expect: holds("a", "0"), Put: put("a", "1", "b", "1")},
			store.Batch{Expect: holds("a", "0"), Delete: [][]byte{b("a")}, Put: put("b", "2")}, []string{"1 1", " 2"}},
		{"one replaces what the other replaces", store.Batch{Put: put("a", "0", "b", "0")},
			store.Batch{Expect: holds("a", "0"), Put: put("a", "1", "c", "1")},
			store.Batch{Expect: holds("a", "0"), Put: put("a", "2", "b", "2")}, []string{"1 0", "2 2"}},
		{"one replaces alone what the other deletes alone", store.Batch{Put: put("a", "0"), Delete: [][]byte{b("b")}},
			store.Batch{Expect: holds("a", "0"), Put: put("a", "1")},
			store.Batch{Expect: holds("a", "0"), Delete: [][]byte{b("a")}}, []string{"1 ", " "}},
		{"both make one key", store.Batch{Delete: [][]byte{b("a"), b("b")}},
			store.Batch{Expect: absent("a"), Put: put("a", "1", "b", "1")},
			store.Batch{Expect: absent("a"), Put: put("a", "2", "b", "2")}, []string{"1 1", "2 2"}},
		{"both write blindly", store.Batch{},
			store.Batch{Put: put("a", "1", "b", "1")},
			store.Batch{Put: put("b", "2", "a", "2")}, []string{"1 1", "2 2"}},
		{"one deletes what the other makes", store.Batch{Delete: [][]byte{b("b")}},
			store.Batch{Put: put("a", "1"), Delete: [][]byte{b("b")}},
			store.Batch{Put: put("a", "2", "b", "2")}, []string{"1 ", "2 2"}},
		{"one deletes blindly what the other expects absent", store.Batch{Put: put("a", "0", "b", "0")},
			store.Batch{Delete: [][]byte{b("a")}, Put: put("b", "1")},
			store.Batch{Expect: absent("a"), Put: put("b", "2")}, []string{" 1", " 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := map[string]int{}
			for range rounds {
				mustCommit(t, one, c.before)
				var both sync.WaitGroup
				var done atomic.Int32
				for s, batch := range map[*Store]store.Batch{one: c.first, two: c.then} {
					both.Go(func() {
						err := s.Commit(t.Context(), "acme", batch)
						if err == nil {
							done.Add(1)
						} else if !errors.As(err, new(*store.ConflictError)) {
							t.Errorf("Commit: %v", err)
						}
					})
				}
				both.Wait()
				exclusive := len(c.first.Expect) > 0 && len(c.then.Expect) > 0
				if exclusive && done.Load() != 1 {
					t.Fatalf("%d of two commits were made, where one leaves no room for the other", done.Load())
				}
				state := read(t, two, "a", "b")
				seen[state[0]+" "+state[1]]++
			}
			for _, p := range c.possible {
				delete(seen, p)
			}
			if len(seen) > 0 {
				t.Errorf("left %v, want %q only", seen, c.possible)
			}
		})
	}
}

// TestNothingBehindADeletion tests how the engine protects deleted objects: once the deletion of a marker has been
// acknowledged, no commit that expects the marker succeeds any more, on any server.
func TestNothingBehindADeletion(t *testing.T) { underBoth(t, testNothingBehindADeletion) }

func testNothingBehindADeletion(t *testing.T, database func(testing.TB) string) {
	url := database(t)
	one, two := openURL(t, url), openURL(t, url)
	defer one.Close()
	defer two.Close()
	for round := range 15 {
		prefix := fmt.Sprintf("%02d/", round)
		mustCommit(t, one, store.Batch{Put: put("live", prefix)})
		var writers sync.WaitGroup
		started := make(chan struct{}, 4)
		for w := range 4 {
			writers.Go(func() {
				for n := 0; ; n++ {
					err := two.Commit(t.Context(), "acme", store.Batch{
						Expect: holds("live", prefix), Put: put(fmt.Sprint(prefix, w, "/", n), "v")})
					if n == 0 {
						started <- struct{}{}
					}
					if err != nil {
						if !errors.As(err, new(*store.ConflictError)) {
							t.Errorf("Commit: %v", err)
						}
						return
					}
				}
			})
		}
		for range 4 {
			<-started
		}
		mustCommit(t, one, store.Batch{Delete: [][]byte{b("live")}})
		count := func() int {
			res, err := one.Read(t.Context(), "acme", store.Query{Ranges: []store.Range{{From: b(prefix), To: b(prefix + "~")}}})
			if err != nil {
				t.Fatal(err)
			}
			return len(res.Ranges[0])
		}
		atDeletion := count()
		writers.Wait()
		if after := count(); after != atDeletion {
			t.Fatalf("round %d: %d records at the deletion, %d afterwards", round, atDeletion, after)
		}
	}
}

// TestDeletingNothingTakesPart deletes a key that another server is creating. A reader who saw the new key without
// the other writes of the deletion's batch must see it gone once those are there.
func TestDeletingNothingTakesPart(t *testing.T) { underBoth(t, testDeletingNothingTakesPart) }

func testDeletingNothingTakesPart(t *testing.T, database func(testing.TB) string) {
	const rounds = 30
	url := database(t)
	one, two := openURL(t, url), openURL(t, url)
	defer one.Close()
	defer two.Close()
	seen := 0
	for round := range rounds {
		key, mark := fmt.Sprint("k", round), fmt.Sprintf("m%d/", round)
		batch := store.Batch{Delete: [][]byte{b(key)}}
		for n := range 2000 { // so that it takes some time
			batch.Put = append(batch.Put, put(fmt.Sprintf("%s%04d", mark, n), "v")...)
		}
		var both sync.WaitGroup
		var made []string
		both.Go(func() { mustCommit(t, one, batch) })
		both.Go(func() {
			time.Sleep(time.Duration(round%10) * time.Millisecond)
			mustCommit(t, two, store.Batch{Put: put(key, "made")})
			made = read(t, two, key, mark+"0000")
		})
		both.Wait()
		if made[0] != "" && made[1] == "" {
			seen++
			if end := read(t, two, key); end[0] != "" {
				t.Fatalf("round %d: a key made and seen before a deletion outlived it", round)
			}
		}
	}
	t.Logf("%d of %d rounds told something", seen, rounds)
}
