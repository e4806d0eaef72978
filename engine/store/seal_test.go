package store_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// stored writes one pair through a seal and returns the sealed store, the inner one, and the stored bytes.
func stored(t *testing.T, tenant string, key, value []byte) (sealed, inner store.Store, raw []byte) {
	t.Helper()
	inner = memstore.New()
	sealed = store.Seal(inner)
	write(t, sealed, tenant, key, value)
	return sealed, inner, read(t, inner, tenant, key).Value
}

func write(t *testing.T, s store.Store, tenant string, key, value []byte) {
	t.Helper()
	if err := s.Commit(t.Context(), tenant, store.Batch{Put: []store.Pair{{Key: key, Value: value}}}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// read reads a key by itself and in a range, and checks that both agree.
func read(t *testing.T, s store.Store, tenant string, key []byte) store.Item {
	t.Helper()
	q := store.Query{Keys: [][]byte{key}, Ranges: []store.Range{{From: key, To: append(bytes.Clone(key), 0)}}}
	res, err := s.Read(t.Context(), tenant, q)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	it := res.Keys[0]
	if !reflect.DeepEqual(res.Ranges[0], res.Keys) {
		t.Fatalf("a key answers %+v, a range %+v", it, res.Ranges[0])
	}
	return it
}

func wantDamaged(t *testing.T, s store.Store, tenant string, key []byte, how string) {
	t.Helper()
	if it := read(t, s, tenant, key); !it.Damaged || it.Value != nil {
		t.Errorf("%s is read as %+v", how, it)
	}
}

func TestSealNoticesEveryFlippedBit(t *testing.T) {
	key := []byte("key")
	for _, value := range []string{"", "v", "a longer value\x00\xff"} {
		sealed, inner, raw := stored(t, "acme", key, []byte(value))
		if it := read(t, sealed, "acme", key); it.Damaged || it.Value == nil || string(it.Value) != value {
			t.Fatalf("a whole value is read as %+v", it)
		}
		for bit := range 8 * len(raw) {
			raw[bit/8] ^= 1 << (bit % 8)
			write(t, inner, "acme", key, raw)
			raw[bit/8] ^= 1 << (bit % 8)
			wantDamaged(t, sealed, "acme", key, "a flipped bit")
		}
		for n := range raw {
			write(t, inner, "acme", key, raw[:n])
			wantDamaged(t, sealed, "acme", key, "a cut value")
		}
		write(t, inner, "acme", key, raw)
		if it := read(t, sealed, "acme", key); it.Damaged {
			t.Error("a repaired value is still damaged")
		}
	}
}

func TestSealNoticesAnotherKeysValue(t *testing.T) {
	sealed, inner, raw := stored(t, "acme", []byte("key"), []byte("value"))
	for _, c := range []struct{ tenant, key string }{
		{"acme", "kez"}, {"acme", "ke"}, {"acmf", "key"}, {"acmek", "ey"}, {"acm", "ekey"}, {"", "acmekey"}, {"acme", ""},
	} {
		write(t, inner, c.tenant, []byte(c.key), raw)
		wantDamaged(t, sealed, c.tenant, []byte(c.key), "another key's value")
	}
	// The same bytes in sequence, split elsewhere.
	write(t, inner, "acme", []byte("keyv"), raw[1:])
	wantDamaged(t, sealed, "acme", []byte("keyv"), "a value shifted into its key")
}

// A walk over a sealed store marks damaged records, and fails for a store without snapshots.
func TestSealedSnapshot(t *testing.T) {
	sealed, inner, raw := stored(t, "acme", []byte("key"), []byte("value"))
	write(t, sealed, "acme", []byte("other"), []byte("whole"))
	write(t, inner, "acmf", []byte("key"), raw)
	want := map[string]store.Item{"acme key": {Value: []byte("value")}, "acme other": {Value: []byte("whole")},
		"acmf key": {Damaged: true}}
	walk := func() {
		seen := 0
		err := store.Snapshot(t.Context(), sealed, func(tenant string, it store.Item) error {
			w := want[tenant+" "+string(it.Key)]
			seen++
			if it.Damaged != w.Damaged || !bytes.Equal(it.Value, w.Value) {
				t.Errorf("%s %s comes as %+v", tenant, it.Key, it)
			}
			return nil
		})
		if err != nil || seen != len(want) {
			t.Errorf("%d records, error %v", seen, err)
		}
	}
	walk()
	raw[0] ^= 1
	write(t, inner, "acme", []byte("key"), raw)
	want["acme key"] = store.Item{Damaged: true}
	walk()
	unable := store.Seal(struct{ store.Store }{inner})
	if err := store.Snapshot(t.Context(), unable, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store without Snapshot answers %v", err)
	}
}

func TestSealDoesNotBuildOnDamage(t *testing.T) {
	key, value := []byte("key"), []byte("value")
	sealed, inner, raw := stored(t, "acme", key, value)
	raw[0] ^= 1
	write(t, inner, "acme", key, raw)
	for _, expected := range [][]byte{nil, value, raw[:len(value)]} {
		b := store.Batch{Expect: []store.Expect{{Key: key, Value: expected}}, Put: []store.Pair{{Key: key, Value: value}}}
		if err := sealed.Commit(t.Context(), "acme", b); !errors.As(err, new(*store.ConflictError)) {
			t.Errorf("a commit that expects %q of a damaged key: %v", expected, err)
		}
	}
	write(t, sealed, "acme", key, value)
	if it := read(t, sealed, "acme", key); it.Damaged {
		t.Error("writing a damaged key anew does not help")
	}
}

// FuzzSeal reads arbitrary bytes through a seal: the result is what was sealed, or Damaged.
func FuzzSeal(f *testing.F) {
	f.Add("acme", []byte("key"), []byte("value"), []byte("value"))
	f.Add("", []byte{}, []byte{}, []byte{})
	f.Add("t", []byte("z\x00"), []byte("v"), []byte("v\x00\x00\x00\x00"))
	f.Add("t", []byte{0xff}, []byte("four"), []byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, tenant string, key, value, found []byte) {
		if len(tenant) > store.MaxTenant || len(key) >= store.MaxKey {
			t.Skip()
		}
		sealed, inner, raw := stored(t, tenant, key, value)
		if it := read(t, sealed, tenant, key); it.Damaged || it.Value == nil || !bytes.Equal(it.Value, value) {
			t.Fatalf("sealed %q, read %+v", value, it)
		}
		write(t, inner, tenant, key, found)
		// By chance one in 2^32 would match; the fuzzer only finds one that was made by hand.
		if it := read(t, sealed, tenant, key); it.Damaged == bytes.Equal(found, raw) {
			t.Fatalf("found %q under a seal, read %+v", found, it)
		}
	})
}
