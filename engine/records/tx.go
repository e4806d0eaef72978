package records

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxAttempts bounds the retries of one optimistic update. Only other writers' successes cause a retry, so reaching
// it means the record is very contended, not that nothing moves.
const maxAttempts = 64

// Tx collects one atomic change. What it reads it also expects unchanged at commit.
type Tx struct {
	Ctx    context.Context
	DB     *DB
	Tenant string
	Live   ident.Incarnation // the tenant's
	Now    time.Time
	Batch  store.Batch
	keys   map[string]txKey // those that it has read or writes
}

// txKey is what a tx knows of a key.
type txKey struct {
	read bool       // The precondition is in the batch, unless the record is damaged.
	was  store.Item // The store held this, where it was read.
	// Put and Delete of the batch hold the key's write at one less than this. 0 means that there is none.
	put, deleted int
}

// expectLive makes it a precondition that the tenant is the one that the caller's key was made in: nothing is written
// into a tenant behind its deletion, or into the next one of its name.
func (t *Tx) expectLive(c access.Caller) error {
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

// Get reads keys as the batch leaves them. What the store holds is a precondition of the commit, also where the batch
// writes the key.
func (t *Tx) Get(keys ...[]byte) ([]store.Item, error) {
	out, err := t.Look(keys...)
	if i := slices.IndexFunc(out, func(it store.Item) bool { return it.Damaged }); i >= 0 {
		return nil, damaged(t.Tenant, out[i].Key)
	}
	return out, err
}

// Look is get for records that can be made again. A damaged one comes as such and is no precondition, because nobody
// knows its bytes. Keys that were read before are not read again.
func (t *Tx) Look(keys ...[]byte) ([]store.Item, error) {
	var ask [][]byte
	for _, key := range keys {
		if !t.keys[string(key)].read {
			ask = append(ask, key)
		}
	}
	if len(ask) > 0 {
		r, err := t.DB.Store.Read(t.Ctx, t.Tenant, store.Query{Keys: ask})
		if err != nil {
			return nil, err
		}
		for _, it := range r.Keys {
			k := t.keys[string(it.Key)]
			k.read, k.was = true, it
			t.know(it.Key, k)
			if !it.Damaged {
				t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: it.Key, Value: it.Value})
			}
		}
	}
	out := make([]store.Item, len(keys))
	for i, key := range keys {
		out[i] = t.Left(t.keys[string(key)].was)
	}
	return out, nil
}

// Left gives a record that was read as the batch leaves it.
func (t *Tx) Left(it store.Item) store.Item {
	switch k := t.keys[string(it.Key)]; {
	case k.put > 0:
		return store.Item{Key: it.Key, Value: append([]byte{}, t.Batch.Put[k.put-1].Value...)}
	case k.deleted > 0:
		return store.Item{Key: it.Key}
	}
	return it
}

func (t *Tx) know(key []byte, k txKey) {
	if t.keys == nil {
		t.keys = make(map[string]txKey, 16)
	}
	t.keys[string(key)] = k
}

// Put writes a key. The last write of a key in a batch is the one that counts.
func (t *Tx) Put(key, value []byte) {
	k := t.unwritten(key)
	t.Batch.Put = append(t.Batch.Put, store.Pair{Key: key, Value: value})
	k.put = len(t.Batch.Put)
	t.know(key, k)
}

func (t *Tx) Delete(key []byte) {
	k := t.unwritten(key)
	t.Batch.Delete = append(t.Batch.Delete, key)
	k.deleted = len(t.Batch.Delete)
	t.know(key, k)
}

// unwritten takes an earlier write of a key out of the batch; the last write takes its place in the list.
func (t *Tx) unwritten(key []byte) txKey {
	k := t.keys[string(key)]
	if n := len(t.Batch.Put); k.put > 0 {
		last := t.Batch.Put[n-1]
		t.Batch.Put[k.put-1] = last
		t.Batch.Put = t.Batch.Put[:n-1]
		moved := t.keys[string(last.Key)]
		moved.put = k.put
		t.keys[string(last.Key)] = moved
	}
	if n := len(t.Batch.Delete); k.deleted > 0 {
		last := t.Batch.Delete[n-1]
		t.Batch.Delete[k.deleted-1] = last
		t.Batch.Delete = t.Batch.Delete[:n-1]
		moved := t.keys[string(last)]
		moved.deleted = k.deleted
		t.keys[string(last)] = moved
	}
	k.put, k.deleted = 0, 0
	return k
}

func (t *Tx) PutJSON(key []byte, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		t.Put(key, b)
	}
	return err
}

func (t *Tx) Writes() int { return len(t.Batch.Put) + len(t.Batch.Delete) }

// Bytes is the size of what is to be put.
func (t *Tx) Bytes() (n int) {
	for _, p := range t.Batch.Put {
		n += len(p.Key) + len(p.Value)
	}
	return n
}

func ErrUnknownKey() error {
	return fault.Errorf(fault.Unauthorized, "unknown_key", "the key is unknown, expired or deleted")
}

// Update runs fn and commits what it collected, again from the start while other writers win. With once, the answer
// is stored in the same commit and given again to the same request.
func Update[T any](ctx context.Context, db *DB, c access.Caller, once access.Once, fn func(*Tx) (T, error)) (T, error) {
	var zero T
	record := onceKey(once, c)
	for range maxAttempts {
		t := &Tx{Ctx: ctx, DB: db, Tenant: c.Tenant, Now: db.Now()}
		if record != nil { // first, so that its conflict is index 0
			t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: record})
		}
		if err := t.expectLive(c); err != nil {
			return zero, err
		}
		out, err := fn(t)
		if err != nil {
			// The first answer wins over an error that a second run meets because the first succeeded.
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
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) {
			return out, err
		}
		if i := conflict.Index; string(t.Batch.Expect[i].Key) == string(Live.Key()) {
			return zero, ErrUnknownKey() // the tenant was deleted meanwhile, and the key with it
		}
		if record != nil && conflict.Index == 0 {
			prior, found, err := given[T](ctx, db, c.Tenant, record, once)
			if found || err != nil {
				return prior, err
			}
		}
	}
	return zero, fault.Errorf(fault.Unavailable, "contended", "other writers kept winning; try again")
}
