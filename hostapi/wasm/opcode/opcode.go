// Package opcode describes the WebAssembly instructions that a policy may use: their names, what follows the opcode,
// and how many operands they take and leave. Any other instruction is refused, because it has no price in fuel.
//
// The set is WebAssembly 2.0 without SIMD: the first version, sign extension, non-trapping conversions, bulk memory,
// multiple values and reference types.
package opcode

// Opcodes of one byte that are used by name. The others are known by their range (see Of).
const (
	Unreachable  byte = 0x00
	Nop          byte = 0x01
	Block        byte = 0x02
	Loop         byte = 0x03
	If           byte = 0x04
	Else         byte = 0x05
	End          byte = 0x0b
	Br           byte = 0x0c
	BrIf         byte = 0x0d
	BrTable      byte = 0x0e
	Return       byte = 0x0f
	Call         byte = 0x10
	CallIndirect byte = 0x11
	Drop         byte = 0x1a
	Select       byte = 0x1b
	SelectTyped  byte = 0x1c
	LocalGet     byte = 0x20
	LocalSet     byte = 0x21
	LocalTee     byte = 0x22
	GlobalGet    byte = 0x23
	GlobalSet    byte = 0x24
	TableGet     byte = 0x25
	TableSet     byte = 0x26
	I32Load      byte = 0x28
	I64Load      byte = 0x29
	I32Load8U    byte = 0x2d
	I64Load32U   byte = 0x35
	I32Store     byte = 0x36
	I64Store     byte = 0x37
	F32Store     byte = 0x38
	F64Store     byte = 0x39
	I64Store8    byte = 0x3c
	I64Store32   byte = 0x3e
	MemorySize   byte = 0x3f
	MemoryGrow   byte = 0x40
	I32Const     byte = 0x41
	I64Const     byte = 0x42
	F32Const     byte = 0x43
	F64Const     byte = 0x44
	I32Eqz       byte = 0x45
	I32LtU       byte = 0x49
	I32GtU       byte = 0x4b
	I64Eqz       byte = 0x50
	I64LtS       byte = 0x53
	I32Clz       byte = 0x67
	I32Add       byte = 0x6a
	I32Sub       byte = 0x6b
	I32Mul       byte = 0x6c
	I32DivS      byte = 0x6d
	I32DivU      byte = 0x6e
	I32RemS      byte = 0x6f
	I32RemU      byte = 0x70
	I32And       byte = 0x71
	I32Xor       byte = 0x73
	I32ShrU      byte = 0x76
	I32Rotr      byte = 0x78
	I64Clz       byte = 0x79
	I64Add       byte = 0x7c
	I64Sub       byte = 0x7d
	I64Mul       byte = 0x7e
	I64DivS      byte = 0x7f
	I64DivU      byte = 0x80
	I64RemS      byte = 0x81
	I64RemU      byte = 0x82
	I64Or        byte = 0x84
	I64Shl       byte = 0x86
	I64ShrU      byte = 0x88
	I64Rotl      byte = 0x89
	I64Rotr      byte = 0x8a
	F32Abs       byte = 0x8b
	F32Sqrt      byte = 0x91
	F32Add       byte = 0x92
	F32Div       byte = 0x95
	F32Copysign  byte = 0x98
	F64Abs       byte = 0x99
	F64Sqrt      byte = 0x9f
	F64Add       byte = 0xa0
	F64Mul       byte = 0xa2
	F64Div       byte = 0xa3
	F64Copysign  byte = 0xa6
	I32WrapI64   byte = 0xa7
	I64ExtendU   byte = 0xad
	F64Reinter   byte = 0xbf
	I32Extend8S  byte = 0xc0
	I64Extend32S byte = 0xc4
	RefNull      byte = 0xd0
	RefIsNull    byte = 0xd1
	RefFunc      byte = 0xd2
	Misc         byte = 0xfc // prefix: the opcodes below follow as one byte
)

// Opcodes after the Misc prefix.
const (
	MiscTruncLast  byte = 0x07 // 0 to 7 are the saturating conversions
	MiscMemoryInit byte = 0x08
	MiscDataDrop   byte = 0x09
	MiscMemoryCopy byte = 0x0a
	MiscMemoryFill byte = 0x0b
	MiscTableInit  byte = 0x0c
	MiscElemDrop   byte = 0x0d
	MiscTableCopy  byte = 0x0e
	MiscTableGrow  byte = 0x0f
	MiscTableSize  byte = 0x10
	MiscTableFill  byte = 0x11
)

// IsStore reports whether an instruction writes one value into memory.
func IsStore(op byte) bool { return op >= I32Store && op <= I64Store32 }

// Immediate says what follows an opcode.
type Immediate uint8

