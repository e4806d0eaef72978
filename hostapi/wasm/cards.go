package wasm

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
)

// Cards. After each call the host restores what a guest has written, and most of a memory was not written. So each
// store first sets the bit of its card in a global. The module cannot see the bits, and marking is not charged as fuel:
// the price of a store covers it.

// mostMarked is the code size of the largest module that marks its cards, in bytes.
const mostMarked = 32 << 10

// Locals that are added to a function that writes, after its own.
const (
	localAddress = iota
	localWord    // a value that is stored, or the second operand of a bulk operation
	localLength
	localLong
	localFloat
	localDouble
)

// appendLocals writes a function's locals.
func (rw *rewriter) appendLocals(out []byte, b *body) []byte {
	if !rw.marks || !b.writes {
		return append(out, b.locals...)
	}
	groups, n := binary.Uvarint(b.locals)
	out = append(binary.AppendUvarint(out, groups+4), b.locals[n:]...)
	return append(out, localLong-localAddress, byte(I32), 1, byte(I64), 1, byte(F32), 1, byte(F64))
}

func local(out []byte, op byte, b *body, which int) []byte {
	return appendIndexed(out, op, uint32(b.local+which))
}

// markStore writes the code before a store, whose address and value are on the stack.
func (rw *rewriter) markStore(out []byte, b *body, store []byte) []byte {
	value := valueOf(store[0])
	_, n := binary.Uvarint(store[1:]) // the alignment
	offset, _ := binary.Uvarint(store[1+n:])
	out = local(out, opcode.LocalSet, b, value)
	out = local(out, opcode.LocalTee, b, localAddress)

	out = appendIndexed(out, opcode.GlobalGet, rw.cards)
	out = append(out, opcode.I64Const, 1)
	out = local(out, opcode.LocalGet, b, localAddress)
	if offset != 0 { // if the sum does not fit into 32 bits, it is beyond any memory, and the store traps
		out = opcode.AppendSigned(append(out, opcode.I32Const), int64(int32(uint32(offset))))
		out = append(out, opcode.I32Add)
	}
	out = append(out, opcode.I32Const, cardShift, opcode.I32ShrU, opcode.I64ExtendU, opcode.I64Shl, opcode.I64Or)
	out = appendIndexed(out, opcode.GlobalSet, rw.cards)
	return local(out, opcode.LocalGet, b, value)
}

// valueOf returns the local for what a store writes.
func valueOf(store byte) int {
	switch {
	case store == opcode.F32Store:
		return localFloat
	case store == opcode.F64Store:
		return localDouble
	case store == opcode.I64Store || store >= opcode.I64Store8:
		return localLong
	}
	return localWord
}

// markRange writes the code before an operation that writes a range. On the stack are its address, another operand and
// its length.
func (rw *rewriter) markRange(out []byte, b *body) []byte {
	if !rw.marks {
		return out
	}
	rw.usesMark = true
	out = local(out, opcode.LocalSet, b, localLength)
	out = local(out, opcode.LocalSet, b, localWord)
	out = local(out, opcode.LocalTee, b, localAddress)
	out = local(out, opcode.LocalGet, b, localAddress)
	out = local(out, opcode.LocalGet, b, localLength)
	out = appendIndexed(out, opcode.Call, rw.mark)
	out = local(out, opcode.LocalGet, b, localWord)
	return local(out, opcode.LocalGet, b, localLength)
}

func markType() FuncType { return FuncType{Params: []ValueType{I32, I32}} }

// emitMark writes the function that marks the cards of a range, given by its address and length, like CardsOf.
func (rw *rewriter) emitMark() {
	const address, length, more = 0, 1, 2 // more is a local: how many cards follow the first
	out := append(rw.scratch[:0], 1, 1, byte(I32))
	out = append(out, opcode.LocalGet, address, opcode.LocalGet, length, opcode.I32Add, opcode.I32Const, cardShift,
		opcode.I32ShrU, opcode.LocalGet, address, opcode.I32Const, cardShift, opcode.I32ShrU, opcode.I32Sub,
		opcode.LocalSet, more)
	out = appendIndexed(out, opcode.GlobalGet, rw.cards)
	out = append(out, opcode.I64Const, 0x7f) // -1, all cards
	out = append(out, opcode.I64Const, 2, opcode.LocalGet, more, opcode.I64ExtendU, opcode.I64Shl,
		opcode.I64Const, 1, opcode.I64Sub,
		opcode.LocalGet, address, opcode.I32Const, cardShift, opcode.I32ShrU, opcode.I64ExtendU, opcode.I64Rotl)
	out = opcode.AppendSigned(append(out, opcode.LocalGet, more, opcode.I32Const), Cards-1)
	out = append(out, opcode.I32GtU, opcode.Select, opcode.I64Or)
	out = appendIndexed(out, opcode.GlobalSet, rw.cards)
	rw.body(append(out, opcode.End))
	rw.count++
}
