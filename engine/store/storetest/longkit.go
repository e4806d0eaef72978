package storetest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// LongKeys tells which keys of the tests may have long values: those with an r, or with an o if they are put once. Of
// the model's keys, which have neither, all but those that begin with an a.
func LongKeys(key []byte) store.Length {
	switch {
	case bytes.IndexByte(key, 'o') >= 0:
		return store.Once
	case bytes.IndexByte(key, 'r') >= 0, len(key) < 4 && !bytes.HasPrefix(key, b("a")):
		return store.Rewritten
	}
	return store.Plain
}

// ModelPiece is a piece size for which the model's values are long.
const ModelPiece = 32

type longKit struct {
	store.Store
	raw     store.Store // the store below the seal
	watched *watched
}

// watched counts the calls of the store below, and runs a function before a call.
type watched struct {
	store.Store
	reads, commits       int
	beforeRead, beforeIt func(n int)
}

func (w *watched) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	w.reads++
	if w.beforeRead != nil {
		w.beforeRead(w.reads)
	}
	return w.Store.Read(ctx, tenant, q)
}

func (w *watched) Commit(ctx context.Context, tenant string, batch store.Batch) error {
	w.commits++
	if w.beforeIt != nil {
		w.beforeIt(w.commits)
	}
	return w.Store.Commit(ctx, tenant, batch)
}

func (w *watched) Snapshot(ctx context.Context, fn func(tenant string, it store.Item) error) error {
	return store.Snapshot(ctx, w.Store, fn)
}

// longValue returns a value of that length.
func longValue(seed uint64, size int) string {
	random := rand.New(rand.NewPCG(seed, 1))
	v := make([]byte, size)
	for i := range v {
		v[i] = byte(random.Uint32())
	}
	return string(v)
}

// records returns all keys in the tenant's space of the store below.
func (k *longKit) records(t *testing.T) [][]byte {
	t.Helper()
	var keys [][]byte
	for _, it := range scan(t, k.raw, tenant, store.Range{KeysOnly: true})[0] {
		keys = append(keys, it.Key)
	}
	return keys
}

// same is like want, but does not print long values.
func (k *longKit) same(t *testing.T, key, value string) {
	t.Helper()
	if got, ok := get(t, k, tenant, key); !ok || got != value {
		t.Fatalf("key %q holds %d bytes (present: %t), want %d others", key, len(got), ok, len(value))
	}
}
