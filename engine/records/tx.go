package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxAttempts limits the retries of one optimistic update. Only successes of other writers cause a retry, so reaching
// the limit means that the record is very contended, not that the system is stuck.
const maxAttempts = 64

// After quickRetries conflicts, an update waits before each further attempt: a random time whose upper bound doubles
// up to maxPause. Writers in one process queue if they know that they would conflict; this is for writers in several
// processes.
const (
	quickRetries = 4
	maxPause     = 64 * time.Millisecond
)

// pause waits before an attempt. It returns the error of ctx if ctx ends first.
func pause(ctx context.Context, attempt int) error {
	if attempt < quickRetries {
		return nil
	}
	bound := min(time.Millisecond<<min(attempt-quickRetries, 10), maxPause)
	select {
	case <-time.After(rand.N(bound)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Tx collects one atomic change in a tenant's space. Its reads see its own writes, and what it has read must be
// unchanged when it is committed. Update creates and commits it.
type Tx struct {
	Ctx    context.Context
	DB     *DB
	Tenant string
	Live   ident.Incarnation // of the tenant; zero in the system space
	Now    time.Time         // the same time for all records of the change
	Batch  store.Batch
	Tried  int    // how often another writer was faster
	Done   func() // called after the commit; may be nil
	keys   txKeys
}

// Begin returns a Tx for reading, or for work that builds a batch and commits it itself. It does not check that the
// tenant exists.
func (db *DB) Begin(ctx context.Context, tenant string) *Tx {
	return &Tx{Ctx: ctx, DB: db, Tenant: tenant, Now: db.Now()}
}

// expectLive makes it a precondition that the tenant is the one in which the caller's key was made. Nothing is
// written into a deleted tenant, or into a new one of the same name. It fails with not_found.
func (t *Tx) expectLive(c ident.Caller) error {
	if t.Tenant == SystemTenant {
		return nil
	}
	if t.Live = c.Incarnation; t.Live == (ident.Incarnation{}) {
		r, err := t.DB.Store.Read(t.Ctx, t.Tenant, store.Query{Keys: [][]byte{Live.Key()}})
		if err != nil {
			return err
		}
		if len(r.Keys[0].Value) != len(t.Live) {
			return fault.Errorf(fault.NotFound, "not_found", "no tenant %q", t.Tenant)
		}
		t.Live = ident.Incarnation(r.Keys[0].Value)
	}
	t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: Live.Key(), Value: t.Live[:]})
	return nil
}

// Get reads records as the change leaves them. The stored records become preconditions of the commit, even if the
// change writes their keys. It fails with ErrDamaged if one of them is damaged.
func (t *Tx) Get(keys ...[]byte) ([]store.Item, error) {
	out, err := t.Look(keys...)
	if i := slices.IndexFunc(out, func(it store.Item) bool { return it.Damaged }); i >= 0 {
		return nil, damaged(t.Tenant, out[i].Key)
	}
	return out, err
}

// Look is Get for records that can be rebuilt. It returns a damaged record as such. That record is not a
// precondition, because its bytes are unknown. Keys that the Tx has read before are not read again.
func (t *Tx) Look(keys ...[]byte) ([]store.Item, error) {
	var ask [][]byte
	for _, key := range keys {
		if k := t.keys.find(key); k == nil || !k.read {
			ask = append(ask, key)
		}
	}
	if len(ask) > 0 {
		r, err := t.DB.Store.Read(t.Ctx, t.Tenant, store.Query{Keys: ask})
		if err != nil {
			return nil, err
		}
		for _, it := range r.Keys {
			k := t.keys.of(it.Key)
			k.read, k.was, k.damaged = true, it.Value, it.Damaged
			if !it.Damaged {
				t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: it.Key, Value: it.Value})
			}
		}
	}
	out := make([]store.Item, len(keys))
	for i, key := range keys {
		k := t.keys.find(key)
		out[i] = t.Left(store.Item{Key: k.key, Value: k.was, Damaged: k.damaged})
	}
	return out, nil
}

// Left returns a record, which was read in another way, as the change leaves it.
func (t *Tx) Left(it store.Item) store.Item {
	switch k := t.keys.find(it.Key); {
	case k == nil:
	case k.put > 0:
		return store.Item{Key: it.Key, Value: append([]byte{}, t.Batch.Put[k.put-1].Value...)}
	case k.deleted > 0:
		return store.Item{Key: it.Key}
	}
	return it
}

