package wasm_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// one is an instruction pair that costs 2 and does nothing.
var one = slices.Concat(I32Const(1), Op(opcode.Drop))

func times(n int, code ...[]byte) []byte { return bytes.Repeat(slices.Concat(code...), n) }

// countdown runs code as often as local 0 says, which must be at least once.
func countdown(code ...[]byte) []byte {
	return slices.Concat(Op(opcode.Loop, Void), slices.Concat(code...),
		Op(opcode.LocalGet, 0), I32Const(1), Op(opcode.I32Sub), Op(opcode.LocalTee, 0), Op(opcode.BrIf, 0),
		Op(opcode.End))
}

// The prices of small functions, computed by hand: a change here changes what every policy is charged.
func TestPrices(t *testing.T) {
	maybeGrow := slices.Concat(Op(opcode.LocalGet, 0), Op(opcode.If, Void),
		I32Const(1), Op(opcode.MemoryGrow, 0), Op(opcode.Drop), Op(opcode.End))
	tests := []struct {
		name string
		arg  uint64
		code []byte
		want int64
	}{
		{"nothing", 0, nil, 0},
		{"straight line", 0, times(5, one), 10},
		{"behind a return", 0, slices.Concat(one, Op(opcode.Return), times(5, one)), 3},
		{"behind a trap that is not reached", 0,
			slices.Concat(Op(opcode.LocalGet, 0), Op(opcode.If, Void), Op(opcode.Unreachable), times(5, one),
				Op(opcode.End)), 3},
		{"the dearer arm", 0,
			slices.Concat(Op(opcode.LocalGet, 0), Op(opcode.If, Void), times(5, one), Op(opcode.Else), one,
				Op(opcode.End)), 12},
		{"a way out of the middle", 0, slices.Concat(
			Op(opcode.Block, Void), one, Op(opcode.LocalGet, 0), Op(opcode.BrIf, 0), times(5, one), Op(opcode.End),
			one), 17},
		{"the dearest of a table", 0, slices.Concat(
			Op(opcode.Block, Void), Op(opcode.Block, Void), Op(opcode.LocalGet, 0), Op(opcode.BrTable, 1, 0, 1),
			Op(opcode.End), times(3, one), Op(opcode.Return), Op(opcode.End), one), 7 + 7},
		{"a loop per iteration", 10, countdown(one), 10 * (2 + 5 + 1)},
		{"around a loop", 10, slices.Concat(times(5, one), countdown(one), times(5, one)), 20 + 80},
		{"a loop out of which one branches", 10, slices.Concat(
			Op(opcode.Block, Void), times(3, one), countdown(one, Op(opcode.LocalGet, 0), Op(opcode.BrIf, 1)),
			Op(opcode.End),
			times(5, one)), 6 + 10 + (2 + 7 + 1) + 1},
		{"locals that meet", 0, slices.Concat(
			Op(opcode.LocalGet, 0), Op(opcode.If, Void), times(30, I32Const(1), Op(opcode.LocalSet, 1)),
			Op(opcode.End)), 2 + 60 + 2},
		{"division and calls", 0, slices.Concat(
			I32Const(1), I32Const(1), Op(opcode.I32DivU), Op(opcode.Drop), Op(opcode.Call, 0)), 1 + 1 + 8 + 1 + 8 + 2},
		{"bulk by length", 0, slices.Concat(
			I32Const(0), I32Const(0), I32Const(1000), Misc(opcode.MiscMemoryFill, 0)), 3 + 10 + 500},
		{"loads and stores", 0, slices.Concat(
			I32Const(0), I32Const(0), Op(opcode.I32Load, 2, 0), Op(opcode.I32Store, 2, 0)), 2 + 16 + 8},
		{"growing where it happens", 0, maybeGrow, 5},
		{"growing", 1, maybeGrow, 205},
	}
	for _, test := range tests {
		m := &Module{}
		m.Memory(1, 1)
		m.Func(nil, nil, nil, one)
		m.Export("f", wasm.KindFunc, m.Func(Types{wasm.I32}, nil, slices.Repeat(Types{wasm.I32}, 16), test.code))
		p := prepare(t, m.Bytes())
		for _, e := range engines(t) {
			g := e.mustStart(t, p.Module)
			if o := g.call("f", plenty, 500, test.arg); o.stop != "" || o.spent != test.want {
				t.Errorf("%s, %s: %v, not %d", test.name, e.name, o, test.want)
			}
			if o := g.call("f", test.want, 500, test.arg); o.stop != "" {
				t.Errorf("%s, %s: %v with just enough", test.name, e.name, o)
			}
			if test.want == 0 {
				continue
			}
			if o := g.call("f", test.want-1, 500, test.arg); o.stop != outOfFuel || o.spent != test.want-1 {
				t.Errorf("%s, %s: %v with one too little", test.name, e.name, o)
			}
		}
	}
}

