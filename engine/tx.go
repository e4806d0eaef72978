package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxAttempts bounds the retries of one optimistic update. Only other writers' successes cause a retry, so reaching
// it means the record is very contended, not that nothing moves.
const maxAttempts = 64

// tx collects one atomic change. What it reads it also expects unchanged at commit.
type tx struct {
	ctx    context.Context
	e      *Engine
	tenant string
	live   incarnation // the tenant's
	now    time.Time
	batch  store.Batch
	index  *indexChange // what the batch changes in recall indexes, or nil
}

// expectLive makes it a precondition that the tenant is the one that the caller's key was made in: nothing is written
// into a tenant behind its deletion, or into the next one of its name.
func (t *tx) expectLive(c Caller) error {
	if t.tenant == systemTenant {
		return nil
	}
	if t.live = c.incarnation; t.live == (incarnation{}) {
		r, err := t.e.store.Read(t.ctx, t.tenant, store.Query{Keys: [][]byte{liveKey}})
		if err != nil {
			return err
		}
		if len(r.Keys[0].Value) != len(t.live) {
			return errorf(NotFound, "not_found", "no tenant %q", t.tenant)
		}
		t.live = incarnation(r.Keys[0].Value)
	}
	t.batch.Expect = append(t.batch.Expect, store.Expect{Key: liveKey, Value: t.live[:]})
	return nil
}

// get reads keys from one consistent state and makes their values preconditions of the commit.
func (t *tx) get(keys ...[]byte) ([]store.Item, error) {
	r, err := t.e.store.Read(t.ctx, t.tenant, store.Query{Keys: keys})
	if err != nil {
		return nil, err
	}
	for _, it := range r.Keys {
		if it.Damaged {
			return nil, damaged(t.tenant, it.Key)
		}
		t.batch.Expect = append(t.batch.Expect, store.Expect{Key: it.Key, Value: it.Value})
	}
	return r.Keys, nil
}

func (t *tx) put(key, value []byte) {
	t.batch.Put = append(t.batch.Put, store.Pair{Key: key, Value: value})
}

func (t *tx) putJSON(key []byte, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		t.put(key, b)
	}
	return err
}

func (t *tx) writes() int { return len(t.batch.Put) + len(t.batch.Delete) }

// bytes is the size of what is to be put.
func (t *tx) bytes() (n int) {
	for _, p := range t.batch.Put {
		n += len(p.Key) + len(p.Value)
	}
	return n
}

func (t *tx) delete(key []byte) { t.batch.Delete = append(t.batch.Delete, key) }

func errUnknownKey() error {
	return errorf(Unauthorized, "unknown_key", "the key is unknown, expired or deleted")
}

// update runs fn and commits what it collected, again from the start while other writers win. With once, the answer
// is stored in the same commit and given again to the same request.
func update[T any](ctx context.Context, e *Engine, c Caller, once Once, fn func(*tx) (T, error)) (T, error) {
	var zero T
	record := once.record(c)
	for range maxAttempts {
		t := &tx{ctx: ctx, e: e, tenant: c.Tenant, now: e.now()}
		if record != nil { // first, so that its conflict is index 0
			t.batch.Expect = append(t.batch.Expect, store.Expect{Key: record})
		}
		if err := t.expectLive(c); err != nil {
			return zero, err
		}
		out, err := fn(t)
		if err != nil {
			// The first answer wins over an error that a second run meets because the first succeeded.
			if record != nil {
				if prior, found, perr := given[T](ctx, e, c.Tenant, record, once); perr != nil || found {
					return prior, perr
				}
			}
			return zero, err
		}
		t.putIndex()
		if record != nil {
			b, err := e.sealOnce(once, out)
			if err != nil {
				return zero, err
			}
			t.put(record, b)
			t.put(expiryKey(t.now.Add(onceLife), record), []byte{0})
		}
		if t.writes() == 0 {
			return out, nil
		}
		err = e.commit(ctx, c.Tenant, t.batch)
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) {
			return out, err
		}
		if i := conflict.Index; string(t.batch.Expect[i].Key) == string(liveKey) {
			return zero, errUnknownKey() // the tenant was deleted meanwhile, and the key with it
		}
		if record != nil && conflict.Index == 0 {
			prior, found, err := given[T](ctx, e, c.Tenant, record, once)
			if found || err != nil {
				return prior, err
			}
		}
	}
	return zero, errorf(Unavailable, "contended", "other writers kept winning; try again")
}
