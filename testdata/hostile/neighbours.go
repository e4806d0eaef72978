package hostile

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	op "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// Neighbour is a module that is admitted and then takes as much as it can, call after call. What counts is its effect
// on another tenant. None is committed.
type Neighbour struct {
	Name, Doc string
	Build     func() []byte
}

// The transcript that their plans assume: BigRecords long texts of users, then turns of three records each, a question,
// a call and its result.
const (
	BigRecords  = 2
	TurnsBehind = 130
	allRecords  = BigRecords + 3*TurnsBehind
)

// The locals of mneme_assemble in these modules.
const (
	x32 = firstLocal + iota
	y32
	x64
	xf
)

func get(i uint32) []byte { return Op(op.LocalGet, i) }
func set(i uint32) []byte { return Op(op.LocalSet, i) }

// f64 returns the code that pushes a constant.
func f64(v float64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{op.F64Const}, math.Float64bits(v))
}

// assembling returns a guest whose mneme_assemble has the locals above.
func assembling() *guest { return &guest{locals: Types{wasm.I32, wasm.I32, wasm.I64, wasm.F64}} }

// Neighbours returns all of them.
func Neighbours() []Neighbour {
	var list []Neighbour
	add := func(name, doc string, build func(*guest) []byte) {
		list = append(list, Neighbour{name, doc, func() []byte {
			g := assembling()
			return g.bytes(build(g))
		}})
	}
	spins := func(name, doc string, body ...[]byte) { // repeats its body until it is stopped
		add(name, doc, func(g *guest) []byte {
			g.pages = 256
			return code(I32Const(1), set(x32), I64Const(3), set(x64), f64(1.5), set(xf), forever(times(64, body...)),
				result(0))
		})
	}
	// scattered is an address in 16 MiB that no cache predicts, and apart is one on the next page.
	scattered := code(get(x32), I32Const(1103515245), Op(op.I32Mul), I32Const(12345), Op(op.I32Add),
		Op(op.LocalTee, x32), I32Const(16<<20-64), Op(op.I32And))
	apart := code(get(x32), I32Const(4096+64), Op(op.I32Add), I32Const(16<<20-64), Op(op.I32And), Op(op.LocalTee, x32))
	wide := func(o byte, v int64) []byte { return code(get(x64), I64Const(v), Op(o), set(x64)) }

	spins("spin-add", "adds", get(x32), I32Const(7), Op(op.I32Add), set(x32))
	spins("spin-multiply", "multiplies", wide(op.I64Add, 7), wide(0x7e, 13))
	spins("spin-rotate", "rotates", wide(op.I64Rotl, 5), wide(op.I64Rotr, 9))
	spins("spin-count", "counts zeros", get(x64), Op(op.I64Clz), I64Const(1<<40), Op(op.I64Or), set(x64))
	spins("spin-remainder", "takes remainders", I64Const(math.MaxInt64), wide(op.I64Or, 3), get(x64), Op(op.I64RemU),
		set(x64))
	spins("spin-divide", "divides", wide(op.I64Or, 1<<62), wide(op.I64DivS, 3))
	spins("spin-float-divide", "divides floats", f64(1e300), get(xf), Op(op.F64Div), set(xf))
	spins("spin-root", "takes roots", get(xf), Op(op.F64Sqrt), set(xf))
	spins("spin-denormal", "multiplies the smallest floats there are", f64(5e-324), get(xf), Op(op.F64Mul), set(xf),
		f64(1.5), set(xf))
	spins("spin-convert", "converts between floats and integers", get(x64), Op(0xb9), Op(op.F64Reinter-2),
		set(x64))
	spins("load-near", "loads one line", I32Const(64), Op(op.I32Load, 2, 0), set(y32))
	spins("load-pages", "loads from one page after another", apart, Op(op.I32Load, 2, 0), set(y32))
	spins("load-scattered", "loads from all over 16 MiB", scattered, Op(op.I32Load, 2, 0), set(y32))
	spins("load-across", "loads across lines", scattered, Op(op.I64Load, 0, 61), set(x64))
	spins("load-bytes", "loads bytes", scattered, Op(op.I32Load8U, 0, 0), set(y32))
	spins("store-near", "stores to one line", I32Const(64), get(x32), Op(op.I32Store, 2, 0))
	spins("store-pages", "stores to one page after another", apart, get(x32), Op(op.I32Store, 2, 0))
	spins("store-scattered", "stores all over 16 MiB", scattered, get(x32), Op(op.I32Store, 2, 0))
	spins("store-across", "stores across lines", scattered, get(x64), Op(op.I64Store, 0, 61))
	spins("fill-byte", "fills one byte", I32Const(0), I32Const(1), I32Const(1), Misc(op.MiscMemoryFill, 0))
	spins("fill-64k", "fills 64 KiB", I32Const(0), I32Const(1), I32Const(64<<10), Misc(op.MiscMemoryFill, 0))
	spins("fill-16m", "fills all memory", I32Const(0), I32Const(1), I32Const(16<<20), Misc(op.MiscMemoryFill, 0))
	spins("copy-1m", "copies a megabyte", I32Const(1<<20), I32Const(0), I32Const(1<<20), Misc(op.MiscMemoryCopy, 0, 0))
	spins("copy-onto-itself", "copies memory one byte further", I32Const(1), I32Const(0), I32Const(16<<20-2),
		Misc(op.MiscMemoryCopy, 0, 0))
	spins("grow-refused", "asks for memory that there is not", I32Const(1), Op(op.MemoryGrow, 0), Op(op.Drop))
	spins("yields", "asks for the growth that means a pause", I32Const(wasm.YieldPages), Op(op.MemoryGrow, 0),
		Op(op.Drop))
	spins("branches", "takes branches that nothing foresees", scattered, I32Const(1<<16), Op(op.I32And),
		Op(op.If, Void), get(y32), I32Const(1), Op(op.I32Add), set(y32), Op(op.End))
	spins("selects", "selects", get(x32), get(y32), scattered, []byte{op.Select}, set(y32))
	spins("branch-tables", "jumps through a table", Op(op.Block, Void), Op(op.Block, Void), Op(op.Block, Void), scattered,
		I32Const(3), Op(op.I32And), Op(op.BrTable, 3, 0, 1, 2, 0), Op(op.End), Op(op.End), Op(op.End))
	return append(list, append(shapedNeighbours(), append(callingNeighbours(), planningNeighbours()...)...)...)
}

