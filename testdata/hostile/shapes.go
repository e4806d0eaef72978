package hostile

import (
	"bytes"
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	op "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// shapes returns modules that exceed a limit, or use something forbidden.
func shapes() []Attack {
	simple := func(change func(*guest)) func() []byte {
		return func() []byte {
			g := &guest{}
			change(g)
			return g.bytes(result(0))
		}
	}
	body := func(parts ...[]byte) func() []byte {
		return func() []byte { return (&guest{}).bytes(code(parts...), result(0)) }
	}
	return []Attack{
		{Name: "start-loop", Doc: "loops without end in a start function", Check: "start",
			Build: simple(func(g *guest) { g.Start(g.Func(nil, nil, nil, forever())) })},
		{Name: "memory-4gib", Doc: "asks for 4 GiB of memory at the start", Check: "memory_pages",
			Build: simple(func(g *guest) { g.pages = 1 << 16 })},
		{Name: "table-huge", Doc: "has a table of 134 million entries, 1 GiB of host memory", Check: "table_entries",
			Build: simple(func(g *guest) { g.Table(134_000_000) })},
		{Name: "table-grow", Doc: "grows a table by 100 million entries, seconds past any deadline", Check: "table_growth",
			Build: func() []byte {
				g := &guest{}
				g.Table(1)
				return g.bytes(Op(op.RefNull, uint32(wasm.FuncRef)), I32Const(100_000_000), Misc(op.MiscTableGrow, 0))
			}},
		{Name: "data-30mib", Doc: "carries a data segment of 30 MiB", Check: "module_bytes", Large: true,
			Build: simple(func(g *guest) { g.Data(0, make([]byte, 30<<20)) })},
		{Name: "functions-150000", Doc: "has 150,000 functions", Check: "functions", Large: true,
			Build: simple(func(g *guest) {
				for range 150_000 {
					g.Func(nil, nil, nil)
				}
			})},
		{Name: "straight-line-1mb", Doc: "has one function of 1 MB without a branch", Check: "body_bytes", Large: true,
			Build: body(bytes.Repeat(increment(firstLocal-1), 1<<20/7))},
		{Name: "locals-50000", Doc: "declares 50,000 locals in each of 200 functions, in 1.4 KB", Check: "locals",
			Build: simple(func(g *guest) {
				group := append(binary.AppendUvarint([]byte{1}, 50_000), byte(wasm.I64), op.End)
				for range 200 {
					g.FuncRaw(g.Type(nil, nil), group)
				}
			})},
		{Name: "locals-4-billion", Doc: "declares twice 4 billion locals, in a few bytes", Check: "locals",
			Build: simple(func(g *guest) {
				group := append(binary.AppendUvarint(nil, 1<<32-1), byte(wasm.I64))
				g.FuncRaw(g.Type(nil, nil), code([]byte{2}, group, group, []byte{op.End}))
			})},
		{Name: "tank-export", Doc: "exports a global under the name of the host's fuel", Check: "export_names",
			Build: simple(func(g *guest) {
				g.Export(wasm.TankExport, wasm.KindGlobal, g.Global(wasm.I64, true, I64Const(1<<60)))
			})},
		{Name: "tank-write", Doc: "sets the global that rewriting adds behind its own, to fill its tank", Check: "format",
			Build: body(I64Const(1<<60), Op(op.GlobalSet, 0))},
		{Name: "refill-call", Doc: "calls the function that rewriting adds behind its own", Check: "format",
			Build: body(Op(op.Call, 3))},
		{Name: "tail-calls", Doc: "calls itself without end in constant depth", Check: "features",
			Build: body(Op(0x12, 0))},
		{Name: "simd", Doc: "uses instructions that nobody has put a price on", Check: "features",
			Build: body(Op(0xfd, 12), make([]byte, 16))},
		{Name: "threads", Doc: "waits for another thread", Check: "features",
			Build: body(I32Const(0), I32Const(0), I64Const(-1), Op(0xfe, 1, 2, 0), Op(op.Drop))},
	}
}

// compileBombs returns modules that keep an optimising compiler busy for seconds to hours.
func compileBombs() []Attack {
	bomb := func(locals int, body []byte) func() []byte {
		return func() []byte { return (&guest{locals: i32s(locals)}).bytes(body, result(0)) }
	}
	loads := func(n int) []byte { return code(Op(op.LocalGet, 0), times(n, Op(op.I32Load, 2, 0)), Op(op.Drop)) }
	return []Attack{
		{Name: "locals-loops", Doc: "250 nested loops over 1,500 locals: 8.3 KB that compile for a minute", Check: "locals",
			Build: bomb(1500, loops(250))},
		{Name: "nested-loops", Doc: "250 nested loops over a hundred locals", Check: "loop_nest",
			Build: bomb(100, loops(250))},
		{Name: "locals-loops-square", Doc: "loops and locals just below their limits, which multiply", Check: "locals_loops",
			Build: bomb(990, loops(32))},
		{Name: "locals-ifs", Doc: "2,000 locals over 4,000 ifs: 1.1 GiB and 16 s to compile", Check: "locals",
			Build: bomb(2000, ifs(4000))},
		{Name: "locals-ifs-sum", Doc: "as many locals as are allowed over many ifs", Check: "locals_blocks",
			Build: bomb(990, ifs(5000))},
		{Name: "addresses-blocks", Doc: "thousands of addresses to remember in each of thousands of blocks",
			Check: "memory_blocks", Build: bomb(1, code(loads(4000), ifs(4000)))},
		{Name: "blocks-lookups", Doc: "a way back through thousands of blocks from each of thousands of loads",
			Check: "lookups", Build: bomb(1, code(times(4000, Op(op.Block, Void), Op(op.End)), loads(4000)))},
		{Name: "globals-calls", Doc: "hundreds of globals to load again after each of thousands of calls",
			Check: "globals_by_calls", Build: func() []byte {
				g := &guest{}
				for range 300 {
					g.Global(wasm.I32, true, I32Const(0))
				}
				f := g.Func(nil, nil, nil)
				return g.bytes(times(8000, Op(op.Call, f)), result(0))
			}},
	}
}

// Heavy returns a module that is allowed and just below the limits on the cost of compiling. Each nonce gives another
// module, whose machine code is not cached.
func Heavy(nonce int32) []byte {
	const locals, branches, nested = 690, 1500, 32
	g := &guest{locals: i32s(locals)}
	return g.bytes(I32Const(nonce), Op(op.LocalSet, firstLocal), ifs(branches), loops(nested), result(0))
}

// loops nests loops that end after one iteration.
func loops(n int) []byte {
	return code(times(n, Op(op.Loop, Void)), increment(firstLocal),
		times(n, I32Const(0), Op(op.BrIf, 0), Op(op.End)))
}

func ifs(n int) []byte {
	return times(n, Op(op.LocalGet, firstLocal), Op(op.If, Void), increment(firstLocal), Op(op.End))
}
