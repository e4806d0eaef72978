package wasm

// The parts of WebAssembly that are not in version 2.0, or that are not supported here, by the names that toolchains
// use. A refusal names the part, because an author can switch that off but does not know opcodes.
const (
	simd       = "SIMD is"
	threads    = "threads and atomics are"
	exceptions = "exception handling is"
	tailCalls  = "tail calls are"
	references = "typed function references are"
	collected  = "garbage collection is"
	memory64   = "64-bit memory is"
	arithmetic = "wide arithmetic is"
)

// partOf returns the part that an opcode belongs to; "" if unknown.
func partOf(op byte) string {
	switch op {
	case 0xfd:
		return simd
	case 0xfe:
		return threads
	case 0x06, 0x07, 0x08, 0x09, 0x0a, 0x18, 0x19, 0x1f:
		return exceptions
	case 0x12, 0x13:
		return tailCalls
	case 0x14, 0x15, 0xd4, 0xd5, 0xd6:
		return references
	case 0xd3, 0xfb:
		return collected
	}
	return ""
}

// partOfMisc is partOf for an opcode after the prefix 0xfc.
func partOfMisc(op byte) string {
	if op >= 0x13 && op <= 0x16 {
		return arithmetic
	}
	return ""
}

// partOfType returns the part that the form of a type belongs to: of a value, a reference, a block or a function.
func partOfType(form byte) string {
	switch form {
	case 0x7b:
		return simd
	case 0x63, 0x64:
		return references
	case 0x69, 0x74:
		return exceptions
	case 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x71, 0x72, 0x73, 0x4d, 0x4e, 0x4f, 0x50, 0x5e, 0x5f:
		return collected
	}
	return ""
}

// partOfLimits returns the part that the form of a memory's or a table's limits belongs to.
func partOfLimits(flag byte) string {
	switch {
	case flag&4 != 0 && flag <= 7:
		return memory64
	case flag == 2 || flag == 3:
		return threads
	}
	return ""
}

// lacks refuses a part of WebAssembly. found are the bytes by which it was recognised.
func (r *reader) lacks(part, found string, args ...any) {
	if part == "" {
		r.fail(checkFeatures, found+" is not supported", args...)
		return
	}
	r.fail(checkFeatures, part+" not available ("+found+")", args...)
}
