package records

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// In any order of puts, deletes and reads, the reads of a transaction return what its commit leaves, and its
// preconditions are what the store held.
func TestTxReadsItsWrites(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		db := New(store.Seal(memstore.New()), nil, nil, nil, true)
		held := map[string]string{}
		keys := []int{12, 4 * fewTxKeys}[seed%2]
		for range 20 {
			x := &Tx{Ctx: t.Context(), DB: db, Tenant: "t", Now: db.Now()}
			before, model := maps.Clone(held), maps.Clone(held)
			done := ""
			for range r.IntN(5 * keys) {
				key, value := fmt.Sprint("k", r.IntN(keys)), fmt.Sprint(r.IntN(100))
				switch r.IntN(3) {
				case 0:
					x.Put([]byte(key), []byte(value))
					model[key] = value
					done += " put " + key + "=" + value
				case 1:
					x.Delete([]byte(key))
					delete(model, key)
					done += " delete " + key
				default:
					got, err := x.Get([]byte(key), []byte("other"))
					want, there := model[key]
					done += " get " + key
					if err != nil || (got[0].Value != nil) != there || string(got[0].Value) != want || string(got[0].Key) != key {
						t.Fatalf("seed %d:%s: %q, want %q; %v", seed, done, got[0].Value, want, err)
					}
				}
			}
			for _, expect := range x.Batch.Expect {
				want, there := before[string(expect.Key)]
				if (expect.Value != nil) != there || string(expect.Value) != want {
					t.Fatalf("seed %d:%s: %q is expected as %q, the store held %q", seed, done, expect.Key, expect.Value, want)
				}
			}
			if n := x.Writes(); n > keys {
				t.Fatalf("seed %d:%s: %d writes of %d keys", seed, done, n, keys)
			}
			if err := db.Store.Commit(t.Context(), "t", x.Batch); err != nil {
				t.Fatalf("seed %d:%s: %v", seed, done, err)
			}
			held = model
			if got := storedIn(t, db.Store); !slices.Equal(got, pairsOf(held)) {
				t.Fatalf("seed %d:%s: the store holds %q, want %q", seed, done, got, pairsOf(held))
			}
		}
	}
}

// A record that was read is a precondition even if the same transaction writes it: another writer of the key wins.
func TestTxExpectsWhatItOverwrites(t *testing.T) {
	db := New(store.Seal(memstore.New()), nil, nil, nil, true)
	x := &Tx{Ctx: t.Context(), DB: db, Tenant: "t", Now: db.Now()}
	x.Put([]byte("k"), nil)
	got, err := x.Get([]byte("k"))
	if err != nil || got[0].Value == nil {
		t.Fatalf("an empty value that was put is read as absent: %v", err)
	}
	other := store.Batch{Put: []store.Pair{{Key: []byte("k"), Value: []byte("theirs")}}}
	if err := db.Store.Commit(t.Context(), "t", other); err != nil {
		t.Fatal(err)
	}
	if err := db.Store.Commit(t.Context(), "t", x.Batch); LostRace(err) != nil || err == nil {
		t.Errorf("%v, want a conflict", err)
	}
}

func pairsOf(m map[string]string) (out []string) {
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

func storedIn(t *testing.T, s store.Store) (out []string) {
	r, err := s.Read(t.Context(), "t", store.Query{Ranges: []store.Range{{}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range r.Ranges[0] {
		out = append(out, string(it.Key)+"="+string(it.Value))
	}
	slices.Sort(out)
	return out
}
