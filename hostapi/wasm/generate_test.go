package wasm_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// program generates valid modules whose runs end by themselves: loops count down, functions call only later ones, and
// all of them together stop after a number of steps, by a trap that the module itself causes.
type program struct {
	*rand.Rand
	m       *Module
	sigs    []wasm.FuncType
	steps   uint32 // global that limits the run
	global  uint32 // an i64
	passive uint32
	fn      int // the function being written
	locals  Types
	labels  []label
	size    int // instructions left to write in this function
	code    []byte
}

// label is a block that can be branched to, with what a branch carries.
type label struct{ carries Types }

// generate returns a module with the exports f0, f1, … and their signatures.
func generate(seed uint64) ([]byte, []wasm.FuncType) {
	p := &program{Rand: rand.New(rand.NewPCG(seed, 1)), m: &Module{}}
	p.m.Memory(1, 3)
	p.m.Export("memory", wasm.KindMemory, 0)
	p.steps = p.m.Global(wasm.I32, true, I32Const(400))
	p.global = p.m.Global(wasm.I64, true, I64Const(7))
	p.m.Export("g0", wasm.KindGlobal, p.global)
	p.m.Data(16, []byte("mneme"))
	p.passive = p.m.PassiveData([]byte("segment"))
	for range 2 + p.IntN(4) {
		p.sigs = append(p.sigs, wasm.FuncType{Params: p.types(4), Results: p.types(3)})
	}
	var all []uint32
	for i, s := range p.sigs {
		p.fn, p.size = i, 20+p.IntN(150)
		p.locals = slices.Concat(s.Params, p.types(5), Types{wasm.I32, wasm.I64})
		p.labels = []label{{s.Results}}
		p.code = nil
		p.step()
		p.statements(4)
		p.values(s.Results)
		f := p.m.Func(s.Params, s.Results, p.locals[len(s.Params):], p.code)
		p.m.Export(fmt.Sprintf("f%d", i), wasm.KindFunc, f)
		all = append(all, f)
	}
	p.m.Table(uint32(len(all)) + 2)
	p.m.Elements(1, all...)
	return p.m.Bytes(), p.sigs
}

func (p *program) types(most int) Types {
	list := make(Types, p.IntN(most+1))
	for i := range list {
		list[i] = []wasm.ValueType{wasm.I32, wasm.I64, wasm.F64, wasm.I32}[p.IntN(4)]
	}
	return list
}

func (p *program) op(op byte, immediates ...uint32) {
	p.code = append(p.code, Op(op, immediates...)...)
	p.size--
}

func (p *program) misc(op byte, immediates ...uint32) {
	p.code = append(p.code, Misc(op, immediates...)...)
	p.size--
}

func (p *program) i32(v int32) { p.code = append(p.code, I32Const(v)...) }

// step limits the run.
func (p *program) step() {
	p.op(opcode.GlobalGet, p.steps)
	p.op(opcode.I32Eqz)
	p.op(opcode.If, Void)
	p.op(opcode.Unreachable)
	p.op(opcode.End)
	p.op(opcode.GlobalGet, p.steps)
	p.i32(1)
	p.op(opcode.I32Sub)
	p.op(opcode.GlobalSet, p.steps)
}

// local returns a local of a type; false if there is none.
func (p *program) local(t wasm.ValueType) (uint32, bool) {
	at := p.IntN(len(p.locals))
	for i := range p.locals {
		if j := (at + i) % len(p.locals); p.locals[j] == t {
			return uint32(j), true
		}
	}
	return 0, false
}

func (p *program) values(types Types) {
	for _, t := range types {
		p.value(t, 3)
	}
}

// value leaves one value on the stack.
func (p *program) value(t wasm.ValueType, nest int) {
	if nest <= 0 || p.size <= 0 || p.IntN(4) == 0 {
		if i, ok := p.local(t); ok && p.IntN(3) > 0 {
			p.op(opcode.LocalGet, i)
			return
		}
		p.constant(t)
		return
	}
	switch t {
	case wasm.I32:
		p.value32(nest)
	case wasm.I64:
		p.value64(nest)
	default:
		p.value(t, nest-1)
		p.value(t, nest-1)
		p.op([]byte{opcode.F64Add, opcode.F64Add + 2, opcode.F64Div}[p.IntN(3)])
	}
}

func (p *program) constant(t wasm.ValueType) {
	switch t {
	case wasm.I32:
		p.i32([]int32{0, 1, 2, 3, -1, 7, 100, 65_532, 1 << 20}[p.IntN(9)])
	case wasm.I64:
		p.code = append(p.code, I64Const([]int64{0, 1, -5, 1 << 40}[p.IntN(4)])...)
	default:
		p.code = append(p.code, opcode.F64Const, 0, 0, 0, 0, 0, 0, byte(p.IntN(16)), 0x40)
	}
}

func (p *program) value32(nest int) {
	switch p.IntN(7) {
	case 0:
		p.address(nest)
		p.op([]byte{opcode.I32Load, 0x2c, 0x2f}[p.IntN(3)], 0, uint32(p.IntN(9)))
	case 1:
		p.value(wasm.I64, nest-1)
		p.op(opcode.I32WrapI64)
	case 2:
		p.op(opcode.MemorySize, 0)
	case 3:
		p.value(wasm.I32, nest-1)
		p.value(wasm.I32, nest-1)
		p.value(wasm.I32, nest-1)
		p.op(opcode.Select)
	case 4:
		p.choice(wasm.I32, nest)
	default:
		p.value(wasm.I32, nest-1)
		p.value(wasm.I32, nest-1)
		p.op([]byte{opcode.I32Add, opcode.I32Sub, opcode.I32Mul, opcode.I32And, opcode.I32Xor, opcode.I32LtU,
			opcode.I32DivU, opcode.I32RemU}[p.IntN(8)])
	}
}

func (p *program) value64(nest int) {
	switch p.IntN(5) {
	case 0:
		p.address(nest)
		p.op(opcode.I64Load, 0, 8)
	case 1:
		p.value(wasm.I32, nest-1)
		p.op(opcode.I64ExtendU)
	case 2:
		p.op(opcode.GlobalGet, p.global)
	case 3:
		p.choice(wasm.I64, nest)
	default:
		p.value(wasm.I64, nest-1)
		p.value(wasm.I64, nest-1)
		p.op([]byte{opcode.I64Add, opcode.I64Sub, opcode.I64ShrU, opcode.I64Or}[p.IntN(4)])
	}
}

// choice is an if with a result.
func (p *program) choice(t wasm.ValueType, nest int) {
	p.value(wasm.I32, nest-1)
	p.op(opcode.If, uint32(t))
	p.labels = append(p.labels, label{Types{t}})
	p.value(t, nest-1)
	p.maybeLeave()
	p.op(opcode.Else)
	p.value(t, nest-1)
	p.end()
}

// address leaves an address that is usually in the first page.
func (p *program) address(nest int) {
	p.value(wasm.I32, nest-1)
	if p.IntN(12) > 0 {
		p.i32(0x7ff8)
		p.op(opcode.I32And)
	}
}
