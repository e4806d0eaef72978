package rawjson

import (
	"bytes"
	"strconv"
)

// maxNumber is the most bytes of a number in JSON. Python refuses integers of more than 4,300 digits, and others take
// quadratic time for long ones.
const maxNumber = 1000

// Readable tells whether all readers of JSON can hold a number: it is short enough, and a 64-bit float neither
// overflows nor loses all of it.
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

// NumbersReadable tells whether all numbers of a valid JSON text are Readable.
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
