package rawjson

import (
	"encoding/binary"
	"math/bits"
)

// maxDepth is the maximum nesting depth, as in encoding/json.
const maxDepth = 10_000

// Valid is json.Valid, but several times faster for long texts. Every body and every message is checked. FuzzValid
// compares it with json.Valid.
func Valid(b []byte) bool {
	var first [64]byte
	open := first[:0] // the enclosing objects and arrays, by their first byte
	for i := 0; ; {
		if i = space(b, i); i == len(b) {
			return false
		}
		switch c := b[i]; c {
		case '{', '[':
			if len(open) == maxDepth {
				return false
			}
			if i = space(b, i+1); i == len(b) {
				return false
			}
			if b[i] == c+2 { // in ASCII, } and ] are two after { and [
				i++
				break
			}
			open = append(open, c)
			if c == '{' {
				if i = member(b, i); i < 0 {
					return false
				}
			}
			continue
		default:
			if i = scalar(b, i); i < 0 {
				return false
			}
		}
		var more bool
		if i, open, more = behind(b, i, open); !more {
			return i == len(b)
		}
	}
}

// behind advances from the end of a value to the beginning of the next one. If more is false, there is none: next is
// then the end of a complete text, or negative.
func behind(b []byte, i int, open []byte) (next int, left []byte, more bool) {
	for {
		i = space(b, i)
		if len(open) == 0 {
			return i, open, false
		}
		if i == len(b) {
			return -1, open, false
		}
		in := open[len(open)-1]
		switch b[i] {
		case in + 2:
			open = open[:len(open)-1]
			i++
		case ',':
			i++
			if in == '{' {
				i = member(b, space(b, i))
			}
			return i, open, i >= 0
		default:
			return -1, open, false
		}
	}
}

// member advances from a member's name to its value; it returns a negative number if there is no name and colon.
func member(b []byte, i int) int {
	if i == len(b) || b[i] != '"' {
		return -1
	}
	if i = text(b, i); i < 0 {
		return -1
	}
	if i = space(b, i); i == len(b) || b[i] != ':' {
		return -1
	}
	return i + 1
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// scalar returns the end of a string, a number or a literal; negative if there is none.
func scalar(b []byte, i int) int {
	switch c := b[i]; {
	case c == '"':
		return text(b, i)
	case c == '-' || '0' <= c && c <= '9':
		return number(b, i)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
			return i + len(word)
		}
	}
	return -1
}

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// text returns the end of the string that begins at i. It examines eight bytes at a time: the highest bit of a byte in
// hit is set if the byte is below 0x20, a quote or a backslash. After the first such byte, others may be set by
// borrowing.
func text(b []byte, i int) int {
	for i++; ; {
		for ; i+8 <= len(b); i += 8 {
			word := binary.LittleEndian.Uint64(b[i:])
			quote, slash := word^'"'*ones, word^'\\'*ones
			hit := ((word-0x20*ones)&^word | (quote-ones)&^quote | (slash-ones)&^slash) & highs
			if hit != 0 {
				i += bits.TrailingZeros64(hit) / 8
				break
			}
		}
		if i == len(b) {
			return -1
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = escape(b, i+1); i < 0 {
				return -1
			}
		case c < 0x20:
			return -1
		default:
			i++
		}
	}
}

// escape returns the end of the escape whose backslash precedes i.
func escape(b []byte, i int) int {
	if i == len(b) {
		return -1
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if len(b)-i < 5 {
			return -1
		}
		for _, c := range b[i+1 : i+5] {
			if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

// number returns the end of the number that begins at i.
func number(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	from := i
	if i = digits(b, i); i == from || b[from] == '0' && i > from+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if from, i = i+1, digits(b, i+1); i == from {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if from, i = i, digits(b, i); i == from {
			return -1
		}
	}
	return i
}

func digits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}
