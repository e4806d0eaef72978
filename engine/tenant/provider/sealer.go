package provider

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Sealer encrypts the providers' keys that projects store in Mneme. Its own key comes from the operator and is not
// stored.
type Sealer struct{ aead cipher.AEAD }

// minSealKey is the minimum length of the operator's key, in bytes: 32 random characters of an alphabet of 64 have 192
// bits.
const minSealKey = 32

// NewSealer returns a Sealer. Errors never contain the key.
func NewSealer(key string) (*Sealer, error) {
	if len(key) < minSealKey {
		return nil, fmt.Errorf("must have at least %d characters, and they should be random", minSealKey)
	}
	derived, err := hkdf.Key(sha256.New, []byte(key), nil, "mneme upstream secrets", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Sealer{aead}, err
}

// Seal encrypts a secret. It can be opened only with the same use, which says where the secret may be sent.
func (s *Sealer) Seal(secret, use string) []byte {
	return s.aead.Seal(nil, nil, []byte(secret), []byte(use))
}

// ErrSealed means that a secret cannot be opened: it was sealed with another key, or for another use.
var ErrSealed = errors.New("the secret was sealed with another key")

// Open decrypts a secret. It returns ErrSealed.
func (s *Sealer) Open(box []byte, use string) (string, error) {
	if s == nil {
		return "", ErrSealed
	}
	secret, err := s.aead.Open(nil, nil, box, []byte(use))
	if err != nil {
		return "", ErrSealed
	}
	return string(secret), nil
}

// Operator is the operator's configuration of upstreams.
type Operator struct {
	Allowed  Allowed
	Defaults []*Upstream // for projects that name none
	Sealer   *Sealer     // nil if projects cannot seal keys
}
