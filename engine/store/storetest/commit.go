package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

func testAllOrNothing(t *testing.T, s store.Store) {
	put(t, s, tenant, "old", "1", "gone", "1")
	err := s.Commit(t.Context(), tenant, store.Batch{
		Expect: []store.Expect{{Key: b("old"), Value: b("2")}},
		Put:    pairs("old", "3", "new", "3"),
		Delete: [][]byte{b("gone")},
	})
	wantConflict(t, err, 0)
	want(t, s, tenant, "old", "1")
	want(t, s, tenant, "gone", "1")
	wantAbsent(t, s, tenant, "new")
}

func testPreconditions(t *testing.T, s store.Store) {
	for _, k := range []string{"k", "zk"} {
		put(t, s, tenant, k, "1")
		holds, absent := store.Expect{Key: b(k), Value: b("1")}, store.Expect{Key: b(k + "none")}
		for _, c := range []struct {
			name   string
			expect []store.Expect
			index  int // of the conflict; -1 if there is none
		}{
			{"both hold", []store.Expect{holds, absent}, -1},
			{"the same twice", []store.Expect{holds, holds}, -1},
			{"other value", []store.Expect{holds, {Key: b(k), Value: b("2")}}, 1},
			{"longer value", []store.Expect{{Key: b(k), Value: b("11")}}, 0},
			{"no value", []store.Expect{{Key: b(k)}}, 0},
			{"absent key", []store.Expect{absent, holds, {Key: b(k + "none"), Value: b("1")}}, 2},
			{"the first of two", []store.Expect{holds, {Key: b(k)}, {Key: b(k + "none"), Value: b("1")}}, 1},
		} {
			err := s.Commit(t.Context(), tenant, store.Batch{Expect: c.expect, Put: pairs(k+"out", c.name)})
			if c.index >= 0 {
				wantConflict(t, err, c.index)
			} else if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if got, _ := get(t, s, tenant, k+"out"); (got == c.name) != (c.index < 0) {
				t.Errorf("%s: key holds %q afterwards", c.name, got)
			}
		}
	}
}

func testOnlyExpect(t *testing.T, s store.Store) {
	put(t, s, tenant, "k", "1")
	holds := store.Batch{Expect: []store.Expect{{Key: b("k"), Value: b("1")}}}
	if err := s.Commit(t.Context(), tenant, holds); err != nil {
		t.Error(err)
	}
	wantConflict(t, s.Commit(t.Context(), tenant, store.Batch{Expect: []store.Expect{{Key: b("k")}}}), 0)
	if err := s.Commit(t.Context(), tenant, store.Batch{}); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
	want(t, s, tenant, "k", "1")
}

func testPutThenDelete(t *testing.T, s store.Store) {
	for _, k := range []string{"k", "zk"} {
		put(t, s, tenant, k, "1", k+"2", "2")
		if err := s.Commit(t.Context(), tenant, store.Batch{Delete: [][]byte{b(k), b(k + "none")}}); err != nil {
			t.Fatal(err)
		}
		wantAbsent(t, s, tenant, k)
		wantKeys(t, scan(t, s, tenant, store.Range{From: b(k), To: b(k + "9")})[0], k+"2")
		again := store.Batch{Expect: []store.Expect{{Key: b(k)}}, Put: pairs(k, "3")}
		if err := s.Commit(t.Context(), tenant, again); err != nil {
			t.Errorf("a deleted key is not absent: %v", err)
		}
		want(t, s, tenant, k, "3")
		wantKeys(t, scan(t, s, tenant, store.Range{From: b(k), To: b(k + "9"), Reverse: true})[0], k+"2", k)
	}
}

func testLimits(t *testing.T, s store.Store) {
	value := bytes.Repeat(b("v"), store.MaxValue)
	longKey := strings.Repeat("k", store.MaxKey)
	longTenant := strings.Repeat("t", store.MaxTenant)
	put(t, s, longTenant, longKey, string(value))
	want(t, s, longTenant, longKey, string(value))

	big := append([]byte("v"), value...)
	var sum []store.Pair
	for i := range store.MaxBatch / store.MaxValue {
		sum = append(sum, store.Pair{Key: fmt.Append(nil, "k", i), Value: value})
	}
	var many [][]byte
	for i := range store.MaxWrites + 1 {
		many = append(many, fmt.Append(nil, i))
	}
	for name, batch := range map[string]store.Batch{
		"value":         {Put: []store.Pair{{Key: b("k"), Value: big}}},
		"expected":      {Expect: []store.Expect{{Key: b("k"), Value: big}}, Put: pairs("k", "v")},
		"key":           {Put: pairs(longKey+"k", "v")},
		"deleted key":   {Delete: [][]byte{b(longKey + "k")}},
		"expected key":  {Expect: []store.Expect{{Key: b(longKey + "k")}}, Put: pairs("k", "v")},
		"sum":           {Put: sum},
		"sum with read": {Put: sum[1:], Expect: []store.Expect{{Key: b("e"), Value: value}}},
		"writes":        {Delete: many},
	} {
		batch.Put = append(batch.Put, pairs("written", "v")...)
		wantError(t, name, s.Commit(t.Context(), tenant, batch), store.ErrTooLarge)
		wantAbsent(t, s, tenant, "written")
	}
	wantError(t, "tenant", s.Commit(t.Context(), longTenant+"t", store.Batch{Put: pairs("k", "v")}), store.ErrTooLarge)
	_, err := s.Read(t.Context(), longTenant+"t", store.Query{Keys: [][]byte{b("k")}})
	wantError(t, "read of tenant", err, store.ErrTooLarge)
}

