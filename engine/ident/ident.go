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

	"github.com/seed-0906e6bc/mneme/engine/fault"
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
	if len(session)+len(suffix) > 128 {
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
	session, suffix, _ := strings.Cut(id, "~")
	if suffix == "side" && session != "" {
		return session, Side
	}
	n, err := strconv.Atoi(suffix)
	if err != nil || n < 1 || n > maxFork || session == "" || suffix != strconv.Itoa(n) {
		return id, 0
	}
	return session, n
}

// ValidID reports whether something may be stored under this id: [A-Za-z0-9._:@-]{1,128}, optionally followed by the
// number of a fork or by the mark of side calls. It is meant for lookups. Ids that a client chooses must pass CheckID, which is stricter.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > 128 {
		return false
	}
	s, _ = Forked(s)
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("._:@-", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// PathSegment reports whether an id is "." or "..". Clients and proxies resolve such path segments, so that a request
// to delete the memory ".." would arrive as one to delete its project. Nothing may have such an id.
func PathSegment(id string) bool { return id == "." || id == ".." }

// CheckID returns invalid_id for an id that a client may not choose: one that is not a ValidID, or "." or "..".
func CheckID(field, id string) error {
	if PathSegment(id) {
		return fault.InvalidField(field, "invalid_id",
			`must not be "." or "..", which URLs take for a step up the path`)
	}
	if !ValidID(id) || strings.Contains(id, "~") {
		return fault.InvalidField(field, "invalid_id", "must be 1 to 128 characters of A-Z a-z 0-9 . _ : @ -")
	}
	return nil
}

// CheckSession is CheckID for the id of a session, which may also be the id of a fork.
func CheckSession(field, id string) error {
	if session, n := Forked(id); n != 0 && ValidID(id) {
		id = session
	}
	return CheckID(field, id)
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
