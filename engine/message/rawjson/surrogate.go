package rawjson

import (
	"bytes"
	"strconv"
)

// LoneSurrogate tells whether a text of a valid JSON value escapes half of a UTF-16 pair, such as \ud800 without
// \udc00 to \udfff behind it. It stands for no character: encoding/json reads U+FFFD, and other readers refuse all of
// the JSON that it stands in.
func LoneSurrogate(raw []byte) bool {
	for {
		at := bytes.IndexByte(raw, '\\')
		if at < 0 {
			return false
		}
		raw = raw[at+1:]
		if raw[0] != 'u' {
			raw = raw[1:]
			continue
		}
		unit := codeUnit(raw)
		raw = raw[len("u0000"):]
		if unit < 0xd800 || unit > 0xdfff {
			continue
		}
		if unit > 0xdbff || len(raw) < len(`\u0000`) || raw[0] != '\\' || raw[1] != 'u' {
			return true
		}
		if low := codeUnit(raw[1:]); low < 0xdc00 || low > 0xdfff {
			return true
		}
		raw = raw[len(`\u0000`):]
	}
}

// codeUnit reads the four digits of an escape that begins with its u.
func codeUnit(raw []byte) uint64 {
	unit, _ := strconv.ParseUint(string(raw[1:5]), 16, 16)
	return unit
}
