package records

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

type note struct{ N int }

// newRecords returns a DB with n notes under the keys of a project's sessions.
func newRecords(t *testing.T, n int) (*DB, store.Store) {
	t.Helper()
	raw := memstore.New()
	db := New(store.Seal(raw), nil, nil, nil, true)
	var b store.Batch
	for i := range n {
		b.Put = append(b.Put, store.Pair{Key: noteKey(i), Value: fmt.Appendf(nil, `{"N":%d}`, i)})
	}
	b.Put = append(b.Put, store.Pair{Key: Live.Key(), Value: make([]byte, 8)})
	if err := db.Store.Commit(t.Context(), "acme", b); err != nil {
		t.Fatal(err)
	}
	return db, raw
}

var notes = ident.Incarnation{7}

func noteKey(i int) []byte { return Session.Key(notes, fmt.Sprintf("s-%04d", i)) }

// damage makes a record fail its checksum.
func damage(t *testing.T, raw store.Store, key []byte) {
	t.Helper()
	put(t, raw, key, "rubbish")
}

func put(t *testing.T, s store.Store, key []byte, value string) {
	t.Helper()
	if err := s.Commit(t.Context(), "acme", store.Batch{Put: []store.Pair{{Key: key, Value: []byte(value)}}}); err != nil {
		t.Fatal(err)
	}
}

func TestGet(t *testing.T) {
	db, raw := newRecords(t, 3)
	damage(t, raw, noteKey(1))
	put(t, db.Store, noteKey(2), "{")
	var m Memo[note]
	for name, read := range map[string]func(key []byte) (*note, error){
		"get":  func(key []byte) (*note, error) { return Get[note](t.Context(), db, "acme", key) },
		"memo": func(key []byte) (*note, error) { return m.Get(t.Context(), db, "acme", string(key), key) },
		"tx": func(key []byte) (*note, error) {
			return GetTx[note](&Tx{Ctx: t.Context(), DB: db, Tenant: "acme"}, key)
		},
	} {
		if got, err := read(noteKey(0)); err != nil || got == nil || got.N != 0 {
			t.Errorf("%s: a record is %v, %v", name, got, err)
		}
		got, err := read(noteKey(1))
		if got != nil || !errors.Is(err, ErrDamaged) || !strings.HasSuffix(err.Error(), "session") {
			t.Errorf("%s: a damaged record is %v, %v", name, got, err)
		}
		if got, err := read(noteKey(2)); got != nil || err == nil || errors.Is(err, ErrDamaged) {
			t.Errorf("%s: a record that does not decode is %v, %v", name, got, err)
		}
		if got, err := read(noteKey(3)); got != nil || err != nil {
			t.Errorf("%s: no record is %v, %v", name, got, err)
		}
	}
}

// TestEach reads ranges in pieces of every size, forwards and backwards, with some damaged records.
func TestEach(t *testing.T) {
	const n = 10
	db, raw := newRecords(t, n)
	damage(t, raw, noteKey(4))
	for piece := range n + 3 {
		for _, reverse := range []bool{false, true} {
			rng := Session.Under(notes)
			rng.Limit, rng.Reverse = piece, reverse
			var got []int
			bad := 0
			for it, err := range Each[note](t.Context(), db, "acme", rng) {
				if err != nil {
					if !errors.Is(err, ErrDamaged) || it.Value != nil || string(it.Key) != string(noteKey(4)) {
						t.Fatalf("a damaged record: %q, %v", it.Key, err)
					}
					bad++
					continue
				}
				got = append(got, it.Value.N)
			}
			want := []int{0, 1, 2, 3, 5, 6, 7, 8, 9}
			if reverse {
				want = []int{9, 8, 7, 6, 5, 3, 2, 1, 0}
			}
			if !reflect.DeepEqual(got, want) || bad != 1 {
				t.Errorf("in pieces of %d, reverse %t: %v and %d damaged ones", piece, reverse, got, bad)
			}
		}
	}
}

