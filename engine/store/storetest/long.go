package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// RunLong tests store.Long on a backend with values of any length. Each call of open returns a new, empty backend
// without a seal.
func RunLong(t *testing.T, open func(*testing.T) store.Store) {
	for _, d := range []struct {
		name string
		test func(*testing.T, *longKit)
	}{
		{"changes", testLongChanges},
		{"in ranges", testLongRanges},
		{"expected", testLongExpected},
		{"changed between two reads", testLongBetween},
		{"changed between a look and a commit", testLongLook},
		{"damage", testLongDamage},
		{"one commit", testLongWhole},
		{"limits", testLongLimits},
		{"snapshot", testLongSnapshot},
		{"short values cost nothing", testLongCost},
	} {
		t.Run(d.name, func(t *testing.T) {
			k := &longKit{raw: open(t)}
			k.watched = &watched{Store: store.Seal(k.raw)}
			k.Store = store.Long(k.watched, LongKeys, store.MaxValue)
			t.Cleanup(func() {
				if err := k.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			d.test(t, k)
		})
	}
}

// testLongChanges replaces values of all lengths, with and without expecting the old one, and deletes them.
func testLongChanges(t *testing.T, k *longKit) {
	const piece = store.MaxValue
	sizes := []int{0, piece - 1, piece, 3*piece + 7, piece + 1, 2*piece - 36, 2*piece - 35, 5}
	for _, key := range []string{"r", "zr"} {
		for n, size := range sizes {
			value := longValue(uint64(n), size)
			put(t, k, tenant, key, value)
			k.same(t, key, value)
			wanted := 1
			for rest := size - (piece - 20); size >= piece && rest > 0; rest -= piece - 16 {
				wanted++
			}
			if got := k.records(t); len(got) != wanted {
				t.Errorf("%d bytes lie in %d records, want %d", size, len(got), wanted)
			}
		}
		for _, size := range sizes {
			before, _ := get(t, k, tenant, key)
			value := longValue(99, size)
			err := k.Commit(t.Context(), tenant, store.Batch{Expect: []store.Expect{{Key: b(key), Value: b(before)}},
				Put: pairs(key, value)})
			if err != nil {
				t.Fatal(err)
			}
			k.same(t, key, value)
		}
		put(t, k, tenant, key, longValue(1, 2*piece))
		if err := k.Commit(t.Context(), tenant, store.Batch{Delete: [][]byte{b(key)}}); err != nil {
			t.Fatal(err)
		}
		wantAbsent(t, k, tenant, key)
		put(t, k, tenant, key, longValue(1, 2*piece))
		err := k.Commit(t.Context(), tenant, store.Batch{Expect: []store.Expect{{Key: b(key), Value: b(longValue(1, 2*piece))}},
			Delete: [][]byte{b(key)}})
		if err != nil {
			t.Fatal(err)
		}
		if left := k.records(t); len(left) > 0 {
			t.Fatalf("%d records are left: %q", len(left), left)
		}
	}
	// Many at once, some of them short; keys written once are not looked up before the put.
	var batch store.Batch
	for n := range 7 {
		value := longValue(uint64(n), store.MaxValue+n)
		put(t, k, tenant, fmt.Sprint("o", n), value, fmt.Sprint("or", n), "short")
		batch.Delete = append(batch.Delete, fmt.Append(nil, "o", n), fmt.Append(nil, "or", n))
	}
	if err := k.Commit(t.Context(), tenant, batch); err != nil {
		t.Fatal(err)
	}
	if left := k.records(t); len(left) > 0 {
		t.Errorf("%d records are left: %q", len(left), left)
	}
}

func testLongRanges(t *testing.T, k *longKit) {
	long := longValue(1, store.MaxValue+100)
	put(t, k, tenant, "a", "1", "r", long, "{", "3")
	put(t, k, tenant, "z1", "1", "zr", long, "z\xff", "3")
	for _, r := range []store.Range{{}, {Limit: 4}, {Limit: 2, From: b("b")}, {From: b("zq"), To: b("{")}, {From: b("z\xff\xff\xff\xff")}} {
		keys := []string{"a", "r", "z1", "zr", "z\xff", "{"}
		for len(keys) > 0 && keys[0] < string(r.From) {
			keys = keys[1:]
		}
		for len(keys) > 0 && len(r.To) > 0 && keys[len(keys)-1] >= string(r.To) {
			keys = keys[:len(keys)-1]
		}
		back := r
		back.Reverse = true
		only := r
		only.KeysOnly = true
		got := scan(t, k, tenant, r, back, only)
		up, down := keys, keys
		if r.Limit > 0 {
			up, down = keys[:r.Limit], keys[len(keys)-r.Limit:]
		}
		wantKeys(t, got[0], up...)
		wantKeys(t, got[2], up...)
		for i, it := range got[1] {
			if string(it.Key) != down[len(down)-1-i] {
				t.Errorf("backwards, item %d is %q", i, it.Key)
			}
		}
		for _, it := range append(got[0], got[1]...) {
			if long := LongKeys(it.Key) != store.Plain && bytes.IndexByte(it.Key, 'r') >= 0; long != (len(it.Value) > 1) {
				t.Errorf("%q comes with %d bytes", it.Key, len(it.Value))
			}
		}
	}
}

func testLongExpected(t *testing.T, k *longKit) {
	long := longValue(1, 2*store.MaxValue)
	put(t, k, tenant, "r", long)
	other := b(long)
	other[len(other)-1] ^= 1
	for i, value := range [][]byte{nil, b("short"), other, b(long)[:len(long)-1]} {
		err := k.Commit(t.Context(), tenant, store.Batch{Expect: []store.Expect{{Key: b("a")}, {Key: b("r"), Value: value}},
			Put: pairs("a", "written")})
		wantConflict(t, err, 1)
		if t.Failed() {
			t.Fatalf("expectation %d holds", i)
		}
	}
	wantAbsent(t, k, tenant, "a")
	err := k.Commit(t.Context(), tenant, store.Batch{Expect: []store.Expect{{Key: b("r"), Value: b(long)}}, Put: pairs("a", "1")})
	if err != nil {
		t.Error(err)
	}
}

// testLongBetween replaces, shortens and deletes a value after a reader has seen its head.
func testLongBetween(t *testing.T, k *longKit) {
	first, second := longValue(1, 2*store.MaxValue), longValue(2, 3*store.MaxValue)
	for name, change := range map[string]store.Batch{
		second:  {Put: pairs("r", second)},
		"short": {Put: pairs("r", "short")},
		"":      {Delete: [][]byte{b("r")}},
	} {
		put(t, k, tenant, "r", first)
		direct := store.Long(k.watched.Store, LongKeys, store.MaxValue)
		reads := k.watched.reads
		k.watched.beforeRead = func(n int) {
			if n == reads+2 {
				if err := direct.Commit(t.Context(), tenant, change); err != nil {
					t.Error(err)
				}
			}
		}
		if got, ok := get(t, k, tenant, "r"); got != name || ok != (name != "") {
			t.Errorf("read %d bytes, want %d", len(got), len(name))
		}
		k.watched.beforeRead = nil
	}
}

// testLongLook lengthens a value after a writer without expectations has looked up its length.
func testLongLook(t *testing.T, k *longKit) {
	for name, change := range map[string]store.Batch{"short": {Put: pairs("r", "short")}, "": {Delete: [][]byte{b("r")}}} {
		put(t, k, tenant, "r", longValue(1, 2*store.MaxValue))
		direct := store.Long(k.watched.Store, LongKeys, store.MaxValue)
		commits := k.watched.commits
		k.watched.beforeIt = func(n int) {
			if n == commits+1 {
				put(t, direct, tenant, "r", longValue(2, 4*store.MaxValue))
			}
		}
		if err := k.Commit(t.Context(), tenant, change); err != nil {
			t.Fatal(err)
		}
		k.watched.beforeIt = nil
		if got, _ := get(t, k, tenant, "r"); got != name {
			t.Errorf("%d bytes are there", len(got))
		}
		if left := k.records(t); len(left) != len(name)/5 {
			t.Errorf("%d records are left: %q", len(left), left)
		}
	}
}

// testLongDamage damages each piece in turn: the value is damaged, not partly there, and can be replaced and deleted.
func testLongDamage(t *testing.T, k *longKit) {
	long := longValue(1, 2*store.MaxValue)
	for n := range 3 {
		for _, gone := range []bool{false, true} {
			put(t, k, tenant, "r", long, "a", "beside")
			var pieces [][]byte
			for _, key := range k.records(t) {
				if string(key) != "a" {
					pieces = append(pieces, key)
				}
			}
			change := store.Batch{Put: []store.Pair{{Key: pieces[n], Value: b("no piece of it")}}}
			if gone && n > 0 {
				change = store.Batch{Delete: [][]byte{pieces[n]}}
			}
			if err := k.raw.Commit(t.Context(), tenant, change); err != nil {
				t.Fatal(err)
			}
			res, err := k.Read(t.Context(), tenant, store.Query{Keys: [][]byte{b("r"), b("a")}, Ranges: []store.Range{{}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range []store.Item{res.Keys[0], res.Ranges[0][1]} {
				if !it.Damaged || it.Value != nil {
					t.Errorf("without piece %d, %d bytes are read, damaged %t", n, len(it.Value), it.Damaged)
				}
			}
			if string(res.Keys[1].Value) != "beside" {
				t.Error("what lies beside is not read")
			}
			err = store.Snapshot(t.Context(), k.Store, func(_ string, it store.Item) error {
				if damaged := string(it.Key) == "r"; it.Damaged != damaged {
					return fmt.Errorf("%q comes as damaged: %t", it.Key, it.Damaged)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	put(t, k, tenant, "r", "anew")
	want(t, k, tenant, "r", "anew")
	if left := k.records(t); len(left) != 2 {
		t.Errorf("%d records are left: %q", len(left), left)
	}
}

// testLongWhole checks that all pieces are in one commit, and that a failed commit leaves nothing.
func testLongWhole(t *testing.T, k *longKit) {
	long := longValue(1, 3*store.MaxValue)
	before := k.watched.commits
	put(t, k, tenant, "r", long, "o", long)
	if n := k.watched.commits - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	refused := store.Batch{Expect: []store.Expect{{Key: b("a"), Value: b("1")}}, Put: pairs("r", longValue(2, store.MaxValue))}
	wantConflict(t, k.Commit(t.Context(), tenant, refused), 0)
	k.same(t, "r", long)
}

func testLongLimits(t *testing.T, k *longKit) {
	for _, key := range []string{"o", "zr"} {
		long := longValue(1, store.MaxLong-len(key))
		put(t, k, tenant, key, long)
		k.same(t, key, long)
	}
	half := longValue(2, store.MaxBatch/2)
	for name, batch := range map[string]store.Batch{
		"value":       {Put: pairs("r", longValue(1, store.MaxLong))},
		"sum":         {Put: pairs("r", half, "o1", half)},
		"plain value": {Put: pairs("plain key", longValue(1, store.MaxValue+1))},
	} {
		wantError(t, name, k.Commit(t.Context(), tenant, batch), store.ErrTooLarge)
	}
	put(t, k, tenant, "plain key", longValue(1, store.MaxValue))
	whole := longValue(3, store.MaxBatch/2-2)
	put(t, k, tenant, "o2", whole, "o3", whole)
	k.same(t, "o3", whole)
	for _, key := range []string{"\xff\xff\xff\xff", "z\xff\xff\xff\xffo", "\xff\xff\xff\xffany"} {
		wantError(t, "a reserved key", k.Commit(t.Context(), tenant, store.Batch{Put: pairs(key, "v")}), store.ErrReserved)
		wantError(t, "a reserved key", k.Commit(t.Context(), tenant, store.Batch{Delete: [][]byte{b(key)}}), store.ErrReserved)
	}
}

func testLongSnapshot(t *testing.T, k *longKit) {
	long := longValue(1, 2*store.MaxValue)
	put(t, k, tenant, "a", "1", "r", long)
	put(t, k, tenant, "zr", long)
	put(t, k, "other", "o", long)
	got := walk(t, k.Store)
	if len(got) != 2 || len(got[tenant]) != 3 || string(got[tenant][1].Value) != long || string(got[tenant][2].Value) != long ||
		string(got["other"][0].Value) != long {
		t.Errorf("a walk shows %d and %d records", len(got[tenant]), len(got["other"]))
	}
	// A rest that belongs to nothing is shown.
	stray := store.Pair{Key: b("\xff\xff\xff\xffgone\x00\x01"), Value: b("?")}
	if err := k.watched.Commit(t.Context(), tenant, store.Batch{Put: []store.Pair{stray}}); err != nil {
		t.Fatal(err)
	}
	if got := walk(t, k.Store)[tenant]; len(got) != 4 || !bytes.Equal(got[3].Key, stray.Key) {
		t.Errorf("a walk shows %d records", len(got))
	}
	err := store.Snapshot(t.Context(), k.Store, func(_ string, it store.Item) error {
		if string(it.Key) == "a" {
			put(t, k, tenant, "r", longValue(2, store.MaxValue))
		}
		return nil
	})
	if !errors.Is(err, store.ErrChanged) && err != nil {
		t.Errorf("changed behind the walk: %v", err)
	} else if err == nil {
		t.Error("a walk does not notice what was changed behind it")
	}
}

// testLongCost counts the reads and commits of the inner store: short values need as many as without Long.
func testLongCost(t *testing.T, k *longKit) {
	put(t, k, tenant, "o", longValue(1, 2*store.MaxValue))
	k.watched.reads, k.watched.commits = 0, 0
	put(t, k, tenant, "o1", "short", "a", "short")
	err := k.Commit(t.Context(), tenant, store.Batch{Expect: []store.Expect{{Key: b("o1"), Value: b("short")}, {Key: b("r")}},
		Put: pairs("r", longValue(2, store.MaxValue)), Delete: [][]byte{b("o1"), b("a")}})
	if err != nil {
		t.Fatal(err)
	}
	if k.watched.reads != 0 || k.watched.commits != 2 {
		t.Errorf("%d reads and %d commits, want 0 and 2", k.watched.reads, k.watched.commits)
	}
	scan(t, k, tenant, store.Range{KeysOnly: true})
	wantAbsent(t, k, tenant, "a")
	if k.watched.reads != 2 {
		t.Errorf("%d reads for keys only and for a key that is absent", k.watched.reads)
	}
}
