package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

type note struct{ N int }

// newRecords makes an engine that has only its records, with n notes under the keys of a project's sessions.
func newRecords(t *testing.T, n int) (*Engine, store.Store) {
	t.Helper()
	raw := memstore.New()
	e := &Engine{store: store.Seal(raw), clock: time.Now, entropy: rand.Reader, log: slog.New(slog.DiscardHandler)}
	var b store.Batch
	for i := range n {
		b.Put = append(b.Put, store.Pair{Key: noteKey(i), Value: fmt.Appendf(nil, `{"N":%d}`, i)})
	}
	b.Put = append(b.Put, store.Pair{Key: kindLive.Key(), Value: make([]byte, 8)})
	if err := e.store.Commit(t.Context(), "acme", b); err != nil {
		t.Fatal(err)
	}
	return e, raw
}

var notes = incarnation{7}

func noteKey(i int) []byte { return kindSession.Key(notes, fmt.Sprintf("s-%04d", i)) }

// damage leaves a record that fails its checksum.
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
	e, raw := newRecords(t, 3)
	damage(t, raw, noteKey(1))
	put(t, e.store, noteKey(2), "{")
	var m memo[note]
	for name, read := range map[string]func(key []byte) (*note, error){
		"get":  func(key []byte) (*note, error) { return get[note](t.Context(), e, "acme", key) },
		"memo": func(key []byte) (*note, error) { return m.get(t.Context(), e, "acme", string(key), key) },
		"tx": func(key []byte) (*note, error) {
			return getTx[note](&tx{ctx: t.Context(), e: e, tenant: "acme"}, key)
		},
	} {
		if got, err := read(noteKey(0)); err != nil || got == nil || got.N != 0 {
			t.Errorf("%s: a record is %v, %v", name, got, err)
		}
		got, err := read(noteKey(1))
		if got != nil || !errors.Is(err, errDamaged) || !strings.HasSuffix(err.Error(), "session") {
			t.Errorf("%s: a damaged record is %v, %v", name, got, err)
		}
		if got, err := read(noteKey(2)); got != nil || err == nil || errors.Is(err, errDamaged) {
			t.Errorf("%s: a record that does not decode is %v, %v", name, got, err)
		}
		if got, err := read(noteKey(3)); got != nil || err != nil {
			t.Errorf("%s: no record is %v, %v", name, got, err)
		}
	}
}

// TestEach reads ranges in pieces of every size, forwards and backwards, with damaged records among them.
func TestEach(t *testing.T) {
	const n = 10
	e, raw := newRecords(t, n)
	damage(t, raw, noteKey(4))
	for piece := range n + 3 {
		for _, reverse := range []bool{false, true} {
			rng := kindSession.Under(notes)
			rng.Limit, rng.Reverse = piece, reverse
			var got []int
			bad := 0
			for it, err := range each[note](t.Context(), e, "acme", rng) {
				if err != nil {
					if !errors.Is(err, errDamaged) || it.Value != nil || string(it.Key) != string(noteKey(4)) {
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

// TestScanSeesChanges deletes and adds records while a scan is under way.
func TestScanSeesChanges(t *testing.T) {
	e, _ := newRecords(t, 6)
	rng := kindSession.Under(notes)
	rng.Limit = 2
	var got []string
	for it, err := range e.scan(t.Context(), "acme", rng) {
		if err != nil {
			t.Fatal(err)
		}
		_, id, _ := kindSession.Split(it.Key)
		if got = append(got, id); len(got) != 2 {
			continue
		}
		put(t, e.store, noteKey(6), "{}")
		err := e.store.Commit(t.Context(), "acme", store.Batch{Delete: [][]byte{noteKey(1), noteKey(2)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"s-0000", "s-0001", "s-0003", "s-0004", "s-0005", "s-0006"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the scan saw %v", got)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, err := range e.scan(ended, "acme", rng) {
		if err == nil {
			t.Error("a scan goes on behind the end of its context")
		}
	}
}

// TestListPage pages through records of which every third is not shown.
func TestListPage(t *testing.T) {
	const n = 20
	e, raw := newRecords(t, n)
	show := func(key []byte, v *note) (string, bool) {
		_, id, _ := kindSession.Split(key)
		return fmt.Sprint(id, "=", v.N), v.N%3 != 0
	}
	list := func(page Page) (List[string], error) {
		return listPage(t.Context(), e, "acme", kindSession.Under(notes), page, show)
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
	for _, bad := range []Page{{Limit: -1}, {Limit: maxPage + 1}, {Cursor: "?"}, {Cursor: strings.Repeat("A", 400)}} {
		var refused *Error
		if _, err := list(bad); !errors.As(err, &refused) || refused.Kind != Invalid {
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
	if _, err := list(Page{}); !errors.Is(err, errDamaged) {
		t.Errorf("a page with a damaged record: %v", err)
	}
}

// TestUpdateRuns counts how often an update runs: again where another writer came between.
func TestUpdateRuns(t *testing.T) {
	e, raw := newRecords(t, 2)
	add := func(between func()) (note, error) {
		return update(t.Context(), e, Caller{Tenant: "acme"}, Once{}, func(t *tx) (note, error) {
			n, err := getTx[note](t, noteKey(1))
			if err != nil {
				return note{}, err
			}
			between()
			n.N++
			return *n, t.putJSON(noteKey(1), n)
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
	stored, _ := get[note](t.Context(), e, "acme", noteKey(1))
	if err != nil || out.N != 4 || runs != 3 || *stored != out {
		t.Errorf("after %d runs the answer is %v, %v; %v is stored", runs, out, err, stored)
	}
	damage(t, raw, noteKey(1))
	if _, err := add(func() {}); !errors.Is(err, errDamaged) {
		t.Errorf("an update of a damaged record: %v", err)
	}
	other := Caller{Tenant: "acme", incarnation: incarnation{1}}
	_, err = update(t.Context(), e, other, Once{}, func(t *tx) (note, error) {
		t.put(noteKey(0), []byte("{}"))
		return note{}, nil
	})
	if refused := (*Error)(nil); !errors.As(err, &refused) || refused.Kind != Unauthorized {
		t.Errorf("an update in a tenant made anew: %v", err)
	}
}
