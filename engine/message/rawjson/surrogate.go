package rawjson

import (
	"bytes"
	"strconv"
)

// LoneSurrogate reports whether a valid JSON value contains an escape for half of a UTF-16 pair, such as \ud800 without
// \udc00 to \udfff after it. Such an escape is no character: encoding/json reads it as U+FFFD, and other parsers refuse
// the whole JSON text.
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

// codeUnit parses the four digits of an escape; raw begins with its u.
func codeUnit(raw []byte) uint64 {
	unit, _ := strconv.ParseUint(string(raw[1:5]), 16, 16)
	return unit
}
