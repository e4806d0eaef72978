package records

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// OnceLife is how long the answer to an idempotent request is kept.
const OnceLife = 24 * time.Hour

// Secret marks an answer that must not be stored in plain text, because it contains a key.
type Secret interface{ HoldsSecret() }

// onceKey returns the key of the stored answer to a request, or nil if the request is not idempotent.
func onceKey(o ident.Once, c ident.Caller) []byte {
	if o.Key == "" {
		return nil
	}
	name := c.KeyID + "\x00" + o.Key
	if o.Scope != "" {
		name += "\x00" + o.Scope
	}
	h := sha256.Sum256([]byte(name))
	return Once.Key([16]byte(h[:16]))
}

// GivenBefore looks up the earlier answer to the same request. Update does so itself; GivenBefore is for requests
// that do long work before they call Update. It fails with idempotency_key_reused if the key was used with another
// request, and with idempotency_sealed if only the API key of the first request may see the answer.
func GivenBefore[T any](ctx context.Context, db *DB, c ident.Caller, once ident.Once) (out T, found bool, err error) {
	if once.Key == "" {
		return out, false, nil
	}
	return given[T](ctx, db, c.Tenant, onceKey(once, c), once)
}

// OnceRecord is a stored answer. Answer is JSON, encrypted if it contains a secret.
type OnceRecord struct {
	Body   []byte `json:"body"`
	Answer []byte `json:"answer"`
	Sealed bool   `json:"sealed,omitempty"`
}

// given is GivenBefore for the key of a stored answer.
func given[T any](ctx context.Context, db *DB, tenant string, key []byte, once ident.Once,
) (out T, found bool, err error) {
	rec, err := Get[OnceRecord](ctx, db, tenant, key)
	if rec == nil || err != nil {
		return out, false, err
	}
	if err := store.Confirm(ctx, db.Store); err != nil { // the first request may have failed with outcome_unknown
		return out, true, err
	}
	if !hmac.Equal(rec.Body, once.Body[:]) {
		return out, true, fault.Errorf(fault.Invalid, "idempotency_key_reused",
			"this Idempotency-Key was used with another request; use a new key for a new request")
	}
	if rec.Sealed {
		aead, err := onceCipher(once)
		if err != nil {
			return out, true, err
		}
		n := aead.NonceSize()
		if rec.Answer, err = aead.Open(nil, rec.Answer[:n], rec.Answer[n:], nil); err != nil {
			return out, true, fault.Errorf(fault.Conflict, "idempotency_sealed",
				"this request succeeded before, but its response has a secret that only the same key may see again")
		}
	}
	return out, true, json.Unmarshal(rec.Answer, &out)
}

// sealOnce returns the record of an answer.
func (db *DB) sealOnce(once ident.Once, out any) ([]byte, error) {
	answer, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	rec := OnceRecord{Body: once.Body[:], Answer: answer}
	if _, ok := out.(Secret); ok {
		aead, err := onceCipher(once)
		if err != nil {
			return nil, err
		}
		nonce := make([]byte, aead.NonceSize())
		db.Random(nonce)
		rec.Sealed, rec.Answer = true, aead.Seal(nonce, nonce, answer, nil)
	}
	return json.Marshal(rec)
}

// onceCipher returns the cipher for stored secrets. Its key is derived from the caller's token, of which the store
// only has a hash.
func onceCipher(once ident.Once) (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, []byte(once.Seal))
	mac.Write([]byte("mneme idempotent answer\x00" + once.Key))
	mac.Write(once.Body[:])
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
