package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escapes maps the letter of an escape to its character.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// String returns the value of a JSON string; false if the JSON is not a string. The value is the one that encoding/json
// returns, which reads half of a UTF-16 pair as U+FFFD.
func String(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	at := bytes.IndexByte(inner, '\\')
	if at < 0 {
		return string(inner), true
	}
	var b strings.Builder
	b.Grow(len(inner))
	for ; at >= 0; at = bytes.IndexByte(inner, '\\') {
		b.Write(inner[:at])
		if inner = inner[at+1:]; len(inner) == 0 {
			return "", false
		}
		if c := escapes[inner[0]]; c != 0 {
			b.WriteByte(c)
			inner = inner[1:]
			continue
		}
		r, size := escapedRune(inner)
		if size == 0 {
			return "", false
		}
		b.WriteRune(r)
		inner = inner[size:]
	}
	b.Write(inner)
	if text := b.String(); utf8.ValidString(text) {
		return text, true
	}
	var text string // bytes that are not UTF-8 become U+FFFD
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

// escapedRune decodes the character in b, which begins after the backslash of a \u escape, and returns the number of
// bytes that it takes, or 0 if there is none.
func escapedRune(b []byte) (r rune, size int) {
	const one, pair = len(`u0000`), len(`u0000\u0000`)
	if len(b) < one || b[0] != 'u' {
		return 0, 0
	}
	r = rune(codeUnit(b))
	if !utf16.IsSurrogate(r) {
		return r, one
	}
	if len(b) >= pair && b[one] == '\\' && b[one+1] == 'u' {
		if both := utf16.DecodeRune(r, rune(codeUnit(b[one+1:]))); both != utf8.RuneError {
			return both, pair
		}
	}
	return utf8.RuneError, one
}
