package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// walk takes a snapshot and checks that each tenant's records come together and keys are in order.
func walk(t *testing.T, s store.Store) map[string][]store.Pair {
	t.Helper()
	all := map[string][]store.Pair{}
	last := ""
	err := store.Snapshot(t.Context(), s, func(tenant string, it store.Item) error {
		got := all[tenant]
		if len(got) > 0 && (tenant != last || string(got[len(got)-1].Key) >= string(it.Key)) {
			t.Errorf("key %q of tenant %q comes after key %q of tenant %q", it.Key, tenant, got[len(got)-1].Key, last)
		}
		if it.Damaged || it.Value == nil {
			t.Errorf("key %q comes as %+v", it.Key, it)
		}
		all[tenant], last = append(got, store.Pair{Key: slices.Clone(it.Key), Value: slices.Clone(it.Value)}), tenant
		return nil
	})
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	return all
}

// testSnapshot walks over every kind of key and tenant.
func testSnapshot(t *testing.T, s store.Store) {
	if got := walk(t, s); len(got) > 0 {
		t.Fatalf("an empty store holds %v", got)
	}
	tenants := []string{"", "a", "ab", "b", "\xff", "!system", "a\x00"}
	var keys []string
	for _, name := range tenants {
		keys = fill(t, s, name)
	}
	got := walk(t, s)
	if len(got) != len(tenants) {
		t.Errorf("%d tenants, want %d", len(got), len(tenants))
	}
	for _, name := range tenants {
		if len(got[name]) != len(keys) {
			t.Fatalf("tenant %q has %d records, want %d", name, len(got[name]), len(keys))
		}
		for i, p := range got[name] {
			if string(p.Key) != keys[i] || string(p.Value) != keys[i] {
				t.Errorf("tenant %q: record %d is %q=%q, want %q", name, i, p.Key, p.Value, keys[i])
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, "with an ended context", store.Snapshot(ctx, s, func(string, store.Item) error { return nil }),
		context.Canceled)
	full, calls := errors.New("enough"), 0
	err := store.Snapshot(t.Context(), s, func(string, store.Item) error { calls++; return full })
	wantError(t, "ended by its reader", err, full)
	if calls != 1 {
		t.Errorf("an error of the reader is followed by %d more calls", calls-1)
	}
}

// testSnapshotOfWriters walks while writers of several tenants count up, each in a synced batch of three records and
// then in a loose batch of two. A snapshot shows whole batches, and every synced record that a loose one refers to.
func testSnapshotOfWriters(t *testing.T, s store.Store) {
	const writers = 4
	name := func(w int) string { return fmt.Sprint("writer", w) }
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	step := func(w, n int) {
		number := strconv.Itoa(n)
		put(t, s, name(w), "a", number, "m", number, fmt.Sprintf("n%06d", n), number)
		put(t, s, name(w), "z", number, "zz", number)
	}
	for w := range writers {
		step(w, 1)
		group.Go(func() {
			for n := 2; ctx.Err() == nil; n++ {
				step(w, n)
			}
		})
	}
	for range 10 {
		got := walk(t, s)
		for w := range writers {
			values := map[string]int{}
			numbered := 0
			for _, p := range got[name(w)] {
				values[string(p.Key)], _ = strconv.Atoi(string(p.Value))
				if p.Key[0] == 'n' {
					numbered++
				}
			}
			synced, loose := values["a"], values["z"]
			if values["m"] != synced || numbered != synced || values["zz"] != loose {
				t.Errorf("a batch was seen in part: %v", values)
			}
			if loose > synced {
				t.Errorf("a loose record names %d, the synced ones go to %d", loose, synced)
			}
		}
	}
	stop()
	group.Wait()
}

// testSnapshotStands writes between two records of a walk, which must show the state at its start.
func testSnapshotStands(t *testing.T, s store.Store) {
	for i := range 500 {
		put(t, s, tenant, fmt.Sprintf("k%03d", i), "before")
	}
	put(t, s, tenant, "zk", "before")
	n := 0
	err := store.Snapshot(t.Context(), s, func(_ string, it store.Item) error {
		if n++; n == 1 {
			for i := range 500 {
				put(t, s, tenant, fmt.Sprintf("k%03d", i), "after", fmt.Sprintf("l%03d", i), "new")
			}
			put(t, s, tenant, "zk", "after")
			if err := s.Commit(t.Context(), tenant, store.Batch{Delete: [][]byte{b("k499")}}); err != nil {
				return err
			}
		}
		if string(it.Value) != "before" {
			return fmt.Errorf("%q is %q", it.Key, it.Value)
		}
		return nil
	})
	if err != nil || n != 501 {
		t.Errorf("%d records, want 501: %v", n, err)
	}
}
