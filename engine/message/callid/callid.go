// Package callid maps the ids of tool calls and the names of tools to what formats allow. The mappings depend on
// nothing but the id or the name, so a call and its result are mapped alike, in every window.
package callid

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// The most bytes that formats allow.
const (
	MostInChat      = 40 // a call's id in a chat completion
	MostInResponses = 64 // a call_id in Responses
	MostInName      = 64 // a tool's name, in all formats
)

// A shortened id is shortPrefix and a hash. An id that was posted in this shape is hashed too, so no two ids become one
// unless their hashes collide.
const (
	shortPrefix = "mneme_"
	shortSize   = MostInChat
)

// Short is the id where it has at most that many bytes, else one of 40 bytes that stands for it.
func Short(id string, most int) string {
	if len(id) <= most && !(len(id) == shortSize && strings.HasPrefix(id, shortPrefix)) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return shortPrefix + base64.RawURLEncoding.EncodeToString(sum[:])[:shortSize-len(shortPrefix)]
}

// hashInName is how many letters of a mapped name are the hash of the own name.
const hashInName = 8

// Legal tells whether every format allows a tool's name: A-Z, a-z, 0-9, _ and -, at most 64 of them.
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

// Name is the name where it is Legal, else a legal one that stands for it: what formats do not allow becomes _, and
// letters of a hash keep it apart from other names.
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

// LegalByte tells whether names of tools, and Anthropic's ids of calls, may hold a byte.
func LegalByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// mostOwn bounds the own names that one session remembers.
const mostOwn = 256

// Own finds the own names of tools behind their mapped ones: mapped is the key. It holds names that are not Legal.
type Own map[string]string

// Learn notes a tool's own name. Own must not be nil where the name is not Legal. Beyond a bound nothing is learnt.
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