// shapedNeighbours returns modules that make calls, memories, tables and instances expensive.
func shapedNeighbours() []Neighbour {
	var list []Neighbour
	add := func(name, doc string, build func(*guest) []byte) {
		list = append(list, Neighbour{name, doc, func() []byte {
			g := assembling()
			return g.bytes(build(g))
		}})
	}
	grow := func(pages int32) []byte { return code(I32Const(pages), Op(op.MemoryGrow, 0), Op(op.Drop)) }
	touch := code(I32Const(0), I32Const(1), I32Const(15<<20), Misc(op.MiscMemoryFill, 0))
	// fresh makes the module need a new instance for each call.
	fresh := func(g *guest) []byte {
		g.Table(16_384)
		return code(I32Const(1), Op(op.RefNull, 0x70), Op(op.TableSet, 0))
	}
	leafOf := func(g *guest) uint32 { return g.Func(nil, nil, nil) }

	add("load-chain", "follows pointers through 16 MiB, each to a line that no cache holds", func(g *guest) []byte {
		g.pages = 256
		step := code(get(0), I32Const(1664525), Op(op.I32Mul), I32Const(1013904223), Op(op.I32Add), I32Const(1<<17-1),
			Op(op.I32And))
		at := func(i []byte) []byte { return code(i, I32Const(64), Op(op.I32Mul), I32Const(4<<20), Op(op.I32Add)) }
		lay := g.Func(nil, nil, i32s(1), Op(op.Loop, Void), at(get(0)), at(step), Op(op.I32Store, 2, 0), step,
			Op(op.LocalTee, 0), Op(op.BrIf, 0), Op(op.End))
		g.initialize = Op(op.Call, lay)
		return code(I32Const(4<<20), set(x32), forever(get(x32), times(500, Op(op.I32Load, 2, 0)), set(x32)), result(0))
	})
	add("grow-by-pages", "grows page by page to the limit", func(*guest) []byte {
		return code(times(200, grow(1)), result(0))
	})
	add("grow-at-once", "grows to the limit at once", func(*guest) []byte { return code(grow(236), result(0)) })
	add("grow-and-touch", "grows and writes all of it", func(*guest) []byte {
		return code(grow(240), touch, result(0))
	})
	add("grow-and-trap", "grows, then traps", func(*guest) []byte { return code(grow(100), Op(op.Unreachable)) })
	add("memory-untouched", "has 16 MiB and touches none", func(g *guest) []byte { g.pages = 256; return result(0) })
	add("memory-fresh", "has 16 MiB and needs an instance for each call", func(g *guest) []byte {
		g.pages = 256
		return code(fresh(g), result(0))
	})
	add("memory-fresh-touched", "the same, and writes all of it", func(g *guest) []byte {
		g.pages = 256
		return code(fresh(g), touch, result(0))
	})
	add("fresh", "needs an instance for each call, and does nothing else", func(g *guest) []byte {
		return code(fresh(g), result(0))
	})
	add("fresh-elements", "needs an instance with 16,000 table entries for each call", func(g *guest) []byte {
		body, leaf := fresh(g), leafOf(g)
		all := make([]uint32, 16_000)
		for i := range all {
			all[i] = leaf
		}
		g.Elements(0, all...)
		return code(body, result(0))
	})
	add("fresh-segments", "needs an instance with 900 element segments for each call", func(g *guest) []byte {
		body, leaf := fresh(g), leafOf(g)
		for i := range int32(900) {
			g.Elements(i, leaf)
		}
		return code(body, result(0))
	})
	add("fresh-data", "needs an instance with 20,000 data segments for each call", func(g *guest) []byte {
		for i := range int32(20_000) {
			g.Data(i, []byte{1})
		}
		return code(fresh(g), result(0))
	})
	add("fresh-start", "needs an instance for each call, whose start burns", func(g *guest) []byte {
		g.initialize = code(Op(op.Call, g.Func(nil, nil, i32s(1), Op(op.Loop, Void), times(200, Op(op.LocalGet, 0),
			I32Const(1), Op(op.I32Add), Op(op.LocalSet, 0)), Op(op.LocalGet, 0), I32Const(20_000_000), Op(op.I32LtU),
			Op(op.BrIf, 0), Op(op.End))))
		return code(fresh(g), result(0))
	})
	add("fresh-trap", "needs an instance for each call, and traps", func(g *guest) []byte {
		return code(fresh(g), Op(op.Unreachable))
	})
	add("globals", "has 900 globals that are put back after each call", func(g *guest) []byte {
		var touch []byte
		for i := range uint32(900) {
			g.Global(wasm.I64, true, I64Const(1))
			touch = append(touch, code(I64Const(2), Op(op.GlobalSet, i))...)
		}
		return code(touch, result(0))
	})
	add("calls", "calls a function that does nothing", func(g *guest) []byte {
		return code(forever(times(200, Op(op.Call, leafOf(g)))), result(0))
	})
	add("calls-indirect", "calls through a table", func(g *guest) []byte {
		g.Table(4)
		leaf := leafOf(g)
		g.Elements(0, leaf, leaf, leaf, leaf)
		return code(forever(times(200, I32Const(3), Op(op.CallIndirect, g.Type(nil, nil), 0))), result(0))
	})
	add("deep-and-back", "goes 490 calls deep, again and again", func(g *guest) []byte {
		down := g.Func(Types{wasm.I32}, nil, nil, get(0), Op(op.If, Void), get(0), I32Const(1), Op(op.I32Sub),
			Op(op.Call, 0), Op(op.End))
		return code(forever(I32Const(480), Op(op.Call, down)), result(0))
	})
	add("too-deep", "calls itself without end", func(g *guest) []byte {
		return code(Op(op.Call, g.Func(nil, nil, nil, Op(op.Call, 0))), result(0))
	})
	add("at-once", "answers at once", func(*guest) []byte { return result(0) })
	add("trap-at-once", "traps at once", func(*guest) []byte { return Op(op.Unreachable) })
	add("negative", "answers an error at once", func(*guest) []byte { return result(-1) })
	return list
}

