// Package ident is what things are called: ids that clients choose, and incarnations, which tell apart things that bear
// the same id at different times.
package ident

import (
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// DefaultTenant and DefaultProject exist from the first start on. Every project has the session DefaultSession.
const (
	DefaultTenant  = "default"
	DefaultProject = "default"
	DefaultSession = "dashboard"
)

// Alphabet writes random bytes as text: base32 in lower case, without letters that look like digits.
var Alphabet = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// ValidID tells whether something may be stored under this id: [A-Za-z0-9._:@-]{1,128}. It is for looking things up.
// Ids that a client chooses go through CheckID, which asks for more.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > 128 {
		return false
	}
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

// PathSegment tells whether an id is "." or "..". Clients and proxies take such a segment for a step up the path, so
// that a request to delete the memory ".." would arrive as one to delete its project. Nothing may be called so.
func PathSegment(id string) bool { return id == "." || id == ".." }

// CheckID answers invalid_id for an id that a client may not choose: where ValidID says no, and for "." and "..".
func CheckID(field, id string) error {
	if PathSegment(id) {
		return fault.InvalidField(field, "invalid_id",
			`must not be "." or "..", which URLs take for a step up the path`)
	}
	if !ValidID(id) {
		return fault.InvalidField(field, "invalid_id", "must be 1 to 128 characters of A-Z a-z 0-9 . _ : @ -")
	}
	return nil
}

// Incarnation is 8 random bytes that tell apart things that bear the same id at different times. Its text is hex.
type Incarnation [8]byte

func (i Incarnation) String() string { return hex.EncodeToString(i[:]) }

func (i Incarnation) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

func (i *Incarnation) UnmarshalText(b []byte) error {
	_, err := hex.Decode(i[:], b)
	return err
}

// Stream is the incarnation as a number, by which the recall index knows a session.
func (i Incarnation) Stream() uint64 { return binary.BigEndian.Uint64(i[:]) }

// IncarnationOf gives back the incarnation whose Stream this is.
func IncarnationOf(stream uint64) (i Incarnation) {
	binary.BigEndian.PutUint64(i[:], stream)
	return i
}