// Whatever a module tries, it stops, for the right reason, and at the same point in both engines.
func TestEndless(t *testing.T) {
	i32 := Types{wasm.I32}
	tests := []struct {
		name, stop string
		build      func(*Module) uint32
	}{
		{"loop", outOfFuel, func(m *Module) uint32 {
			return m.Func(nil, nil, nil, Op(opcode.Loop, Void), Op(opcode.Br, 0), Op(opcode.End))
		}},
		{"loop by a table", outOfFuel, func(m *Module) uint32 {
			return m.Func(nil, nil, nil, Op(opcode.Loop, Void), I32Const(3), Op(opcode.BrTable, 1, 0, 0),
				Op(opcode.End))
		}},
		{"loop with parameters", outOfFuel, func(m *Module) uint32 {
			two := m.Type(Types{wasm.I32, wasm.I64}, nil)
			return m.Func(nil, nil, nil, I32Const(1), I64Const(2), Op(opcode.Loop, two), Op(opcode.Br, 0),
				Op(opcode.End))
		}},
		{"exponential calls without a loop", outOfFuel, func(m *Module) uint32 {
			f := m.Func(nil, nil, nil)
			for range 40 {
				f = m.Func(nil, nil, nil, Op(opcode.Call, f), Op(opcode.Call, f))
			}
			return f
		}},
		{"recursion", tooDeep, func(m *Module) uint32 { return m.Func(nil, nil, nil, Op(opcode.Call, 0)) }},
		{"mutual recursion with results", tooDeep, func(m *Module) uint32 {
			three := Types{wasm.I32, wasm.I64, wasm.F64}
			m.Func(nil, three, nil, Op(opcode.Call, 1))
			return m.Func(nil, three, nil, Op(opcode.Call, 0))
		}},
		{"recursion through a table", tooDeep, func(m *Module) uint32 {
			m.Table(1)
			m.Elements(0, 0)
			return m.Func(nil, nil, nil, I32Const(0), Op(opcode.CallIndirect, m.Type(nil, nil), 0))
		}},
		{"recursion until it would overflow", tooDeep, func(m *Module) uint32 {
			locals := slices.Repeat(Types{wasm.I64}, 900)
			var keep []byte
			for i := range uint32(899) {
				keep = append(keep, slices.Concat(Op(opcode.LocalGet, i), Op(opcode.LocalSet, i+1))...)
			}
			return m.Func(nil, nil, locals, keep, Op(opcode.Call, 0), keep)
		}},
		{"filling memory", outOfFuel, func(m *Module) uint32 {
			m.Memory(256, 256)
			return m.Func(nil, nil, nil, times(100, I32Const(0), I32Const(1), I32Const(16<<20),
				Misc(opcode.MiscMemoryFill, 0)))
		}},
		{"copying tables", outOfFuel, func(m *Module) uint32 {
			m.Table(16_384)
			return m.Func(nil, nil, nil,
				times(1_000, I32Const(0), I32Const(1), I32Const(16_000), Misc(opcode.MiscTableCopy, 0, 0)))
		}},
		{"growing memory", outOfFuel, func(m *Module) uint32 {
			m.Memory(1, 0)
			return m.Func(nil, nil, nil,
				Op(opcode.Loop, Void), I32Const(1), Op(opcode.MemoryGrow, 0), Op(opcode.Drop), Op(opcode.Br, 0),
				Op(opcode.End))
		}},
		{"leaving deep calls early", outOfFuel, func(m *Module) uint32 {
			m.Func(i32, i32, nil,
				Op(opcode.LocalGet, 0), Op(opcode.I32Eqz), Op(opcode.If, Void), I32Const(7), Op(opcode.Return),
				Op(opcode.End),
				Op(opcode.LocalGet, 0), I32Const(1), Op(opcode.I32Sub), Op(opcode.Call, 0), Op(opcode.Br, 0))
			return m.Func(nil, nil, nil,
				Op(opcode.Loop, Void), I32Const(90), Op(opcode.Call, 0), Op(opcode.Drop), Op(opcode.Br, 0),
				Op(opcode.End))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &Module{}
			m.Export("f", wasm.KindFunc, test.build(m))
			p := prepare(t, m.Bytes())
			var first string
			for _, e := range engines(t) {
				const fuel = 2_000_000
				got := e.mustStart(t, p.Module).call("f", fuel, 100)
				if got.stop != test.stop || got.spent > fuel {
					t.Fatalf("%s: %v", e.name, got)
				}
				if test.stop == outOfFuel && got.spent != fuel {
					t.Fatalf("%s: %d of %d spent", e.name, got.spent, fuel)
				}
				if first == "" {
					first = got.String()
				}
				if got.String() != first {
					t.Fatalf("%s: %v, and %s before", e.name, got, first)
				}
			}
		})
	}
}

