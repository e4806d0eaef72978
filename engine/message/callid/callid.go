// Package callid maps the ids of tool calls and the names of tools to what formats allow. A mapping depends only on the
// id or the name, so a call and its result are mapped to the same id in every window.
package callid

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// The maximum lengths that formats allow, in bytes.
const (
	MostInChat      = 40 // id of a call in Chat Completions
	MostInResponses = 64 // call_id in Responses
	MostInName      = 64 // name of a tool, in all formats
)

// A shortened id is shortPrefix and a hash. A posted id that looks like one is hashed, too, so two ids are mapped to
// one only if their hashes collide.
const (
	shortPrefix = "mneme_"
	shortSize   = MostInChat
)

// Short returns the id if it has at most most bytes, and otherwise a replacement of 40 bytes.
func Short(id string, most int) string {
	if len(id) <= most && !(len(id) == shortSize && strings.HasPrefix(id, shortPrefix)) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return shortPrefix + base64.RawURLEncoding.EncodeToString(sum[:])[:shortSize-len(shortPrefix)]
}

// hashInName is the number of hash letters in a mapped name.
const hashInName = 8

// Legal reports whether every format allows a tool's name: A-Z, a-z, 0-9, _ and -, at most 64 of them.
func Legal(name string) bool {
	if name == "" || len(name) > MostInName {
		return false
	}
	for i := range len(name) {
		if !LegalByte(name[i]) {
			return false
		}
	}
	return true
}

// Name returns the name if it is Legal, and otherwise a legal replacement: each byte that formats do not allow becomes
// _, and letters of a hash distinguish it from other names.
func Name(name string) string {
	if Legal(name) {
		return name
	}
	const most = MostInName - 1 - hashInName
	stem := make([]byte, 0, most+1)
	for _, r := range name {
		if len(stem) == most {
			break
		}
		if r < utf8.RuneSelf && LegalByte(byte(r)) {
			stem = append(stem, byte(r))
		} else {
			stem = append(stem, '_')
		}
	}
	sum := sha256.Sum256([]byte(name))
	return string(append(stem, '_')) + hex.EncodeToString(sum[:])[:hashInName]
}

// LegalByte reports whether names of tools, and Anthropic's ids of calls, may contain a byte.
func LegalByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// mostOwn is the maximum number of own names that one session remembers.
const mostOwn = 256

// Own maps mapped names of tools to their own names. It contains only names that are not Legal.
type Own map[string]string

// Learn adds a tool's own name. Own must not be nil if the name is not Legal. Above the maximum, names are ignored.
func (o *Own) Learn(name string) {
	if Legal(name) {
		return
	}
	mapped := Name(name)
	if _, known := (*o)[mapped]; known || len(*o) >= mostOwn {
		return
	}
	if *o == nil {
		*o = Own{}
	}
	(*o)[mapped] = name
}