// TestScanSeesChanges deletes and adds records during a scan.
func TestScanSeesChanges(t *testing.T) {
	db, _ := newRecords(t, 6)
	rng := Session.Under(notes)
	rng.Limit = 2
	var got []string
	for it, err := range db.Scan(t.Context(), "acme", rng) {
		if err != nil {
			t.Fatal(err)
		}
		_, id, _ := Session.Split(it.Key)
		if got = append(got, id); len(got) != 2 {
			continue
		}
		put(t, db.Store, noteKey(6), "{}")
		err := db.Store.Commit(t.Context(), "acme", store.Batch{Delete: [][]byte{noteKey(1), noteKey(2)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"s-0000", "s-0001", "s-0003", "s-0004", "s-0005", "s-0006"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the scan saw %v", got)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, err := range db.Scan(ended, "acme", rng) {
		if err == nil {
			t.Error("a scan goes on behind the end of its context")
		}
	}
}

// TestListPage pages through records of which every third is omitted.
func TestListPage(t *testing.T) {
	const n = 20
	db, raw := newRecords(t, n)
	show := func(key []byte, v *note) (string, bool) {
		_, id, _ := Session.Split(key)
		return fmt.Sprint(id, "=", v.N), v.N%3 != 0
	}
	list := func(page Page) (List[string], error) {
		return ListPage(t.Context(), db, "acme", Session.Under(notes), page, show)
	}
	var want []string
	for i := range n {
		if i%3 != 0 {
			want = append(want, fmt.Sprintf("s-%04d=%d", i, i))
		}
	}
	for limit := 1; limit <= n; limit++ {
		var got []string
		for page := (Page{Limit: limit}); ; {
			out, err := list(page)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, out.Data...)
			if out.HasMore != (out.NextCursor != nil) || out.HasMore && len(out.Data) != limit {
				t.Fatalf("pages of %d: one of %d, more: %t", limit, len(out.Data), out.HasMore)
			}
			if !out.HasMore {
				break
			}
			page.Cursor = *out.NextCursor
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("pages of %d: %v", limit, got)
		}
	}
	for _, bad := range []Page{{Limit: -1}, {Limit: maxPage + 1}, {Cursor: "?"}, {Cursor: strings.Repeat("A", 4*maxCursor/3+4)}} {
		var refused *fault.Error
		if _, err := list(bad); !errors.As(err, &refused) || refused.Kind != fault.Invalid {
			t.Errorf("page %+v: %v", bad, err)
		}
	}
	first, err := list(Page{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	damage(t, raw, noteKey(15))
	if _, err := list(Page{Limit: 2, Cursor: *first.NextCursor}); err != nil {
		t.Errorf("a page before a damaged record: %v", err)
	}
	if _, err := list(Page{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a page with a damaged record: %v", err)
	}
}

// TestUpdateRuns counts how often an update runs: again if another writer was faster.
func TestUpdateRuns(t *testing.T) {
	db, raw := newRecords(t, 2)
	add := func(between func()) (note, error) {
		return Update(t.Context(), db, ident.Caller{Tenant: "acme"}, ident.Once{}, func(t *Tx) (note, error) {
			n, err := GetTx[note](t, noteKey(1))
			if err != nil {
				return note{}, err
			}
			between()
			n.N++
			return *n, t.PutJSON(noteKey(1), n)
		})
	}
	runs := 0
	out, err := add(func() {
		if runs++; runs < 3 {
			if _, err := add(func() {}); err != nil {
				t.Fatal(err)
			}
		}
	})
	stored, _ := Get[note](t.Context(), db, "acme", noteKey(1))
	if err != nil || out.N != 4 || runs != 3 || *stored != out {
		t.Errorf("after %d runs the answer is %v, %v; %v is stored", runs, out, err, stored)
	}
	damage(t, raw, noteKey(1))
	if _, err := add(func() {}); !errors.Is(err, ErrDamaged) {
		t.Errorf("an update of a damaged record: %v", err)
	}
	other := ident.Caller{Tenant: "acme", Incarnation: ident.Incarnation{1}}
	_, err = Update(t.Context(), db, other, ident.Once{}, func(t *Tx) (note, error) {
		t.Put(noteKey(0), []byte("{}"))
		return note{}, nil
	})
	if refused := (*fault.Error)(nil); !errors.As(err, &refused) || refused.Kind != fault.Unauthorized {
		t.Errorf("an update in a tenant made anew: %v", err)
	}
}