// The layouts of immediates.
const (
	None            Immediate = iota
	BlockType                 // a value type, 0x40, or a type index as s33
	Label                     // u32
	Labels                    // a vector of u32 and one more u32
	Function                  // u32
	Indirect                  // type index u32, table index u32
	ValueType                 // a vector of exactly one value type
	Local                     // u32
	Global                    // u32
	Table                     // u32
	Memarg                    // alignment u32, offset u32
	Memory                    // one zero byte
	I32                       // s32
	I64                       // s64
	F32                       // four bytes
	F64                       // eight bytes
	RefType                   // one byte
	Data                      // u32
	DataAndMemory             // u32, one zero byte
	Memories                  // two zero bytes
	Element                   // u32
	ElementAndTable           // u32, u32
	Tables                    // u32, u32
)

// Info is the shape of one instruction. Pops and Pushes are 0 for instructions whose operands depend on a type or a
// label: blocks, branches and calls.
type Info struct {
	Immediate    Immediate
	Pops, Pushes uint8
}

// Of returns the shape of a one-byte opcode; false means that no policy may use it.
func Of(op byte) (Info, bool) {
	switch {
	case op >= I32Load && op <= I64Load32U:
		return Info{Memarg, 1, 1}, true
	case IsStore(op):
		return Info{Memarg, 2, 0}, true
	case op >= I32Eqz && op <= F64Reinter:
		return numeric(op), true
	case op >= I32Extend8S && op <= I64Extend32S:
		return Info{None, 1, 1}, true
	}
	switch op {
	case Unreachable, Nop, Else, End, Return:
		return Info{}, true
	case Block, Loop, If:
		return Info{Immediate: BlockType}, true
	case Br, BrIf:
		return Info{Immediate: Label}, true
	case BrTable:
		return Info{Immediate: Labels}, true
	case Call:
		return Info{Immediate: Function}, true
	case CallIndirect:
		return Info{Immediate: Indirect}, true
	case Drop:
		return Info{None, 1, 0}, true
	case Select:
		return Info{None, 3, 1}, true
	case SelectTyped:
		return Info{ValueType, 3, 1}, true
	case LocalGet:
		return Info{Local, 0, 1}, true
	case LocalSet:
		return Info{Local, 1, 0}, true
	case LocalTee:
		return Info{Local, 1, 1}, true
	case GlobalGet:
		return Info{Global, 0, 1}, true
	case GlobalSet:
		return Info{Global, 1, 0}, true
	case TableGet:
		return Info{Table, 1, 1}, true
	case TableSet:
		return Info{Table, 2, 0}, true
	case MemorySize:
		return Info{Memory, 0, 1}, true
	case MemoryGrow:
		return Info{Memory, 1, 1}, true
	case I32Const:
		return Info{I32, 0, 1}, true
	case I64Const:
		return Info{I64, 0, 1}, true
	case F32Const:
		return Info{F32, 0, 1}, true
	case F64Const:
		return Info{F64, 0, 1}, true
	case RefNull:
		return Info{RefType, 0, 1}, true
	case RefIsNull:
		return Info{None, 1, 1}, true
	case RefFunc:
		return Info{Function, 0, 1}, true
	}
	return Info{}, false
}

// numeric distinguishes comparisons, arithmetic and conversions with one operand from those with two.
func numeric(op byte) Info {
	switch {
	case op == I32Eqz, op == I64Eqz, op >= I32WrapI64,
		op >= I32Clz && op < I32Add, op >= I64Clz && op < I64Add,
		op >= F32Abs && op <= F32Sqrt, op >= F64Abs && op <= F64Sqrt:
		return Info{None, 1, 1}
	}
	return Info{None, 2, 1}
}

// OfMisc returns the shape of an opcode after the Misc prefix.
func OfMisc(op byte) (Info, bool) {
	switch op {
	case MiscMemoryInit:
		return Info{DataAndMemory, 3, 0}, true
	case MiscDataDrop:
		return Info{Data, 0, 0}, true
	case MiscMemoryCopy:
		return Info{Memories, 3, 0}, true
	case MiscMemoryFill:
		return Info{Memory, 3, 0}, true
	case MiscTableInit:
		return Info{ElementAndTable, 3, 0}, true
	case MiscElemDrop:
		return Info{Element, 0, 0}, true
	case MiscTableCopy:
		return Info{Tables, 3, 0}, true
	case MiscTableSize:
		return Info{Table, 0, 1}, true
	case MiscTableFill:
		return Info{Table, 3, 0}, true
	}
	return Info{None, 1, 1}, op <= MiscTruncLast
}

// AppendSigned appends a signed LEB128 number, the encoding of constants. For unsigned ones use binary.AppendUvarint.
func AppendSigned(b []byte, v int64) []byte {
	for {
		low := byte(v) & 0x7f
		v >>= 7
		if v == 0 && low&0x40 == 0 || v == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}
