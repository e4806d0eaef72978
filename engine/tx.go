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
			return nil, errDamaged
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

// errDamaged is answered where a record that everything hangs on failed its checksum.
var errDamaged = errors.New("a stored record failed its checksum")

// update runs fn and commits what it collected, again from the start while other writers win. With once, the answer
// is stored in the same commit and given again to the same request.
func update[T any](ctx context.Context, e *Engine, c Caller, once Once, fn func(*tx) (T, error)) (T, error) {
	var zero T
	var record []byte
	if once.Key != "" {
		h := sha256.Sum256([]byte(c.KeyID + "\x00" + once.Key))
		record = onceKey([16]byte(h[:16]))
	}
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
