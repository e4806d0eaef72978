package wasm_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// Locals of the functions whose prices are measured, after the counter.
const (
	x32 = 1 + iota
	y32
	x64
	xf
)

// priced is a class of instructions: code that runs 100 times in each iteration of a loop.
type priced struct {
	name string
	code []byte
}

func classes(leaf, indirect uint32) []priced {
	get := func(i uint32) []byte { return Op(opcode.LocalGet, i) }
	set := func(i uint32) []byte { return Op(opcode.LocalSet, i) }
	join := func(code ...[]byte) (all []byte) {
		for _, c := range code {
			all = append(all, c...)
		}
		return all
	}
	// Addresses that no cache can predict: a multiplicative step, modulo 16 MiB.
	step := join(get(x32), I32Const(1103515245), Op(opcode.I32Mul), I32Const(12345), Op(opcode.I32Add),
		Op(opcode.LocalTee, x32), I32Const(16<<20-64), Op(opcode.I32And))
	near := join(get(y32), I32Const(64), Op(opcode.I32Add), I32Const(4095), Op(opcode.I32And), Op(opcode.LocalTee, y32))
	return []priced{
		{"add", join(get(x32), I32Const(7), Op(opcode.I32Add), set(x32))},
		{"multiply", join(get(x64), I64Const(7), Op(opcode.I64Mul), set(x64))},
		{"divide", join(get(x64), I64Const(3), Op(opcode.I64DivS), I64Const(1<<60), Op(opcode.I64Or), set(x64))},
		{"remainder", join(I64Const(math.MaxInt64), get(x64), I64Const(3), Op(opcode.I64Or), Op(opcode.I64RemU), set(x64))},
		{"float add", join(get(xf), get(xf), Op(opcode.F64Add), set(xf))},
		{"float divide", join(get(xf), get(xf), Op(opcode.F64Div), set(xf))},
		{"root", join(get(xf), Op(opcode.F64Sqrt), set(xf))},
		{"global", join(Op(opcode.GlobalGet, 0), I32Const(1), Op(opcode.I32Add), Op(opcode.GlobalSet, 0))},
		{"select", join(get(x32), get(y32), get(x32), []byte{opcode.Select}, set(y32))},
		{"branch", join(Op(opcode.Block, Void), get(x32), Op(opcode.BrIf, 0), I32Const(3), set(x32), Op(opcode.End))},
		{"unforeseen branch", join(step, I32Const(1<<16), Op(opcode.I32And), Op(opcode.If, Void), get(y32), I32Const(1),
			Op(opcode.I32Add), set(y32), Op(opcode.End))},
		{"branch table", join(Op(opcode.Block, Void), Op(opcode.Block, Void), step, I32Const(16), Op(opcode.I32ShrU),
			I32Const(1), Op(opcode.I32And), Op(opcode.BrTable, 1, 0, 1), Op(opcode.End), Op(opcode.End))},
		{"call", Op(opcode.Call, leaf)},
		{"call through a table", join(I32Const(0), Op(opcode.CallIndirect, indirect, 0))},
		{"load, near", join(near, Op(opcode.I32Load, 2, 0), set(x32))},
		{"store, near", join(near, get(x32), Op(opcode.I32Store, 2, 0))},
		{"load, far", join(step, Op(opcode.I32Load, 2, 0), set(y32))},
		{"store, far", join(step, get(y32), Op(opcode.I32Store, 2, 0))},
		{"load, chained", join(get(y32), Op(opcode.I32Load, 2, 0), set(y32))},
		{"fill 4 KiB", join(I32Const(0), I32Const(1), I32Const(4096), Misc(opcode.MiscMemoryFill, 0))},
		{"fill 1 MiB", join(I32Const(0), I32Const(0), I32Const(1<<20), Misc(opcode.MiscMemoryFill, 0))},
		{"copy 1 MiB", join(I32Const(0), I32Const(8<<20), I32Const(1<<20), Misc(opcode.MiscMemoryCopy, 0, 0))},
		{"fill of nothing", join(I32Const(0), I32Const(1), I32Const(0), Misc(opcode.MiscMemoryFill, 0))},
		{"refused growth", join(I32Const(300), Op(opcode.MemoryGrow, 0), set(y32))},
	}
}

// BenchmarkPrices prints how long a unit of fuel takes in each class of instructions, and how many times that of the
// cheapest class it is: run it with -benchtime 1x.
func BenchmarkPrices(b *testing.B) {
	e := engines(b)[1]
	m := &Module{}
	m.Memory(256, 256)
	m.Global(wasm.I32, true, I32Const(0))
	leaf := m.Func(nil, nil, nil)
	m.Table(1)
	m.Elements(0, leaf)
	all := classes(leaf, m.Type(nil, nil))
	for i, c := range all {
		name := string(rune('a' + i))
		m.Export(name, wasm.KindFunc, m.Func(Types{wasm.I32}, nil, Types{wasm.I32, wasm.I32, wasm.I64, wasm.F64},
			countdown(times(100, c.code))))
	}
	m.Export("memory", wasm.KindMemory, 0)
	g := e.mustStart(b, prepare(b, m.Bytes()).Module)
	chain := func() { // a walk through all lines of the memory, in random order
		lines := rand.New(rand.NewPCG(1, 0)).Perm(16 << 20 / 64)
		memory, _ := g.mod.Memory().Read(0, 16<<20)
		for i, line := range lines {
			binary.LittleEndian.PutUint32(memory[64*line:], uint32(64*lines[(i+1)%len(lines)]))
		}
	}
	perUnit := make([]float64, len(all))
	for b.Loop() {
		for i, c := range all {
			chain()
			name, turns := string(rune('a'+i)), uint64(1)
			best := math.Inf(1)
			for took := time.Duration(0); took < 20*time.Millisecond; turns *= 2 { // long enough to be measured
				best = math.Inf(1)
				for range 3 {
					tank, slice := wasm.Fill(plenty)
					g.set(wasm.TankExport, tank)
					g.set(wasm.SliceExport, slice)
					g.set(wasm.DepthExport, 500)
					began := time.Now()
					if _, err := g.mod.ExportedFunction(name).Call(b.Context(), turns); err != nil {
						b.Fatalf("%s: %v", c.name, err)
					}
					took = time.Since(began)
					left := wasm.Reading{Tank: g.get(wasm.TankExport), Slice: g.get(wasm.SliceExport)}
					best = min(best, float64(took.Nanoseconds())/float64(left.Spent(plenty)))
				}
			}
			perUnit[i] = best
		}
	}
	cheapest := math.Inf(1)
	for _, ns := range perUnit {
		cheapest = min(cheapest, ns)
	}
	for i, c := range all {
		fmt.Printf("%-22s %7.3f ns a unit %7.1fx\n", c.name, perUnit[i], perUnit[i]/cheapest)
	}
}
