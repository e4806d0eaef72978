package ident

// This file defines valid ids.

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// MaxID is the maximum length of an id, in bytes.
const MaxID = 128

// IDRule tells a client which ids are valid.
const IDRule = `must be 1 to 128 bytes of printable UTF-8, not blank, and neither "." nor ".."`

// ValidID reports whether a text may be an id, that is, the name of a tenant, project, session, memory, agent, board,
// value, policy or delegation, or one name of a namespace: 1 to MaxID bytes of UTF-8 whose characters are all
// printable and at least one of them visible. Ids are compared byte by byte. They are not normalised, so the two encodings of an
// accented letter, NFC and NFD, are two ids.
//
// ValidID is meant for what may be stored already. Ids that a client chooses must pass CheckID.
func ValidID(s string) bool {
	if len(s) > MaxID {
		return false
	}
	seen := false
	for i := range len(s) {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			return utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) && strings.ContainsFunc(s, visible)
		case c < ' ' || c == 0x7f:
			return false
		case c > ' ':
			seen = true
		}
	}
	return seen
}

// visible reports whether a character can be seen by itself: it is neither a space nor a combining mark.
func visible(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) }

// hidden reports whether an id must not contain a character because it cannot be seen: controls such as tabs and line
// ends, line separators, format characters such as those that reverse the direction of text, and code points without a
// character. The two joiners, which Persian, Indic scripts and emoji are written with, are allowed.
func hidden(r rune) bool { return !unicode.IsGraphic(r) && r != '\u200c' && r != '\u200d' }

// PathSegment reports whether an id is "." or "..". Clients and proxies resolve such path segments, so that a request
// to delete the memory ".." would arrive as one to delete its project. Nothing may have such an id.
func PathSegment(id string) bool { return id == "." || id == ".." }

// CheckID returns invalid_id for an id that a client may not choose: one that is not a ValidID, or "." or "..".
func CheckID(field, id string) error {
	if !ValidID(id) || PathSegment(id) {
		return fault.InvalidField(field, "invalid_id", IDRule)
	}
	return nil
}

// ReadID parses a percent-encoded id, as in URL paths and Mneme's own headers. All other characters, including a plus
// sign, stand for themselves. It returns invalid_id for a wrong escape or an id that is not a ValidID.
func ReadID(field, text string) (string, error) {
	id, err := url.PathUnescape(text)
	if err != nil {
		return "", fault.InvalidField(field, "invalid_id",
			"a percent sign begins an escape of two hexadecimal digits: write %%25 for the sign itself")
	}
	if !ValidID(id) {
		return "", fault.InvalidField(field, "invalid_id", IDRule)
	}
	return id, nil
}

// Join returns a text that differs for different lists of ids, for example as a key of a cache.
func Join(ids ...string) string { return strings.Join(ids, "\x00") }
