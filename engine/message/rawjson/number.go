package rawjson

import (
	"bytes"
	"strconv"
)

// maxNumber is the maximum length of a number in JSON, in bytes. Python refuses integers of more than 4,300 digits, and
// other parsers take quadratic time for long ones.
const maxNumber = 1000

// Readable reports whether every JSON parser can represent a number: it is short enough, and as a 64-bit float it
// neither overflows nor becomes zero.
func Readable(number []byte) bool {
	if len(number) <= 300 && bytes.IndexByte(number, 'e') < 0 && bytes.IndexByte(number, 'E') < 0 {
		return true
	}
	if len(number) > maxNumber {
		return false
	}
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil {
		return false
	}
	mantissa := number
	if at := bytes.IndexAny(number, "eE"); at >= 0 {
		mantissa = number[:at]
	}
	return f != 0 || !bytes.ContainsAny(mantissa, "123456789")
}

// NumbersReadable reports whether all numbers of a valid JSON text are Readable.
func NumbersReadable(raw []byte) bool {
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			i = SkipString(raw, i)
		case c == '-' || '0' <= c && c <= '9':
			end := SkipValue(raw, i)
			if !Readable(raw[i:end]) {
				return false
			}
			i = end
		default:
			i++
		}
	}
	return true
}
