// Package ident is what things are called: ids that clients choose, and incarnations, which tell apart things that bear
// the same id at different times.
package ident

import (
	"encoding/base32"
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

// ValidID tells whether a client may call something by this id: [A-Za-z0-9._:@-]{1,128}.
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

// CheckID answers invalid_id where ValidID says no.
func CheckID(field, id string) error {
	if !ValidID(id) {
		return fault.InvalidField(field, "invalid_id", "must be 1 to 128 characters of A-Z a-z 0-9 . _ : @ -")
	}
	return nil
}
