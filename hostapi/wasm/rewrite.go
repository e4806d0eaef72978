package wasm

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
)

// rewriter writes the rewritten module. It adds four globals, one to three functions, and the types that these and
// multi-value results need. They follow the module's own, so that no index changes.
type rewriter struct {
	mod    *module
	walker walker
	pages  uint32 // memory cap
	tank   uint32 // indices of the globals
	slice  uint32
	depth  uint32
	cards  uint32
	refill uint32 // indices of the functions
	length uint32
	mark   uint32
	marks  bool   // stores mark their cards
	code   []byte // bodies of the functions
	own    int    // number of bodies in the original module
	count  int    // number of bodies in the rewritten module

	usesLength bool
	usesMark   bool
	addedTypes []FuncType
	typeAt     map[string]int // index of each added type by its text
	scratch    []byte
}

func newRewriter(m *module, lim Limits) *rewriter {
	rw := &rewriter{
		mod: m, pages: uint32(lim.MemoryPages), typeAt: map[string]int{},
		tank: uint32(len(m.globals)), slice: uint32(len(m.globals)) + 1, depth: uint32(len(m.globals)) + 2,
		cards: uint32(len(m.globals)) + 3, refill: uint32(len(m.functions)), length: uint32(len(m.functions)) + 1,
		mark: uint32(len(m.functions)) + 2, marks: m.memory != nil && len(m.raw[secCode]) <= mostMarked,
	}
	rw.walker.mod = m
	rw.walker.work.meter = m.meter
	for _, g := range m.globals {
		if g.mutable {
			rw.walker.work.globals++
			rw.walker.traits.KeepsRefs = rw.walker.traits.KeepsRefs || g.typ.isRef()
		}
	}
	return rw
}

// functions walks and rewrites all bodies.
func (rw *rewriter) functions() {
	m := rw.mod
	r := m.section(secCode)
	defined := m.functions[len(m.imports):]
	if m.raw[secCode] != nil {
		rw.own = r.count()
	}
	if rw.own != len(defined) {
		r.fail(checkFormat, "%d bodies for %d functions", rw.own, len(defined))
	}
	if m.raw[secData] == nil && m.data > 0 {
		r.fail(checkFormat, "%d data segments were announced", m.data)
	}
	rw.code = make([]byte, 0, len(r.buf)+len(r.buf)/4)
	for i := range r.items(rw.own) {
		entry := r.bytes(r.u32())
		b := rw.walker.walk(m.types[defined[i]], entry, r.base+r.pos-len(entry))
		if r.err == nil {
			rw.emit(b)
		}
	}
	if m.raw[secCode] != nil {
		r.finish()
	}
	rw.count = rw.own
	rw.emitAdded()
}

// emit writes one function. A function that calls others is wrapped in a block, so that every way out of it passes the
// block's end, where the depth is restored.
func (rw *rewriter) emit(b *body) {
	out := rw.appendLocals(rw.scratch[:0], b)
	out = rw.charge(out, b.cost, !b.leaf)
	if !b.leaf {
		out = append(out, opcode.Block)
		out = rw.resultType(out, b.typ.Results)
	}
	done := 0
	for _, p := range b.patches {
		if p.kind == patchReturn && b.leaf || p.kind == patchStore && !rw.marks {
			continue
		}
		out = append(out, b.code[done:p.at]...)
		done = p.at
		switch p.kind {
		case patchCharge:
			out = rw.charge(out, p.arg, false)
		case patchLength:
			out = rw.chargeLength(out)
		case patchStore:
			out = rw.markStore(out, b, b.code[p.at:])
		case patchBulk:
			out = rw.markRange(rw.chargeLength(out), b)
		case patchReturn:
			out = binary.AppendUvarint(append(out, opcode.Br), uint64(p.arg))
			done++
		}
	}
	out = append(out, b.code[done:]...)
	if !b.leaf {
		out = rw.add(out, rw.depth, opcode.I64Add, 1)
		out = append(out, opcode.End)
	}
	rw.body(out)
}

// chargeLength charges a bulk operation by the length on top of the stack.
func (rw *rewriter) chargeLength(out []byte) []byte {
	rw.usesLength = true
	return appendIndexed(out, opcode.Call, rw.length)
}

func (rw *rewriter) body(b []byte) {
	rw.code = binary.AppendUvarint(rw.code, uint64(len(b)))
	rw.code = append(rw.code, b...)
	rw.scratch = b
}

// charge appends code that takes n from the slice and, at the beginning of a call, 1 from the depth, and calls refill
// when either falls below zero. The code does not touch the operand stack, so it can be inserted anywhere. It needs no
// local, because a compiler keeps the value of a global that was just set in a register.
func (rw *rewriter) charge(out []byte, n int, enters bool) []byte {
	out = rw.add(out, rw.slice, opcode.I64Sub, n)
	out = appendIndexed(out, opcode.GlobalGet, rw.slice)
	if enters {
		out = rw.add(out, rw.depth, opcode.I64Sub, 1)
		out = appendIndexed(out, opcode.GlobalGet, rw.depth)
		out = append(out, opcode.I64Or) // negative if one of them is
	}
	return append(appendIndexed(appendIfNegative(out), opcode.Call, rw.refill), opcode.End)
}

// appendIfNegative opens a block for an i64 on the stack that is below zero.
func appendIfNegative(out []byte) []byte {
	return append(out, opcode.I64Const, 0, opcode.I64LtS, opcode.If, 0x40)
}

// add appends `global = global op n`.
func (rw *rewriter) add(out []byte, global uint32, op byte, n int) []byte {
	out = appendIndexed(out, opcode.GlobalGet, global)
	out = opcode.AppendSigned(append(out, opcode.I64Const), int64(n))
	return appendIndexed(append(out, op), opcode.GlobalSet, global)
}

func appendIndexed(out []byte, op byte, index uint32) []byte {
	return binary.AppendUvarint(append(out, op), uint64(index))
}

// resultType appends the type of a block without parameters.
func (rw *rewriter) resultType(out []byte, results []ValueType) []byte {
	switch len(results) {
	case 0:
		return append(out, 0x40)
	case 1:
		return append(out, byte(results[0]))
	}
	return opcode.AppendSigned(out, int64(rw.typeIndex(FuncType{Results: results})))
}

// typeIndex returns the index of an added type.
func (rw *rewriter) typeIndex(t FuncType) int {
	key := t.String()
	i, ok := rw.typeAt[key]
	if !ok {
		i = len(rw.mod.types) + len(rw.addedTypes)
		rw.addedTypes = append(rw.addedTypes, t)
		rw.typeAt[key] = i
	}
	return i
}
