package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// awkward returns keys that sort wrongly, collide or get lost if a backend terminates, escapes or signs its bytes.
func awkward() []string {
	return []string{
		"", "\x00", "\x00\x00", "\x00\xff", "\x01", "!badger!txn", "A", "a", "a\x00", "a\x00b", "aa", "ab", "b",
		"y", "y\xff\xff", "z", "z\x00", "za", "z\xff\xff", "{", "{z", "~", "\x7f", "\x80", "é",
		"\xff", "\xff\x00", "\xff\xff",
	}
}

func ofSort(keys []string, loose bool) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return store.IsLoose(b(k)) != loose })
}

// fill writes every awkward key with its own bytes as the value, in another order.
func fill(t *testing.T, s store.Store, tenant string) []string {
	t.Helper()
	keys := awkward()
	slices.Sort(keys)
	for _, loose := range []bool{true, false} {
		batch := store.Batch{}
		for _, k := range slices.Backward(ofSort(keys, loose)) {
			batch.Put = append(batch.Put, store.Pair{Key: b(k), Value: b(k)})
		}
		if err := s.Commit(t.Context(), tenant, batch); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

func testKeys(t *testing.T, s store.Store) {
	wantAbsent(t, s, tenant, "k")
	put(t, s, tenant, "k", "1", "l", "2")
	want(t, s, tenant, "k", "1")
	put(t, s, tenant, "k", "3")
	want(t, s, tenant, "k", "3")
	want(t, s, tenant, "l", "2")
	wantAbsent(t, s, tenant, "kk")

	res, err := s.Read(t.Context(), tenant, store.Query{Keys: [][]byte{b("l"), b("none"), b("k"), b("k")}})
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range []string{"2", "", "3", "3"} {
		if it := res.Keys[i]; string(it.Value) != value || (it.Value == nil) != (value == "") {
			t.Errorf("answer %d is %q, want %q", i, it.Value, value)
		}
	}
	for _, k := range fill(t, s, tenant) {
		want(t, s, tenant, k, k)
	}
}

func testEmptyValues(t *testing.T, s store.Store) {
	both := store.Batch{Put: []store.Pair{{Key: b("nil")}, {Key: b("empty"), Value: []byte{}}}}
	if err := s.Commit(t.Context(), tenant, both); err != nil {
		t.Fatal(err)
	}
	want(t, s, tenant, "nil", "")
	want(t, s, tenant, "empty", "")
	for _, it := range scan(t, s, tenant, store.Range{})[0] {
		if it.Value == nil {
			t.Errorf("a scan answers a nil value for %q", it.Key)
		}
	}
	absent := store.Batch{Expect: []store.Expect{{Key: b("empty")}}, Put: pairs("k", "v")}
	wantConflict(t, s.Commit(t.Context(), tenant, absent), 0)
	empty := store.Batch{Expect: []store.Expect{{Key: b("none"), Value: []byte{}}}, Put: pairs("k", "v")}
	wantConflict(t, s.Commit(t.Context(), tenant, empty), 0)
	empty.Expect[0].Key = b("empty")
	if err := s.Commit(t.Context(), tenant, empty); err != nil {
		t.Error(err)
	}
}

func testOrder(t *testing.T, s store.Store) {
	keys := fill(t, s, tenant)
	up := scan(t, s, tenant, store.Range{})[0]
	wantKeys(t, up, keys...)
	for _, it := range up {
		if string(it.Value) != string(it.Key) {
			t.Errorf("key %q came with the value of %q", it.Key, it.Value)
		}
	}
	slices.Reverse(keys)
	wantKeys(t, scan(t, s, tenant, store.Range{Reverse: true})[0], keys...)
}

// testRangeEnds tries every pair of awkward keys as ends, present and absent, in both directions.
func testRangeEnds(t *testing.T, s store.Store) {
	keys := fill(t, s, tenant)
	ends := append(slices.Clone(keys), "a\x00\x00", "aaa", "yz", "z\xff", "\xfe")
	for _, from := range ends {
		for _, to := range ends {
			var inside []string
			for _, k := range keys {
				if k >= from && (k < to || to == "") {
					inside = append(inside, k)
				}
			}
			r := store.Range{From: b(from), To: b(to)}
			back := r
			back.Reverse = true
			got := scan(t, s, tenant, r, back)
			wantKeys(t, got[0], inside...)
			slices.Reverse(inside)
			wantKeys(t, got[1], inside...)
			if t.Failed() {
				t.Fatalf("from %q to %q", from, to)
			}
		}
	}
}

func testKeysOnly(t *testing.T, s store.Store) {
	keys := fill(t, s, tenant)
	found := scan(t, s, tenant, store.Range{KeysOnly: true})[0]
	wantKeys(t, found, keys...)
	for _, it := range found {
		if it.Value != nil || it.Damaged {
			t.Errorf("key %q came with %q, damaged %t", it.Key, it.Value, it.Damaged)
		}
	}
}

func testLimit(t *testing.T, s store.Store) {
	keys := fill(t, s, tenant)
	backwards := slices.Clone(keys)
	slices.Reverse(backwards)
	for limit := 1; limit <= len(keys)+1; limit++ {
		n := min(limit, len(keys))
		got := scan(t, s, tenant, store.Range{Limit: limit}, store.Range{Limit: limit, Reverse: true})
		wantKeys(t, got[0], keys[:n]...)
		wantKeys(t, got[1], backwards[:n]...)
	}
	wantKeys(t, scan(t, s, tenant, store.Range{From: b("a"), To: b("b"), Limit: 2, Reverse: true})[0], "ab", "aa")
}

func testManyRanges(t *testing.T, s store.Store) {
	var kv []string
	for i := range 100 {
		kv = append(kv, fmt.Sprintf("k%02d", i), "v")
	}
	put(t, s, tenant, kv...)
	res, err := s.Read(t.Context(), tenant, store.Query{
		Keys: [][]byte{b("k50")},
		Ranges: []store.Range{
			{From: b("k90"), To: b("k92")},
			{From: b("k10"), To: b("k20"), Reverse: true, Limit: 2},
			{From: b("k5"), To: b("k5")},
			{From: b("k9"), To: b("k1")},
			{From: b("k98")},
			{From: b("k90"), To: b("k92")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Keys[0].Value) != "v" {
		t.Error("a key asked for beside ranges is missing")
	}
	for i, keys := range [][]string{{"k90", "k91"}, {"k19", "k18"}, {}, {}, {"k98", "k99"}, {"k90", "k91"}} {
		wantKeys(t, res.Ranges[i], keys...)
	}
}

func testBothSorts(t *testing.T, s store.Store) {
	put(t, s, tenant, "y1", "a", "y2", "b", "{1", "e", "{2", "f")
	put(t, s, tenant, "z1", "c", "z2", "d")
	got := scan(t, s, tenant,
		store.Range{From: b("y2"), To: b("{2")},
		store.Range{From: b("y2"), To: b("{2"), Reverse: true},
		store.Range{Limit: 3},
		store.Range{Limit: 3, Reverse: true},
		store.Range{From: b("z"), To: b("{")},
	)
	for i, keys := range [][]string{
		{"y2", "z1", "z2", "{1"}, {"{1", "z2", "z1", "y2"}, {"y1", "y2", "z1"}, {"{2", "{1", "z2"}, {"z1", "z2"},
	} {
		wantKeys(t, got[i], keys...)
	}
}

func testTenants(t *testing.T, s store.Store) {
	tenants := []string{
		"", "a", "ab", "a\x00", "b", "z", "!badger!", "\xff", "\xff\xff", "badger!-and-thirty-three-in-length"[:33],
	}
	for i, name := range tenants {
		put(t, s, name, "k", name, fmt.Sprintf("own%d", i), name, "b", name)
		put(t, s, name, "zk", name)
	}
	for i, name := range tenants {
		want(t, s, name, "k", name)
		want(t, s, name, "zk", name)
		for _, reverse := range []bool{false, true} {
			keys := []string{"b", "k", fmt.Sprintf("own%d", i), "zk"}
			if reverse {
				slices.Reverse(keys)
			}
			got := scan(t, s, name,
				store.Range{Reverse: reverse}, store.Range{From: b("\x00"), To: b("\xff\xff"), Reverse: reverse})
			wantKeys(t, got[0], keys...)
			wantKeys(t, got[1], keys...)
			for _, it := range got[0] {
				if string(it.Value) != name {
					t.Errorf("tenant %q reads %q of tenant %q", name, it.Key, it.Value)
				}
			}
		}
	}
	if err := s.Commit(t.Context(), "a", store.Batch{Delete: [][]byte{b("k"), b("bk")}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range tenants {
		if _, ok := get(t, s, name, "k"); ok != (name != "a") {
			t.Errorf("after tenant %q deleted its key, that of %q is present: %t", "a", name, ok)
		}
	}
}
