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

// OnceLife is how long an idempotent answer is kept.
const OnceLife = 24 * time.Hour

// Secret marks an answer that may not be stored in clear, because it shows a key.
type Secret interface{ HoldsSecret() }

// onceKey is the key of the stored answer to a request; nil where the request is not idempotent.
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

// GivenBefore looks up the answer that the same request got before. Update does so by itself; this is for requests that
// take long before they come to Update. It answers idempotency_key_reused where the key was used with another request,
// and idempotency_sealed where only the API key of the first request may see the answer.
func GivenBefore[T any](ctx context.Context, db *DB, c ident.Caller, once ident.Once) (out T, found bool, err error) {
	if once.Key == "" {
		return out, false, nil
	}
	return given[T](ctx, db, c.Tenant, onceKey(once, c), once)
}

// OnceRecord is a stored answer. Answer is JSON, encrypted where it holds a secret.
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
	if err := store.Confirm(ctx, db.Store); err != nil { // the first request may have been told that nobody knows
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
				"this request succeeded before, but its answer holds a secret that only the same key may see again")
		}
	}
	return out, true, json.Unmarshal(rec.Answer, &out)
}

// sealOnce makes the record of an answer.
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

// onceCipher encrypts stored secrets. Its key is made of the caller's token, of which the store has a hash only.
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
