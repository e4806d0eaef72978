package wasm

import (
	"fmt"
	"iter"
	"unicode/utf8"
)

// reader reads a section or a body. It keeps its first failure, and later reads return zeros, so callers may check err
// once per item. Every count is checked against the remaining bytes, so that no loop is longer than its input.
type reader struct {
	*meter
	buf  []byte
	pos  int
	base int // where buf starts in the module
}

func (r *reader) left() int { return len(r.buf) - r.pos }

func (r *reader) fail(check, format string, args ...any) {
	if r.err == nil {
		r.err = &Refusal{Check: check, Detail: fmt.Sprintf("byte %d: ", r.base+r.pos) + fmt.Sprintf(format, args...)}
	}
}

// finish fails if bytes are left.
func (r *reader) finish() {
	if r.err == nil && r.left() != 0 {
		r.fail(checkFormat, "%d bytes too many", r.left())
	}
}

func (r *reader) byte() byte {
	if r.err != nil || r.pos >= len(r.buf) {
		r.fail(checkFormat, "ends too early")
		return 0
	}
	r.pos++
	return r.buf[r.pos-1]
}

// bytes returns the next n bytes, which alias the module.
func (r *reader) bytes(n uint32) []byte {
	if r.err != nil || uint64(n) > uint64(r.left()) {
		r.fail(checkFormat, "ends too early")
		return nil
	}
	r.pos += int(n)
	return r.buf[r.pos-int(n) : r.pos]
}

// u32 reads an unsigned LEB128 number of at most five bytes. Padding is legal, and linkers use it.
func (r *reader) u32() uint32 {
	if r.err == nil && r.pos < len(r.buf) && r.buf[r.pos] < 0x80 {
		r.pos++
		return uint32(r.buf[r.pos-1])
	}
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		if shift == 28 && b > 0x0f {
			break
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.fail(checkFormat, "number does not fit 32 bits")
	return 0
}

// signed reads a signed LEB128 number of the given width. The unused bits of a full-length one must repeat its sign.
func (r *reader) signed(bits int) int64 {
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if rest := bits - shift; rest < 7 {
			top := int8(b<<1) >> rest // the sign and all bits above the number
			if b >= 0x80 || top != 0 && top != -1 {
				break
			}
		}
		if b < 0x80 {
			if unused := 64 - shift - 7; unused > 0 {
				v = v << unused >> unused
			}
			return v
		}
	}
	r.fail(checkFormat, "number does not fit %d bits", bits)
	return 0
}

// count reads the length of a vector whose items take at least one byte each.
func (r *reader) count() int {
	n := r.u32()
	if uint64(n) > uint64(r.left()) {
		r.fail(checkFormat, "%d items cannot fit into %d bytes", n, r.left())
		return 0
	}
	return int(n)
}

// items counts to n and stops at a failure.
func (r *reader) items(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && r.err == nil && yield(i); i++ {
		}
	}
}

// index reads a u32 that must be below n.
func (r *reader) index(what string, n int) uint32 {
	i := r.u32()
	if r.err == nil && uint64(i) >= uint64(n) {
		r.fail(checkFormat, "%s %d of %d", what, i, n)
		return 0
	}
	return i
}

func (r *reader) zero(what string) {
	if b := r.byte(); b != 0 {
		r.fail(checkFeatures, "%s %d: there is one memory at most", what, b)
	}
}

func (r *reader) name() string {
	b := r.bytes(r.u32())
	if !utf8.Valid(b) {
		r.fail(checkFormat, "name is not UTF-8")
	}
	return string(b)
}

func (r *reader) valueType() ValueType {
	t := ValueType(r.byte())
	switch t {
	case I32, I64, F32, F64, FuncRef, ExternRef:
	default:
		if part := partOfType(byte(t)); part != "" {
			r.lacks(part, "value type 0x%02x", byte(t))
		}
		r.fail(checkFormat, "value type 0x%02x", byte(t))
	}
	return t
}

func (r *reader) refType() ValueType {
	t := ValueType(r.byte())
	if t != FuncRef && t != ExternRef {
		r.lacks(partOfType(byte(t)), "reference type 0x%02x", byte(t))
	}
	return t
}
