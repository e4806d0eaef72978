package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

func OpenBadger(b *testing.B, dir string) *badgerstore.Store {
	b.Helper()
	db, err := badgerstore.Open(badgerstore.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	return db
}

func Raw(messages ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, m := range messages {
		out = append(out, json.RawMessage(m))
	}
	return out
}

// FullDisk is a store that, while full, refuses to write as the default one does.
type FullDisk struct {
	store.Store
	Full atomic.Bool
}

func (d *FullDisk) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if d.Full.Load() && len(b.Put) > 0 {
		return store.ErrNoSpace
	}
	return d.Store.Commit(ctx, tenant, b)
}

// Broken is a store that returns some values changed, like a failing disk.
type Broken struct {
	store.Store
	mu     sync.Mutex
	spoils func(key []byte) bool
}

func (b *Broken) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	r, err := b.Store.Read(ctx, tenant, q)
	b.mu.Lock()
	defer b.mu.Unlock()
	spoil := func(items []store.Item) {
		for i := range items {
			if b.spoils != nil && items[i].Value != nil && b.spoils(items[i].Key) {
				items[i].Value = append([]byte("x"), items[i].Value...)
			}
		}
	}
	spoil(r.Keys)
	for _, items := range r.Ranges {
		spoil(items)
	}
	return r, err
}

func (b *Broken) Spoil(f func(key []byte) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spoils = f
}

// Damage flips a byte of the stored records that begin like a memory's and whose value holds the word.
func (k *Kit) Damage(word string) {
	k.Helper()
	r, err := k.Store.Read(k.Context(), ident.DefaultTenant, store.Query{Ranges: []store.Range{{}}})
	if err != nil {
		k.Fatal(err)
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		key := strings.TrimPrefix(string(it.Key), "\xff\xff\xff\xff") // of a rest
		if strings.HasPrefix(key, "e\x00r") && strings.Contains(string(it.Value), word) {
			flipped := append([]byte(nil), it.Value...)
			flipped[len(flipped)/2] ^= 1
			b.Put = append(b.Put, store.Pair{Key: it.Key, Value: flipped})
		}
	}
	if len(b.Put) == 0 {
		k.Fatalf("no memory holds %q", word)
	}
	if err := k.Store.Commit(k.Context(), ident.DefaultTenant, b); err != nil {
		k.Fatal(err)
	}
}

// Everything reads all records of a tenant.
func (k *Kit) Everything(tenant string) []store.Item {
	k.Helper()
	r, err := store.Seal(k.Store).Read(k.Context(), tenant, store.Query{Ranges: []store.Range{{}}})
	if err != nil {
		k.Fatal(err)
	}
	return r.Ranges[0]
}

func (k *Kit) Holds(tenant, word string) bool {
	for _, it := range k.Everything(tenant) {
		if bytes.Contains(it.Value, []byte(word)) || bytes.Contains(it.Key, []byte(word)) {
			return true
		}
	}
	return false
}

func WantKind(t testing.TB, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("got %v, want an error of kind %d", err, kind)
	}
	return e
}

// Verify checks the kit's store.
func (k *Kit) Verify() *verify.Report { k.Helper(); return Verified(k, k.Store) }

// Sound wants no finding in the whole store.
func (k *Kit) Sound() {
	k.Helper()
	if r := k.Verify(); len(r.Findings) > 0 {
		k.Errorf("%d findings, the first is %+v", len(r.Findings), r.Findings[0])
	}
}

func Verified(t testing.TB, raw store.Store) *verify.Report {
	t.Helper()
	r, err := engine.Verify(t.Context(), store.Seal(raw))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Counting is a store that counts round trips.
type Counting struct {
	store.Store
	mu             sync.Mutex
	Reads, Commits int
}

// Commit counts a commit.
func (c *Counting) Commit(ctx context.Context, tenant string, b store.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Commits++
	return c.Store.Commit(ctx, tenant, b)
}

// Read counts a read.
func (c *Counting) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Reads++
	return c.Store.Read(ctx, tenant, q)
}

// Reset counts from zero again.
func (c *Counting) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Reads, c.Commits = 0, 0
}
