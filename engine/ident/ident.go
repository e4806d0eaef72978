// Package ident defines names: ids that clients choose, and incarnations, which distinguish things that had the same id
// at different times.
package ident

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

// DefaultTenant and DefaultProject exist from the first start. Every project has the session DefaultSession.
const (
	DefaultTenant  = "default"
	DefaultProject = "default"
	DefaultSession = "dashboard"
)

// Alphabet encodes random bytes as text: base32 in lower case, without letters that look like digits.
var Alphabet = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// maxFork is the highest number of a fork. Sessions do not get that many.
const maxFork = 999_999_999

// Side is the number of the fork that holds a session's side calls.
const Side = -1

// ForkOf returns the id of a session's n-th fork, counted from 1, or of the session of its side calls. If it would be
// too long, it contains a hash of the session's id instead.
func ForkOf(session string, n int) string {
	suffix := "~" + strconv.Itoa(n)
	if n == Side {
		suffix = "~side"
	}
	if len(session)+len(suffix) > MaxID {
		session = Hashed(session)
	}
	return session + suffix
}

// Hashed returns an id that replaces a string that cannot be an id.
func Hashed(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "x-" + hex.EncodeToString(sum[:16])
}

// Forked returns the session and the number of the fork that an id names; 0 if it is not the id of a fork. The number of
// a session of side calls is Side.
func Forked(id string) (session string, n int) {
	at := strings.LastIndexByte(id, '~')
	if at < 1 {
		return id, 0
	}
	session, suffix := id[:at], id[at+1:]
	if suffix == "side" {
		return session, Side
	}
	n, err := strconv.Atoi(suffix)
	if err != nil || n < 1 || n > maxFork || suffix != strconv.Itoa(n) {
		return id, 0
	}
	return session, n
}

// Incarnation is 8 random bytes that distinguish things that had the same id at different times. Its text form is hex.
type Incarnation [8]byte

func (i Incarnation) String() string { return hex.EncodeToString(i[:]) }

func (i Incarnation) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

func (i *Incarnation) UnmarshalText(b []byte) error {
	if raw, err := hex.AppendDecode(nil, b); err == nil && len(raw) == len(i) {
		*i = Incarnation(raw)
		return nil
	}
	return errors.New("an incarnation must be 16 hexadecimal digits")
}

// Stream returns the incarnation as the number by which the recall index knows a session.
func (i Incarnation) Stream() uint64 { return binary.BigEndian.Uint64(i[:]) }

// IncarnationOf returns the incarnation with the given Stream.
func IncarnationOf(stream uint64) (i Incarnation) {
	binary.BigEndian.PutUint64(i[:], stream)
	return i
}
