package provider

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Sealer encrypts the providers' keys that projects leave with Mneme, by a key of the operator's that is in no record.
type Sealer struct{ aead cipher.AEAD }

// minSealKey is the shortest key of an operator's, in bytes: 32 random characters of an alphabet of 64 have 192 bits.
const minSealKey = 32

// NewSealer makes a sealer. The errors never hold the key.
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

// Seal encrypts a secret. It opens only for the same use, which says where the secret goes.
func (s *Sealer) Seal(secret, use string) []byte {
	return s.aead.Seal(nil, nil, []byte(secret), []byte(use))
}

// ErrSealed says that a secret does not open: it was sealed with another key, or for another use.
var ErrSealed = errors.New("the secret was sealed with another key")

// Open gives the secret back. It answers ErrSealed.
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

// Operator is what the operator says of upstreams.
type Operator struct {
	Allowed  Allowed
	Defaults []*Upstream // of projects that name none
	Sealer   *Sealer     // nil: projects cannot seal keys
}