// testLargestBatch commits batches at the limits: in bytes, in writes and in both, of each class of keys.
func testLargestBatch(t *testing.T, s store.Store) {
	longTenant := strings.Repeat("t", store.MaxTenant)
	for _, sort := range []string{"k", "z"} {
		var batch store.Batch
		const each = store.MaxBatch / store.MaxWrites
		for i := range store.MaxWrites {
			p := store.Pair{Key: fmt.Appendf(nil, "%s%05d", sort, i), Value: bytes.Repeat([]byte{byte(i)}, each-6)}
			batch.Put = append(batch.Put, p)
		}
		if err := s.Commit(t.Context(), longTenant, batch); err != nil {
			t.Fatalf("the largest batch: %v", err)
		}
		r := store.Range{From: b(sort), To: b(sort + "~")}
		got := scan(t, s, longTenant, r)[0]
		if len(got) != len(batch.Put) {
			t.Fatalf("%d of %d pairs are there", len(got), len(batch.Put))
		}
		for i, p := range batch.Put {
			if !bytes.Equal(got[i].Key, p.Key) || !bytes.Equal(got[i].Value, p.Value) {
				t.Fatalf("pair %d is not what was put", i)
			}
		}
		gone := store.Batch{}
		for _, p := range batch.Put {
			gone.Delete = append(gone.Delete, p.Key)
		}
		if err := s.Commit(t.Context(), longTenant, gone); err != nil {
			t.Fatal(err)
		}
		if left := scan(t, s, longTenant, r)[0]; len(left) > 0 {
			t.Fatalf("%d pairs are left after deleting all", len(left))
		}
	}
}

func testMixed(t *testing.T, s store.Store) {
	for name, batch := range map[string]store.Batch{
		"puts":   {Put: pairs("k", "v", "zk", "v")},
		"delete": {Put: pairs("k", "v"), Delete: [][]byte{b("zk")}},
		"expect": {Put: pairs("zk", "v"), Expect: []store.Expect{{Key: b("k")}}},
	} {
		wantError(t, name, s.Commit(t.Context(), tenant, batch), store.ErrMixed)
		wantAbsent(t, s, tenant, "k")
		wantAbsent(t, s, tenant, "zk")
	}
}

func testDuplicates(t *testing.T, s store.Store) {
	var many []store.Pair
	for i := range 50 {
		many = append(many, store.Pair{Key: fmt.Append(nil, "k", i)})
	}
	for name, batch := range map[string]store.Batch{
		"puts":           {Put: pairs("k", "1", "l", "1", "k", "2")},
		"put and delete": {Put: pairs("k", "1"), Delete: [][]byte{b("k")}},
		"deletes":        {Delete: [][]byte{b("k"), b("k")}},
		"among many":     {Put: append(many, store.Pair{Key: b("k7")})},
	} {
		wantError(t, name, s.Commit(t.Context(), tenant, batch), store.ErrDuplicate)
	}
	wantAbsent(t, s, tenant, "k")
	wantAbsent(t, s, tenant, "k1")
}

// testCompareAndSet lets writers increment one counter of each class of keys. Exactly one of them takes each value.
func testCompareAndSet(t *testing.T, s store.Store) {
	const writers, steps = 8, 25
	for _, key := range []string{"counter", "zcounter"} {
		put(t, s, tenant, key, "0")
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for step := range steps {
					if err := increment(t, s, key, fmt.Sprint(w, " ", step)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		want(t, s, tenant, key, fmt.Sprint(writers*steps))
		if taken := scan(t, s, tenant, store.Range{From: b(key + "/"), To: b(key + "0")})[0]; len(taken) != writers*steps {
			t.Errorf("%d numbers were given for %d steps", len(taken), writers*steps)
		}
	}
}

// increment increments a counter and stores who took the number, under the number.
func increment(t *testing.T, s store.Store, key, who string) error {
	for {
		res, err := s.Read(t.Context(), tenant, store.Query{Keys: [][]byte{b(key)}})
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(res.Keys[0].Value))
		if err != nil {
			return err
		}
		next := fmt.Sprint(n + 1)
		err = s.Commit(t.Context(), tenant, store.Batch{
			Expect: []store.Expect{{Key: b(key), Value: res.Keys[0].Value}},
			Put:    pairs(key, next, key+"/"+next, who),
		})
		if conflict := (*store.ConflictError)(nil); !errors.As(err, &conflict) {
			return err
		}
	}
}

// testOneState reads keys that only ever change together, by key and by ranges, while they change.
func testOneState(t *testing.T, s store.Store) {
	for _, keys := range [][]string{{"a", "m", "{"}, {"za", "zm", "zz"}} {
		q := store.Query{Ranges: []store.Range{{}, {Reverse: true, Limit: 3}, {From: b(keys[1])}}}
		for _, k := range keys {
			q.Keys = append(q.Keys, b(k))
		}
		put(t, s, tenant, keys[0], "0", keys[1], "0", keys[2], "0")
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for {
					res, err := s.Read(t.Context(), tenant, q)
					if err != nil {
						t.Error(err)
						return
					}
					seen := map[string]bool{}
					for _, items := range append(res.Ranges, res.Keys) {
						for _, it := range items {
							seen[string(it.Value)] = true
						}
					}
					if len(seen) != 1 {
						t.Errorf("one read saw several states: %v", seen)
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		for i := range 200 {
			n := fmt.Sprint(i)
			put(t, s, tenant, keys[0], n, keys[1], n, keys[2], n)
		}
		close(stop)
		wg.Wait()
		if err := s.Commit(t.Context(), tenant, store.Batch{Delete: q.Keys}); err != nil {
			t.Fatal(err)
		}
	}
}
