package wasm_test

import (
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// Modules of a few kilobytes that keep an optimising compiler busy for seconds to hours, each in its own way.
func TestCompileBombs(t *testing.T) {
	i32s := func(n int) Types { return slices.Repeat(Types{wasm.I32}, n) }
	increment := func(local uint32) []byte {
		return slices.Concat(Op(opcode.LocalGet, local), I32Const(1), Op(opcode.I32Add), Op(opcode.LocalSet, local))
	}
	ifs := func(n int) []byte {
		return times(n, Op(opcode.LocalGet, 0), Op(opcode.If, Void), increment(0), Op(opcode.End))
	}
	blocks := func(n int) []byte { return times(n, Op(opcode.Block, Void), Op(opcode.End)) }
	loads := func(n int) []byte { return times(n, Op(opcode.I32Load, 2, 0)) }
	loops := func(n int, code ...[]byte) []byte {
		return slices.Concat(times(n, Op(opcode.Loop, Void)), slices.Concat(code...),
			times(n, Op(opcode.LocalGet, 0), Op(opcode.BrIf, 0), Op(opcode.End)))
	}
	one := func(m *Module, locals Types, code ...[]byte) {
		m.Memory(1, 1)
		m.Func(Types{wasm.I32}, nil, locals, code...)
	}
	tests := []struct {
		name, check string
		build       func(*Module)
	}{
		{"locals x ifs", "locals_blocks", func(m *Module) { one(m, i32s(900), ifs(1600)) }},
		{"operands x ifs", "locals_blocks", func(m *Module) {
			one(m, nil, times(990, I32Const(1)), ifs(1600), times(990, Op(opcode.Drop)))
		}},
		{"locals x ifs in loops", "locals_blocks", func(m *Module) { one(m, i32s(600), loops(32, ifs(500))) }},
		{"locals x loops", "locals_loops", func(m *Module) { one(m, i32s(900), loops(32, increment(3))) }},
		{"locals x loops in many functions", "locals_loops", func(m *Module) {
			m.Memory(1, 1)
			for range 50 {
				m.Func(nil, nil, i32s(400), loops(8))
			}
		}},
		{"checked addresses x blocks", "memory_blocks", func(m *Module) {
			one(m, nil, Op(opcode.LocalGet, 0), loads(4000), Op(opcode.Drop), blocks(4000))
		}},
		{"checked addresses on all ways", "memory_blocks", func(m *Module) {
			one(m, nil, Op(opcode.LocalGet, 0), loads(4000), Op(opcode.Drop), ifs(1000))
		}},
		{"blocks x loads", "lookups", func(m *Module) {
			one(m, nil, blocks(4000), Op(opcode.LocalGet, 0), loads(4000), Op(opcode.Drop))
		}},
		{"branches x globals", "lookups", func(m *Module) {
			g := m.Global(wasm.I32, false, I32Const(0))
			one(m, nil, times(4000, Op(opcode.LocalGet, 0), Op(opcode.BrIf, 0)),
				times(4000, Op(opcode.GlobalGet, g), Op(opcode.Drop)))
		}},
		{"globals x calls", "globals_by_calls", func(m *Module) {
			for range 300 {
				m.Global(wasm.I32, true, I32Const(0))
			}
			one(m, nil, times(8000, I32Const(0), Op(opcode.Call, 0)))
		}},
		{"branch targets", "branch_targets", func(m *Module) {
			table := slices.Concat(Op(opcode.LocalGet, 0), Op(opcode.BrTable, 120_000), make([]byte, 120_001))
			for range 3 {
				m.Func(Types{wasm.I32}, nil, nil, table)
			}
		}},
		{"loads", "memory_accesses", func(m *Module) {
			m.Memory(1, 1)
			for range 13 {
				m.Func(Types{wasm.I32}, Types{wasm.I32}, nil, Op(opcode.LocalGet, 0), loads(40_000))
			}
		}},
	}
	for _, test := range tests {
		if r := refusal(t, with(test.build), wasm.DefaultLimits()); r.Check != test.check {
			t.Errorf("%s: %v, not %s", test.name, r, test.check)
		}
	}
}

// What does not add up for the compiler is not counted: joins that discard knowledge, dead code, calls in modules with
// few globals.
func TestNoBomb(t *testing.T) {
	meet := slices.Concat(Op(opcode.Block, Void), Op(opcode.LocalGet, 0), Op(opcode.BrIf, 0), Op(opcode.End))
	load := slices.Concat(Op(opcode.LocalGet, 0), Op(opcode.I32Load, 2, 0), Op(opcode.Drop))
	dead := slices.Concat(Op(opcode.Unreachable), times(4000, Op(opcode.If, Void), Op(opcode.End)))
	for name, build := range map[string]func(*Module){
		"addresses of one way": func(m *Module) {
			m.Func(Types{wasm.I32}, nil, nil, times(2000, Op(opcode.Block, Void), Op(opcode.LocalGet, 0),
				Op(opcode.BrIf, 0),
				times(2, load), Op(opcode.End)))
		},
		"addresses of one arm": func(m *Module) {
			m.Func(Types{wasm.I32}, nil, nil,
				times(2000, Op(opcode.LocalGet, 0), Op(opcode.If, Void), times(2, load), Op(opcode.Else),
					Op(opcode.End)))
		},
		"loads between meetings": func(m *Module) {
			m.Func(Types{wasm.I32}, nil, nil, times(2000, meet, load))
		},
		"dead code": func(m *Module) { m.Func(nil, nil, slices.Repeat(Types{wasm.I32}, 999), dead) },
	} {
		m := &Module{}
		m.Memory(1, 1)
		build(m)
		lim := wasm.DefaultLimits()
		lim.Lookups, lim.MemoryBlocks, lim.LocalsBlocks = 10_000, 5_000_000, 20_000
		if _, err := wasm.Prepare(m.Bytes(), lim); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