// Put writes a record. If a change writes a key several times, the last write counts.
func (t *Tx) Put(key, value []byte) {
	k := t.unwritten(key)
	t.Batch.Put = append(t.Batch.Put, store.Pair{Key: key, Value: value})
	k.put = int32(len(t.Batch.Put))
}

// Delete removes a record. It does nothing if there is none.
func (t *Tx) Delete(key []byte) {
	k := t.unwritten(key)
	t.Batch.Delete = append(t.Batch.Delete, key)
	k.deleted = int32(len(t.Batch.Delete))
}

// unwritten removes an earlier write of the key from the batch; the last write of the list takes its index.
func (t *Tx) unwritten(key []byte) *txKey {
	k := t.keys.of(key)
	n := len(t.Batch.Put)
	if k.put > 0 {
		last := t.Batch.Put[n-1]
		t.Batch.Put[k.put-1] = last
		t.Batch.Put = t.Batch.Put[:n-1]
		t.keys.find(last.Key).put = k.put
	}
	deleted := len(t.Batch.Delete)
	if k.deleted > 0 {
		last := t.Batch.Delete[deleted-1]
		t.Batch.Delete[k.deleted-1] = last
		t.Batch.Delete = t.Batch.Delete[:deleted-1]
		t.keys.find(last).deleted = k.deleted
	}
	k.put, k.deleted = 0, 0
	return k
}

// PutJSON writes a record as JSON.
func (t *Tx) PutJSON(key []byte, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		t.Put(key, b)
	}
	return err
}

// Writes returns the number of records that the change writes or deletes.
func (t *Tx) Writes() int { return len(t.Batch.Put) + len(t.Batch.Delete) }

// Bytes returns the size of all keys and values that the change writes.
func (t *Tx) Bytes() (n int) {
	for _, p := range t.Batch.Put {
		n += len(p.Key) + len(p.Value)
	}
	return n
}

// ErrUnknownKey returns the error for an API key that is unknown, has expired or was deleted.
func ErrUnknownKey() error {
	return fault.Errorf(fault.Unauthorized, "unknown_key", "the key is unknown, expired or deleted")
}

// Update calls fn, commits what fn collected, and returns fn's result. If another writer changed what fn had read, it
// calls fn again, so fn may run often and must have no effect outside the Tx. Without writes nothing is committed.
//
// With once, the result is stored in the same commit, and a repeated request gets it without running fn; Update then
// fails with idempotency_key_reused and idempotency_sealed as GivenBefore does. It fails with unknown_key if the
// caller's tenant was deleted, with contended if other writers were always faster, and with the errors of Worded if
// the store refuses.
func Update[T any](ctx context.Context, db *DB, c ident.Caller, once ident.Once, fn func(*Tx) (T, error)) (T, error) {
	var zero T
	record := onceKey(once, c)
	for attempt := range maxAttempts {
		if err := pause(ctx, attempt); err != nil {
			return zero, err
		}
		t := db.Begin(ctx, c.Tenant)
		t.Tried = attempt
		if record != nil { // first, so that its conflict has index 0
			t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: record})
		}
		if err := t.expectLive(c); err != nil {
			return zero, err
		}
		out, err := fn(t)
		if err != nil {
			// The first answer takes precedence over an error that a second run gets because the first succeeded.
			if record != nil {
				if prior, found, perr := given[T](ctx, db, c.Tenant, record, once); perr != nil || found {
					return prior, perr
				}
			}
			return zero, err
		}
		if record != nil {
			b, err := db.sealOnce(once, out)
			if err != nil {
				return zero, err
			}
			t.Put(record, b)
			t.Put(Expiry.Key(t.Now.Add(OnceLife), record), []byte{0})
		}
		if t.Writes() == 0 {
			return out, nil
		}
		err = db.Commit(ctx, c.Tenant, t.Batch)
		conflict, lost := errors.AsType[*store.ConflictError](err)
		if !lost {
			if err == nil && t.Done != nil {
				t.Done()
			}
			return out, err
		}
		if bytes.Equal(t.Batch.Expect[conflict.Index].Key, Live.Key()) {
			return zero, ErrUnknownKey() // the tenant and its keys were deleted meanwhile
		}
		if record != nil && conflict.Index == 0 {
			if prior, found, err := given[T](ctx, db, c.Tenant, record, once); found || err != nil {
				return prior, err
			}
		}
	}
	return zero, fault.Errorf(fault.Unavailable, "contended", "other writers kept winning; try again")
}
