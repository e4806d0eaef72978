// Package storetest tests implementations of store.Store. The tests of a backend or a decorator call Run and
// RunModel.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Run tests a backend against the contract of store.Store. Each call of open returns a new, empty store, which Run
// closes.
func Run(t *testing.T, open func(*testing.T) store.Store) {
	duties := []struct {
		name string
		test func(*testing.T, store.Store)
	}{
		{"keys", testKeys},
		{"empty values", testEmptyValues},
		{"order", testOrder},
		{"range ends", testRangeEnds},
		{"limit", testLimit},
		{"keys only", testKeysOnly},
		{"many ranges at once", testManyRanges},
		{"ranges over both sorts", testBothSorts},
		{"tenants apart", testTenants},
		{"all or nothing", testAllOrNothing},
		{"preconditions", testPreconditions},
		{"precondition without a write", testOnlyExpect},
		{"put then delete", testPutThenDelete},
		{"limits", testLimits},
		{"largest batch", testLargestBatch},
		{"mixed", testMixed},
		{"duplicates", testDuplicates},
		{"compare and set", testCompareAndSet},
		{"one state per read", testOneState},
		{"ownership", testOwnership},
		{"ended context", testContext},
		{"snapshot", testSnapshot},
		{"snapshot amid writers", testSnapshotOfWriters},
		{"snapshot stands", testSnapshotStands},
		{"close", testClose},
	}
	for _, d := range duties {
		t.Run(d.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			d.test(t, s)
		})
	}
}

// tenant is used by tests that do not depend on the tenant.
const tenant = "acme"

func b(s string) []byte { return []byte(s) }

// pairs returns the writes for key, value, key, value…
func pairs(kv ...string) []store.Pair {
	var out []store.Pair
	for i := 0; i < len(kv); i += 2 {
		out = append(out, store.Pair{Key: b(kv[i]), Value: b(kv[i+1])})
	}
	return out
}

func put(t *testing.T, s store.Store, tenant string, kv ...string) {
	t.Helper()
	if err := s.Commit(t.Context(), tenant, store.Batch{Put: pairs(kv...)}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// get returns a key's value and whether the key is present.
func get(t *testing.T, s store.Store, tenant, key string) (string, bool) {
	t.Helper()
	res, err := s.Read(t.Context(), tenant, store.Query{Keys: [][]byte{b(key)}})
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	it := res.Keys[0]
	if it.Damaged || string(it.Key) != key {
		t.Fatalf("Read answered %+v for key %q", it, key)
	}
	return string(it.Value), it.Value != nil
}

func want(t *testing.T, s store.Store, tenant, key, value string) {
	t.Helper()
	if got, ok := get(t, s, tenant, key); !ok || got != value {
		t.Errorf("key %q holds %q (present: %t), want %q", key, got, ok, value)
	}
}

func wantAbsent(t *testing.T, s store.Store, tenant, key string) {
	t.Helper()
	if got, ok := get(t, s, tenant, key); ok {
		t.Errorf("key %q holds %q, want it absent", key, got)
	}
}

func scan(t *testing.T, s store.Store, tenant string, ranges ...store.Range) [][]store.Item {
	t.Helper()
	res, err := s.Read(t.Context(), tenant, store.Query{Ranges: ranges})
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	if len(res.Ranges) != len(ranges) {
		t.Fatalf("%d answers to %d ranges", len(res.Ranges), len(ranges))
	}
	return res.Ranges
}

func wantKeys(t *testing.T, got []store.Item, keys ...string) {
	t.Helper()
	if len(got) != len(keys) {
		t.Errorf("got %d items %q, want %d %q", len(got), keysOf(got), len(keys), keys)
		return
	}
	for i, it := range got {
		if string(it.Key) != keys[i] {
			t.Errorf("got keys %q, want %q", keysOf(got), keys)
			return
		}
	}
}

func keysOf(items []store.Item) []string {
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = string(it.Key)
	}
	return out
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

func wantConflict(t *testing.T, err error, index int) {
	t.Helper()
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || conflict.Index != index {
		t.Errorf("error %v, want the conflict of precondition %d", err, index)
	}
}

func testContext(t *testing.T, s store.Store) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, "Commit", s.Commit(ended, tenant, store.Batch{Put: pairs("k", "v")}), context.Canceled)
	_, err := s.Read(ended, tenant, store.Query{Keys: [][]byte{b("k")}})
	wantError(t, "Read", err, context.Canceled)
	wantAbsent(t, s, tenant, "k")
}

func testClose(t *testing.T, s store.Store) {
	put(t, s, tenant, "k", "v")
	done := make(chan error)
	for range 8 {
		go func() {
			for {
				if err := s.Commit(context.Background(), tenant, store.Batch{Put: pairs("k", "w")}); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	for range 8 {
		wantError(t, "Commit while closing", <-done, store.ErrClosed)
	}
	wantError(t, "Commit", s.Commit(t.Context(), tenant, store.Batch{Put: pairs("k", "v")}), store.ErrClosed)
	_, err := s.Read(t.Context(), tenant, store.Query{Keys: [][]byte{b("k")}})
	wantError(t, "Read", err, store.ErrClosed)
	wantError(t, "Snapshot", store.Snapshot(t.Context(), s, func(string, store.Item) error { return nil }),
		store.ErrClosed)
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func testOwnership(t *testing.T, s store.Store) {
	p := store.Pair{Key: b("key"), Value: b("value")}
	if err := s.Commit(t.Context(), tenant, store.Batch{Put: []store.Pair{p}}); err != nil {
		t.Fatal(err)
	}
	if string(p.Key) != "key" || string(p.Value) != "value" {
		t.Errorf("Commit changed the batch to %q, %q", p.Key, p.Value)
	}
	clobber(p.Key)
	clobber(p.Value)
	want(t, s, tenant, "key", "value")
	put(t, s, tenant, "key2", "value2")

	read := func() store.Result {
		res, err := s.Read(t.Context(), tenant, store.Query{Keys: [][]byte{b("key"), b("key2")}, Ranges: []store.Range{{}}})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	mine := read()
	for i, it := range append(mine.Keys, mine.Ranges[0]...) {
		_ = append(it.Value, "spilt over"...)
		_ = append(it.Key, "spilt over"...)
		if key := []string{"key", "key2", "key", "key2"}[i]; string(it.Key) != key || string(it.Value) != "value"+key[3:] {
			t.Errorf("item %d became %q, %q by appending to its neighbours", i, it.Key, it.Value)
		}
	}
	for _, it := range append(mine.Keys, mine.Ranges[0]...) {
		clobber(it.Key)
		clobber(it.Value)
	}
	want(t, s, tenant, "key", "value")
	wantKeys(t, read().Ranges[0], "key", "key2")
}

func clobber(p []byte) { copy(p, bytes.Repeat([]byte{'!'}, len(p))) }