// Depth counts the open calls, however the others were left.
func TestDepth(t *testing.T) {
	m := &Module{}
	leaf := m.Func(nil, nil, nil)
	// Calls itself as often as its argument says.
	f := m.Func(Types{wasm.I32}, nil, nil,
		Op(opcode.Call, leaf), Op(opcode.LocalGet, 0), Op(opcode.I32Eqz), Op(opcode.BrIf, 0),
		Op(opcode.LocalGet, 0), I32Const(1), Op(opcode.I32Sub), Op(opcode.Call, 1))
	m.Export("f", wasm.KindFunc, f)
	p := prepare(t, m.Bytes())
	for _, e := range engines(t) {
		g := e.mustStart(t, p.Module)
		for range 2 {
			if o := g.call("f", plenty, 10, 9); o.stop != "" {
				t.Errorf("%s: 10 calls of 10: %v", e.name, o)
			}
			if o := g.call("f", plenty, 10, 10); o.stop != tooDeep {
				t.Errorf("%s: 11 calls of 10: %v", e.name, o)
			}
		}
	}
}

// A garbage collection does not wait for a guest, and a host can stop a guest at a deadline.
func TestGuestYields(t *testing.T) {
	m := &Module{}
	m.Memory(1, 1)
	m.Export("f", wasm.KindFunc, m.Func(nil, nil, nil, Op(opcode.Loop, Void), Op(opcode.Br, 0), Op(opcode.End)))
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	defer rt.Close(ctx)
	g := engine{"compiler", rt}.mustStart(t, prepare(t, m.Bytes()).Module)
	const fuel = math.MaxInt64 // enough for some hundred years
	g.set(wasm.TankExport, fuel)
	g.set(wasm.DepthExport, 1)
	ended := make(chan error)
	go func() {
		_, err := g.mod.ExportedFunction("f").Call(ctx)
		ended <- err
	}()
	for g.get(wasm.TankExport) == fuel {
		runtime.Gosched()
	}
	for range 3 {
		runtime.GC() // stops the world
	}
	for {
		g.set(wasm.TankExport, -1<<60)
		select {
		case err := <-ended:
			if err == nil || g.get(wasm.SliceExport) >= 0 {
				t.Fatalf("error %v, slice %d", err, g.get(wasm.SliceExport))
			}
			return
		default:
			runtime.Gosched()
		}
	}
}

func ExamplePrepare() {
	m := &Module{}
	m.Export("f", wasm.KindFunc, m.Func(nil, nil, nil, Op(opcode.Loop, Void), Op(opcode.Br, 0), Op(opcode.End)))
	lim := wasm.DefaultLimits()
	p, err := wasm.Prepare(m.Bytes(), lim)
	fmt.Println(p.Info.Exports[0].Name, p.Info.Exports[0].Type, err)
	lim.LoopNest = 0
	_, err = wasm.Prepare(m.Bytes(), lim)
	fmt.Println(err)
	// Output:
	// f () <nil>
	// module refused: loop_nest: 1 is over the limit of 0
}
