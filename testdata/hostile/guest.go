package hostile

import (
	"encoding/binary"
	"slices"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	op "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

const (
	manifest = `{"abi":"1.0","hooks":["assemble"],"description":"hostile"}`
	newer    = `{"abi":"1.1","hooks":["assemble"],"description":"hostile"}`
)

// The positions of the arenas, for either size, and the memory that contains them. Memory below them is the guest's
// own.
const (
	requestArena = 64 << 10
	planArena    = requestArena + 512<<10
	arenaPages   = (planArena + 256<<10) >> 16
	page         = 64 << 10
)

// Parameters of mneme_assemble; its further locals follow.
const (
	paramRequest = iota
	paramRequestLength
	paramPlan
	paramPlanCap
	firstLocal
)

// guest is a policy under construction. It is valid except for what an attack changes.
type guest struct {
	Module
	manifest   string
	pages      uint32 // the minimum; no maximum is declared
	locals     Types  // of mneme_assemble, after its parameters
	initialize []byte // empty for none
	arena      []byte // empty for a valid one
	leave      string // an export to omit
	results    Types  // of mneme_assemble; nil for one i32
}

// bytes completes the module with this code for mneme_assemble.
func (g *guest) bytes(assemble ...[]byte) []byte {
	i32 := Types{wasm.I32}
	if g.manifest == "" {
		g.manifest = manifest
	}
	if g.arena == nil { // requestArena + kind * (planArena - requestArena)
		g.arena = code(Op(op.LocalGet, 0), I32Const(planArena-requestArena), Op(op.I32Mul),
			I32Const(requestArena), Op(op.I32Add))
	}
	if g.results == nil {
		g.results = i32
	}
	g.Custom(wasm.ManifestSection, []byte(g.manifest))
	g.Memory(max(g.pages, arenaPages), 0)
	g.export("memory", wasm.KindMemory, 0)
	g.export("mneme_abi", wasm.KindFunc, g.Func(nil, i32, nil, I32Const(1<<16)))
	g.export("mneme_arena", wasm.KindFunc, g.Func(Types{wasm.I32, wasm.I32}, i32, nil, g.arena))
	g.export("mneme_assemble", wasm.KindFunc,
		g.Func(Types{wasm.I32, wasm.I32, wasm.I32, wasm.I32}, g.results, g.locals, assemble...))
	if g.initialize != nil {
		g.export("_initialize", wasm.KindFunc, g.Func(nil, nil, nil, g.initialize))
	}
	return g.Bytes()
}

func (g *guest) export(name string, kind wasm.Kind, index uint32) {
	if name != g.leave {
		g.Export(name, kind, index)
	}
}

// mneme imports a host function as described in docs/ABI.md.
func (g *guest) mneme(name string) uint32 {
	params := map[string]int{"text": 4, "tokens": 2, "find": 3, "args": 5, "name": 4, "score": 3, "log": 3, "fail": 2}[name]
	results := Types{wasm.I32}
	if name == "log" || name == "fail" {
		results = nil
	}
	return g.Import("mneme", name, i32s(params), results)
}

// wasi imports a function of WASI whose parameters are all i32.
func (g *guest) wasi(name string, params int, results Types) uint32 {
	return g.Import("wasi_snapshot_preview1", name, i32s(params), results)
}

func i32s(n int) Types { return slices.Repeat(Types{wasm.I32}, n) }

func code(parts ...[]byte) []byte { return slices.Concat(parts...) }

func times(n int, parts ...[]byte) []byte { return slices.Repeat(code(parts...), n) }

// call pushes constants and calls.
func call(function uint32, args ...int32) []byte {
	var out []byte
	for _, a := range args {
		out = append(out, I32Const(a)...)
	}
	return append(out, Op(op.Call, function)...)
}

// forever repeats code that does not change the stack.
func forever(parts ...[]byte) []byte {
	return code(Op(op.Loop, Void), code(parts...), Op(op.Br, 0), Op(op.End))
}

// increment adds 1 to an i32 local.
func increment(local uint32) []byte {
	return code(Op(op.LocalGet, local), I32Const(1), Op(op.I32Add), Op(op.LocalSet, local))
}

// result returns the code that ends mneme_assemble.
func result(n int32) []byte { return I32Const(n) }

// The ops of a plan, by code.
const (
	opDrop     = 1
	opTruncate = 3
	opStub     = 4
	opReplace  = 5
	opInsert   = 6
	opKeep     = 8
	opStrip    = 9

	replaceArguments = 2 // a template of opReplace
)

const (
	planHeader = 16
	planOp     = 32
)

// item is one op of a plan.
type item struct {
	op, template byte
	first, last  uint32
	text, reason string
	argument     uint32
}

// planOf encodes a plan: header, ops, then their texts.
func planOf(items ...item) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte("MNP1"), uint32(len(items)))
	b = le.AppendUint32(le.AppendUint32(b, planHeader), planOp)
	var texts []byte
	at := func(s string) (offset, length uint32) {
		offset = uint32(planHeader + planOp*len(items) + len(texts))
		texts = append(texts, s...)
		return offset, uint32(len(s))
	}
	for _, i := range items {
		textAt, textLength := at(i.text)
		reasonAt, reasonLength := at(i.reason)
		b = append(b, i.op, i.template, 0, 0)
		for _, v := range []uint32{i.first, i.last, textAt, textLength, reasonAt, reasonLength, i.argument} {
			b = le.AppendUint32(b, v)
		}
	}
	return append(b, texts...)
}

// answering returns a policy that always returns these bytes.
func answering(b []byte) []byte { return (&guest{}).answering(b) }

func (g *guest) answering(b []byte) []byte {
	g.Data(planArena, b)
	return g.bytes(result(int32(len(b))))
}
