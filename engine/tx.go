package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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
func (t *tx) expectLive(c Caller) error {
	if t.tenant == systemTenant {
		return nil
	}
	if t.live = c.incarnation; t.live == (incarnation{}) {
		r, err := t.e.store.Read(t.ctx, t.tenant, store.Query{Keys: [][]byte{kindLive.Key()}})
		if err != nil {
			return err
		}
		if len(r.Keys[0].Value) != len(t.live) {
			return errorf(NotFound, "not_found", "no tenant %q", t.tenant)
		}
		t.live = incarnation(r.Keys[0].Value)
	}
	t.batch.Expect = append(t.batch.Expect, store.Expect{Key: kindLive.Key(), Value: t.live[:]})
	return nil
}

// get reads keys as the batch leaves them. What the store holds is a precondition of the commit, also where the batch
// writes the key.
func (t *tx) get(keys ...[]byte) ([]store.Item, error) {
	out, err := t.look(keys...)
	if i := slices.IndexFunc(out, func(it store.Item) bool { return it.Damaged }); i >= 0 {
		return nil, damaged(t.tenant, out[i].Key)
	}
	return out, err
}

// look is get for records that can be made again. A damaged one comes as such and is no precondition, because nobody
// knows its bytes. Keys that were read before are not read again.
func (t *tx) look(keys ...[]byte) ([]store.Item, error) {
	var ask [][]byte
	for _, key := range keys {
		if !t.keys[string(key)].read {
			ask = append(ask, key)
		}
	}
	if len(ask) > 0 {
		r, err := t.e.store.Read(t.ctx, t.tenant, store.Query{Keys: ask})
		if err != nil {
			return nil, err
		}
		for _, it := range r.Keys {
			k := t.keys[string(it.Key)]
			k.read, k.was = true, it
			t.know(it.Key, k)
			if !it.Damaged {
				t.batch.Expect = append(t.batch.Expect, store.Expect{Key: it.Key, Value: it.Value})
			}
		}
	}
	out := make([]store.Item, len(keys))
	for i, key := range keys {
		out[i] = t.left(t.keys[string(key)].was)
	}
	return out, nil
}

// left gives a record that was read as the batch leaves it.
func (t *tx) left(it store.Item) store.Item {
	switch k := t.keys[string(it.Key)]; {
	case k.put > 0:
		return store.Item{Key: it.Key, Value: append([]byte{}, t.batch.Put[k.put-1].Value...)}
	case k.deleted > 0:
		return store.Item{Key: it.Key}
	}
	return it
}

func (t *tx) know(key []byte, k txKey) {
	if t.keys == nil {
		t.keys = make(map[string]txKey, 16)
	}
	t.keys[string(key)] = k
}

// put writes a key. The last write of a key in a batch is the one that counts.
func (t *tx) put(key, value []byte) {
	k := t.unwritten(key)
	t.batch.Put = append(t.batch.Put, store.Pair{Key: key, Value: value})
	k.put = len(t.batch.Put)
	t.know(key, k)
}

func (t *tx) delete(key []byte) {
	k := t.unwritten(key)
	t.batch.Delete = append(t.batch.Delete, key)
	k.deleted = len(t.batch.Delete)
	t.know(key, k)
}

// unwritten takes an earlier write of a key out of the batch; the last write takes its place in the list.
func (t *tx) unwritten(key []byte) txKey {
	k := t.keys[string(key)]
	if n := len(t.batch.Put); k.put > 0 {
		last := t.batch.Put[n-1]
		t.batch.Put[k.put-1] = last
		t.batch.Put = t.batch.Put[:n-1]
		moved := t.keys[string(last.Key)]
		moved.put = k.put
		t.keys[string(last.Key)] = moved
	}
	if n := len(t.batch.Delete); k.deleted > 0 {
		last := t.batch.Delete[n-1]
		t.batch.Delete[k.deleted-1] = last
		t.batch.Delete = t.batch.Delete[:n-1]
		moved := t.keys[string(last)]
		moved.deleted = k.deleted
		t.keys[string(last)] = moved
	}
	k.put, k.deleted = 0, 0
	return k
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

func errUnknownKey() error {
	return errorf(Unauthorized, "unknown_key", "the key is unknown, expired or deleted")
}

// update runs fn and commits what it collected, again from the start while other writers win. With once, the answer
// is stored in the same commit and given again to the same request.
func update[T any](ctx context.Context, e *Engine, c Caller, once Once, fn func(*tx) (T, error)) (T, error) {
	var zero T
	record := onceKey(once, c)
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
		if record != nil {
			b, err := e.sealOnce(once, out)
			if err != nil {
				return zero, err
			}
			t.put(record, b)
			t.put(kindExpiry.Key(t.now.Add(onceLife), record), []byte{0})
		}
		if t.writes() == 0 {
			return out, nil
		}
		err = e.commit(ctx, c.Tenant, t.batch)
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) {
			return out, err
		}
		if i := conflict.Index; string(t.batch.Expect[i].Key) == string(kindLive.Key()) {
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
