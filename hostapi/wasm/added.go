package wasm

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
)

// This file contains the functions that rewriting adds to a module.

// emitAdded writes the added functions, in the order of their indices.
func (rw *rewriter) emitAdded() {
	rw.typeIndex(refillType())
	rw.emitRefill()
	if rw.usesLength {
		rw.typeIndex(lengthType())
		rw.emitLength()
	}
	if rw.usesMark {
		rw.typeIndex(markType())
		rw.emitMark()
	}
}

func refillType() FuncType { return FuncType{} }

func lengthType() FuncType { return FuncType{Params: []ValueType{I32}, Results: []ValueType{I32}} }

// addedFunctions returns the types of the added functions.
func (rw *rewriter) addedFunctions() []byte {
	out := binary.AppendUvarint(nil, uint64(rw.typeIndex(refillType())))
	if rw.usesLength {
		out = binary.AppendUvarint(out, uint64(rw.typeIndex(lengthType())))
	}
	if rw.usesMark {
		out = binary.AppendUvarint(out, uint64(rw.typeIndex(markType())))
	}
	return out
}

// emitRefill writes the function that fills the slice from the tank, and traps if the tank is empty or the calls are
// nested too deep. It requests YieldPages more memory, because only that instruction leaves the guest's code.
func (rw *rewriter) emitRefill() {
	const want = 0 // a local: first what the slice lacks, then what it gets
	out := append(rw.scratch[:0], 1, 1, byte(I64))
	if rw.mod.memory != nil {
		out = opcode.AppendSigned(append(out, opcode.I32Const), YieldPages)
		out = append(out, opcode.MemoryGrow, 0, opcode.Drop)
	}
	out = opcode.AppendSigned(append(out, opcode.I64Const), sliceFuel)
	out = appendIndexed(out, opcode.GlobalGet, rw.slice)
	out = append(out, opcode.I64Sub, opcode.LocalTee, want)
	out = appendIndexed(out, opcode.GlobalGet, rw.tank)
	out = append(out, opcode.LocalGet, want)
	out = appendIndexed(out, opcode.GlobalGet, rw.tank)
	out = append(out, opcode.I64LtS, opcode.Select, opcode.LocalSet, want) // the smaller of both

	out = appendIndexed(out, opcode.GlobalGet, rw.tank)
	out = append(out, opcode.LocalGet, want, opcode.I64Sub)
	out = appendIndexed(out, opcode.GlobalSet, rw.tank)
	out = appendIndexed(out, opcode.GlobalGet, rw.slice)
	out = append(out, opcode.LocalGet, want, opcode.I64Add)
	out = appendIndexed(out, opcode.GlobalSet, rw.slice)

	out = appendIndexed(out, opcode.GlobalGet, rw.slice)
	out = appendIndexed(out, opcode.GlobalGet, rw.depth)
	out = appendIfNegative(append(out, opcode.I64Or))
	rw.body(append(out, opcode.Unreachable, opcode.End, opcode.End))
	rw.count++
}

// emitLength writes the function that charges a bulk operation: it takes the length and returns it, so that a call of
// it fits right before the operation.
func (rw *rewriter) emitLength() {
	out := append(rw.scratch[:0], 0)
	out = appendIndexed(out, opcode.GlobalGet, rw.slice)
	out = append(out, opcode.LocalGet, 0, opcode.I64ExtendU, opcode.I64Const, lengthShift, opcode.I64ShrU,
		opcode.I64Sub)
	out = appendIndexed(out, opcode.GlobalSet, rw.slice)
	out = appendIndexed(out, opcode.GlobalGet, rw.slice)
	out = appendIndexed(appendIfNegative(out), opcode.Call, rw.refill)
	rw.body(append(out, opcode.End, opcode.LocalGet, 0, opcode.End))
	rw.count++
}
