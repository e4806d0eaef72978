package engine

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxAttempts bounds the retries of one optimistic update. Only other writers' successes cause a retry, so reaching
// it means the record is very contended, not that nothing moves.
const maxAttempts = 64

// onceLife is how long an idempotent answer is kept.
const onceLife = 24 * time.Hour

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

// get reads keys as the batch leaves them. What the store holds is a precondition of the commit, also where the batch
// writes the key.
func (t *tx) get(keys ...[]byte) ([]store.Item, error) {
	out, err := t.look(keys...)
	if slices.ContainsFunc(out, func(it store.Item) bool { return it.Damaged }) {
		return nil, errDamaged
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

// clear begins the next batch of a tx that commits several.
func (t *tx) clear() { t.batch, t.keys = store.Batch{}, nil }

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

// errDamaged is answered where a record that everything hangs on failed its checksum.
var errDamaged = errors.New("a stored record failed its checksum")

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

// record is the key of the answer to a request; nil where it is not idempotent.
func (o Once) record(c Caller) []byte {
	if o.Key == "" {
		return nil
	}
	h := sha256.Sum256([]byte(c.KeyID + "\x00" + o.Key))
	return onceKey([16]byte(h[:16]))
}

// givenBefore looks up the answer to a request that takes too long to be run only to find that it was.
func givenBefore[T any](ctx context.Context, e *Engine, c Caller, once Once) (out T, found bool, err error) {
	if once.Key == "" {
		return out, false, nil
	}
	return given[T](ctx, e, c.Tenant, once.record(c), once)
}

// onceRecord is a stored answer. Answer is JSON, encrypted where it holds a secret.
type onceRecord struct {
	Body   []byte `json:"body"`
	Answer []byte `json:"answer"`
	Sealed bool   `json:"sealed,omitempty"`
}

// given looks up the answer that an idempotent request got before.
func given[T any](ctx context.Context, e *Engine, tenant string, key []byte, once Once) (out T, found bool, err error) {
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: [][]byte{key}})
	if err == nil && r.Keys[0].Damaged {
		err = errDamaged
	}
	if err != nil || r.Keys[0].Value == nil {
		return out, false, err
	}
	var rec onceRecord
	if err := json.Unmarshal(r.Keys[0].Value, &rec); err != nil {
		return out, false, fmt.Errorf("decoding an idempotency record: %w", err)
	}
	if !hmac.Equal(rec.Body, once.Body[:]) {
		return out, true, errorf(Invalid, "idempotency_key_reused",
			"this Idempotency-Key was used with another request; use a new key for a new request")
	}
	if rec.Sealed {
		aead, err := onceCipher(once)
		if err != nil {
			return out, true, err
		}
		n := aead.NonceSize()
		if rec.Answer, err = aead.Open(nil, rec.Answer[:n], rec.Answer[n:], nil); err != nil {
			return out, true, errorf(Conflict, "idempotency_sealed",
				"this request succeeded before, but its answer holds a secret that only the same key may see again")
		}
	}
	return out, true, json.Unmarshal(rec.Answer, &out)
}

// secret marks answers that may not be stored in clear.
type secret interface{ holdsSecret() }

func (KeyCreated) holdsSecret()    {}
func (TenantCreated) holdsSecret() {}

func (e *Engine) sealOnce(once Once, out any) ([]byte, error) {
	answer, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	rec := onceRecord{Body: once.Body[:], Answer: answer}
	if _, ok := out.(secret); ok {
		aead, err := onceCipher(once)
		if err != nil {
			return nil, err
		}
		nonce := make([]byte, aead.NonceSize())
		e.random(nonce)
		rec.Sealed, rec.Answer = true, aead.Seal(nonce, nonce, answer, nil)
	}
	return json.Marshal(rec)
}

// onceCipher keys the encryption of a stored secret with the caller's token, of which the store only has a hash.
func onceCipher(once Once) (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, []byte(once.Seal))
	mac.Write([]byte("mneme idempotent answer\x00" + once.Key))
	mac.Write(once.Body[:])
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