// callingNeighbours returns modules that keep calling a host function.
func callingNeighbours() []Neighbour {
	var list []Neighbour
	add := func(name, doc, function string, fill string, drop bool, args ...int32) {
		list = append(list, Neighbour{name, doc, func() []byte {
			g := assembling()
			g.pages = 256
			f := g.mneme(function)
			const at = 2 << 20
			if fill != "" {
				g.Data(at, []byte(strings.Repeat(fill, 1<<20/len(fill))))
			}
			body := call(f, args...)
			if drop {
				body = append(body, op.Drop)
			}
			return g.bytes(forever(body), result(0))
		}})
	}
	const at = 2 << 20
	add("text-bytes", "reads a long text byte by byte", "text", "", true, 0, 100, 0, 1)
	add("text-whole", "reads a long text whole", "text", "", true, 0, 0, at, 1<<20)
	add("text-none", "asks for records that are not there", "text", "", true, 1<<30, 0, 0, 0)
	add("tokens-blanks", "counts a megabyte of blanks", "tokens", " ", true, at, 1<<20)
	add("tokens-base64", "counts a megabyte without a blank", "tokens", "aGVsbG8gd29y", true, at, 1<<20)
	add("tokens-letters", "counts a megabyte of one letter", "tokens", "x", true, at, 1<<20)
	add("tokens-emoji", "counts a megabyte of emoji", "tokens", "🙂👩🏽‍🚀", true, at, 1<<20)
	add("tokens-lines", "counts a megabyte of empty lines", "tokens", " \n\t\r\n", true, at, 1<<20)
	add("tokens-pieces", "counts 60 KB of blanks again and again", "tokens", " ", true, at, 60<<10)
	add("tokens-nothing", "counts nothing again and again", "tokens", "", true, 0, 0)
	add("find-late", "searches for what is almost there", "find", "ddddddddddddddddddddddde", true, 0, at, 24)
	add("find-nothing", "searches for nothing", "find", "", true, 0, 0, 0)
	add("log-empty", "logs empty lines", "log", "", false, 1, 0, 0)
	add("fail-often", "says why it fails, again and again", "fail", "words ", false, at, 1)
	list = append(list, Neighbour{"text-turns", "reads two long texts by turns", func() []byte {
		g := assembling()
		f := g.mneme("text")
		return g.bytes(forever(call(f, 0, 0, 0, 1), Op(op.Drop), call(f, 1, 0, 0, 1), Op(op.Drop)), result(0))
	}})
	return list
}
