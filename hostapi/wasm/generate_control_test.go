package wasm_test

import (
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

func (p *program) statements(nest int) {
	for n := 1 + p.IntN(4); n > 0 && p.size > 0; n-- {
		p.statement(nest)
	}
}

func (p *program) statement(nest int) {
	choice := p.IntN(14)
	if nest <= 0 {
		choice %= 8
	}
	switch choice {
	case 0, 1:
		i := p.IntN(len(p.locals))
		p.value(p.locals[i], 3)
		p.op(opcode.LocalSet, uint32(i))
	case 2:
		p.address(2)
		p.value(wasm.I32, 2)
		p.op(opcode.I32Store, 0, 4)
	case 3:
		p.value(wasm.I64, 3)
		p.op(opcode.GlobalSet, p.global)
	case 4:
		p.bulk()
	case 5:
		p.call()
	case 6:
		p.value(wasm.I32, 1)
		p.op(opcode.MemoryGrow, 0)
		p.op(opcode.Drop)
	case 7:
		p.maybeLeave()
	case 8, 9:
		p.block(nest)
	case 10:
		p.branches(nest)
	case 11:
		p.table(nest)
	default:
		p.loop(nest)
	}
}

func (p *program) bulk() {
	p.address(1)
	p.address(1)
	p.i32(int32(p.IntN(40)))
	switch p.IntN(3) {
	case 0:
		p.misc(opcode.MiscMemoryFill, 0)
	case 1:
		p.misc(opcode.MiscMemoryCopy, 0, 0)
	default:
		p.misc(opcode.MiscMemoryInit, p.passive, 0)
	}
}

// call calls a later function, directly or through the table, and drops its results.
func (p *program) call() {
	if p.fn+1 >= len(p.sigs) {
		return
	}
	f := p.fn + 1 + p.IntN(len(p.sigs)-p.fn-1)
	p.values(p.sigs[f].Params)
	if p.IntN(2) == 0 {
		p.op(opcode.Call, uint32(f))
	} else {
		slot := f + 1
		if p.IntN(20) == 0 {
			slot = 0 // empty
		}
		p.i32(int32(slot))
		p.op(opcode.CallIndirect, p.m.Type(p.sigs[f].Params, p.sigs[f].Results), 0)
	}
	for range p.sigs[f].Results {
		p.op(opcode.Drop)
	}
}

// maybeLeave branches, returns or traps in the middle of things; what follows may be dead.
func (p *program) maybeLeave() {
	depth := p.IntN(len(p.labels))
	carries := p.labels[len(p.labels)-1-depth].carries
	switch p.IntN(9) {
	case 0:
		p.values(carries)
		p.op(opcode.Br, uint32(depth))
		p.restart()
	case 1:
		p.values(p.sigs[p.fn].Results)
		p.op(opcode.Return)
		p.restart()
	case 2:
		if p.IntN(6) == 0 {
			p.op(opcode.Unreachable)
			p.restart()
		}
	default:
		p.values(carries)
		p.value(wasm.I32, 2)
		p.op(opcode.BrIf, uint32(depth))
		for range carries {
			p.op(opcode.Drop)
		}
	}
}

// restart follows an unconditional branch: the rest of the block is dead, and in dead code the stack has whatever the
// block must leave.
func (p *program) restart() {
	if p.IntN(2) == 0 {
		p.op(opcode.I32Add) // takes operands that are not there
		p.op(opcode.Drop)
	}
	for range p.labels[len(p.labels)-1].carries {
		p.op(opcode.Unreachable)
	}
}

func (p *program) end() {
	p.op(opcode.End)
	p.labels = p.labels[:len(p.labels)-1]
}

// block is a block of any type, including parameters and results.
func (p *program) block(nest int) {
	params, results := p.types(2), p.types(3)
	p.values(params)
	p.op(opcode.Block, p.m.Type(params, results))
	p.labels = append(p.labels, label{results})
	for range params {
		p.op(opcode.Drop)
	}
	p.statements(nest - 1)
	p.values(results)
	p.end()
	for range results {
		p.op(opcode.Drop)
	}
}

func (p *program) branches(nest int) {
	p.value(wasm.I32, 2)
	p.op(opcode.If, Void)
	p.labels = append(p.labels, label{})
	p.statements(nest - 1)
	if p.IntN(2) == 0 {
		p.op(opcode.Else)
		p.statements(nest - 1)
	}
	p.end()
}

// table branches out of nested blocks.
func (p *program) table(nest int) {
	n := 1 + p.IntN(4)
	for range n {
		p.op(opcode.Block, Void)
		p.labels = append(p.labels, label{})
	}
	p.value(wasm.I32, 2)
	p.op(opcode.BrTable, uint32(n-1))
	for range n {
		p.code = append(p.code, byte(p.IntN(n)))
	}
	for range n {
		p.end()
		p.statements(nest - 1)
	}
}

// loop counts down in its own parameter, so that a branch to it is the next iteration.
func (p *program) loop(nest int) {
	counter := Types{wasm.I32}
	p.i32(int32(1 + p.IntN(5)))
	p.op(opcode.Block, p.m.Type(counter, nil))
	p.labels = append(p.labels, label{})
	p.op(opcode.Loop, p.m.Type(counter, nil))
	p.labels = append(p.labels, label{counter})
	p.step()
	i, _ := p.local(wasm.I32)
	p.op(opcode.LocalTee, i)
	p.op(opcode.I32Eqz)
	p.op(opcode.BrIf, 1)
	p.statements(nest - 1)
	p.op(opcode.LocalGet, i)
	p.i32(1)
	p.op(opcode.I32Sub)
	if p.IntN(3) > 0 {
		p.op(opcode.Br, 0)
	} else {
		p.op(opcode.LocalTee, i)
		p.op(opcode.LocalGet, i)
		p.op(opcode.BrIf, 0)
		p.op(opcode.Drop)
	}
	p.end()
	p.end()
}
