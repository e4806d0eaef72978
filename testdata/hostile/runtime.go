package hostile

import (
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	op "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// burners returns modules that never end, or recurse too deep.
func burners() []Attack {
	fuel := plan.StatusFuelExhausted
	return []Attack{
		{Name: "infinite-loop", Doc: "loops without end", Status: fuel, Words: "fuel",
			Build: func() []byte { return (&guest{}).bytes(forever(), result(0)) }},
		{Name: "exponential-calls", Doc: "40 functions, each calling the next twice: no loop for a deadline to look at",
			Status: fuel, Build: exponentialCalls},
		{Name: "cache-misses", Doc: "chases pointers through 8 MiB, the slowest thing that fuel is charged 1 for",
			Status: fuel, Build: cacheMisses},
		{Name: "divisions", Doc: "divides on and on", Status: fuel, Build: func() []byte {
			divide := code(I64Const(-7), Op(op.LocalGet, firstLocal), Op(op.I64DivU), Op(op.LocalSet, firstLocal))
			g := &guest{locals: Types{wasm.I64}}
			return g.bytes(forever(I64Const(3), Op(op.LocalSet, firstLocal), times(500, divide, I64Const(3),
				Op(op.LocalSet, firstLocal))), result(0))
		}},
		{Name: "recursion", Doc: "calls itself without end", Status: plan.StatusDepth, Words: "500 nested calls",
			Build: func() []byte {
				g := &guest{}
				return g.bytes(Op(op.Call, g.Func(nil, nil, nil, Op(op.Call, 0))), result(0))
			}},
		{Name: "recursion-indirect", Doc: "calls itself through a table without end", Status: plan.StatusDepth,
			Build: func() []byte {
				g := &guest{}
				g.Table(1)
				g.Elements(0, g.Func(nil, nil, nil, I32Const(0), Op(op.CallIndirect, g.Type(nil, nil), 0)))
				return g.bytes(Op(op.Call, 0), result(0))
			}},
		{Name: "recursion-wide", Doc: "calls itself with hundreds of locals in each frame", Status: plan.StatusDepth,
			Build: recursionWide},
		{Name: "unreachable", Doc: "traps", Status: plan.StatusTrap, Words: "unreachable",
			Build: func() []byte { return (&guest{}).bytes(Op(op.Unreachable)) }},
		{Name: "division-by-zero", Doc: "divides by zero", Status: plan.StatusTrap, Words: "divide by zero",
			Build: func() []byte {
				return (&guest{}).bytes(I32Const(1), I32Const(0), Op(op.I32DivS))
			}},
		{Name: "load-past-memory", Doc: "reads 4 GiB behind its memory", Status: plan.StatusTrap, Words: "out of bounds",
			Build: func() []byte {
				return (&guest{}).bytes(I32Const(-1), Op(op.I32Load, 0, 1<<32-1))
			}},
		{Name: "call-through-null", Doc: "calls an entry of a table that is empty", Status: plan.StatusTrap,
			Build: func() []byte {
				g := &guest{}
				g.Table(1)
				return g.bytes(I32Const(0), Op(op.CallIndirect, g.Type(nil, nil), 0), result(0))
			}},
	}
}

func exponentialCalls() []byte {
	g := &guest{}
	next := g.Func(nil, nil, nil)
	for range 40 {
		next = g.Func(nil, nil, nil, Op(op.Call, next), Op(op.Call, next))
	}
	return g.bytes(Op(op.Call, next), result(0))
}

// recursionWide keeps its locals alive across the call, so that each frame holds all of them.
func recursionWide() []byte {
	const locals = 400
	g := &guest{}
	var fill, sum []byte
	for i := range uint32(locals) {
		fill = append(fill, code(Op(op.LocalGet, 0), I64Const(int64(i)), Op(op.I64Add), Op(op.LocalSet, i+1))...)
		sum = append(sum, code(Op(op.LocalGet, i+1), Op(op.I64Add))...)
	}
	types := make(Types, locals)
	for i := range types {
		types[i] = wasm.I64
	}
	f := g.Func(Types{wasm.I64}, Types{wasm.I64}, types, fill, Op(op.LocalGet, 1), Op(op.Call, 0), sum)
	return g.bytes(I64Const(1), Op(op.Call, f), Op(op.Drop), result(0))
}

// cacheMisses makes a cycle through all lines of 8 MiB, in an order that hardware cannot predict, and follows it.
func cacheMisses() []byte {
	const base, lines, line = 1 << 20, 1 << 17, 64
	address := func(index []byte) []byte {
		return code(index, I32Const(line), Op(op.I32Mul), I32Const(base), Op(op.I32Add))
	}
	step := code(Op(op.LocalGet, 0), I32Const(1664525), Op(op.I32Mul), I32Const(1013904223), Op(op.I32Add),
		I32Const(lines-1), Op(op.I32And))
	g := &guest{pages: (base + lines*line) >> 16}
	lay := g.Func(nil, nil, i32s(1), Op(op.Loop, Void),
		address(Op(op.LocalGet, 0)), address(step), Op(op.I32Store, 2, 0),
		step, Op(op.LocalTee, 0), Op(op.BrIf, 0), Op(op.End))
	g.initialize = Op(op.Call, lay)
	g.locals = i32s(1)
	return g.bytes(I32Const(base), Op(op.LocalSet, firstLocal),
		forever(Op(op.LocalGet, firstLocal), times(1000, Op(op.I32Load, 2, 0)), Op(op.LocalSet, firstLocal)), result(0))
}

// growers returns modules that request memory, write to much of it, or make their host write to it.
func growers() []Attack {
	fuel := plan.StatusFuelExhausted
	fill := code(I32Const(0), I32Const(0x5a), I32Const(16<<20), Misc(op.MiscMemoryFill, 0))
	grow := func(pages int32) []byte { return code(I32Const(pages), Op(op.MemoryGrow, 0)) }
	return []Attack{
		{Name: "memory-grow", Doc: "grows its memory, and traps when there is no more",
			Status: plan.StatusMemory, Words: "16777216 bytes", Build: func() []byte {
				return (&guest{}).bytes(forever(grow(8), I32Const(-1), Op(op.I32Xor), Op(op.I32Eqz), Op(op.If, Void),
					Op(op.Unreachable), Op(op.End)), result(0))
			}},
		{Name: "memory-grow-on", Doc: "asks for 4 GiB again and again, whatever the answer", Status: fuel,
			Build: func() []byte { return (&guest{}).bytes(forever(grow(65_000), Op(op.Drop)), result(0)) }},
		{Name: "memory-grow-every-call", Doc: "takes all memory in each call, so that no instance can be used twice",
			Status: plan.StatusOK, Build: func() []byte {
				return (&guest{}).bytes(grow(256-arenaPages), Op(op.Drop), result(0))
			}},
		{Name: "memory-fill", Doc: "fills 16 MiB a hundred times", Status: fuel, Build: func() []byte {
			return (&guest{pages: 256}).bytes(times(100, fill), result(0))
		}},
		{Name: "memory-copy", Doc: "moves 16 MiB on and on", Status: fuel, Build: func() []byte {
			move := code(I32Const(1), I32Const(0), I32Const(16<<20-1), Misc(op.MiscMemoryCopy, 0, 0))
			return (&guest{pages: 256}).bytes(forever(move), result(0))
		}},
		{Name: "memory-16mib", Doc: "starts with 16 MiB that are not zero, for the host to put back after each call",
			Status: plan.StatusOK, Build: func() []byte { return (&guest{pages: 256, initialize: fill}).bytes(result(0)) }},
		{Name: "slow-start", Doc: "burns its start's fuel, and drops a segment so that each call needs a start of its own",
			Status: plan.StatusOK, Build: slowStart},
	}
}

func slowStart() []byte {
	const rounds = 9_000_000 // 10 fuel each: twice what a call over 4,096 records has
	g := &guest{locals: i32s(1)}
	segment := g.PassiveData([]byte("once"))
	count := g.Func(nil, nil, i32s(1), Op(op.Loop, Void), increment(0),
		Op(op.LocalGet, 0), I32Const(rounds), Op(op.I32LtU), Op(op.BrIf, 0), Op(op.End))
	g.initialize = Op(op.Call, count)
	return g.bytes(Misc(op.MiscDataDrop, segment), result(0))
}
