package wasmtest

import (
	"encoding/binary"
	"slices"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
)

// Policy returns a complete policy module of mneme/1 whose mneme_assemble consists of the given code, with the
// parameters req, req_len, plan and plan_cap as locals 0 to 3. The manifest is the JSON text.
func Policy(manifest string, assemble ...[]byte) []byte {
	i32 := func(n int) Types { return slices.Repeat(Types{wasm.I32}, n) }
	const request, plan, pages = 1 << 16, 1<<16 + 1<<19, 16
	var m Module
	m.Memory(pages, pages)
	m.Export("memory", wasm.KindMemory, 0)
	m.Export("mneme_abi", wasm.KindFunc, m.Func(nil, i32(1), nil, I32Const(1<<16)))
	m.Export("mneme_arena", wasm.KindFunc, m.Func(i32(2), i32(1), nil,
		I32Const(plan), I32Const(request), Op(opcode.LocalGet, 0), []byte{opcode.Select}))
	m.Export("mneme_assemble", wasm.KindFunc, m.Func(i32(4), i32(1), nil, assemble...))
	m.Custom("mneme.policy", []byte(manifest))
	return m.Bytes()
}

// Manifest returns a manifest without config or tests. Different versions make different modules that do the same.
func Manifest(version string) string {
	return `{"abi":"1.0","hooks":["assemble"],"version":"` + version + `"}`
}

// Keep ends mneme_assemble with a plan that changes nothing.
func Keep() []byte { return I32Const(0) }

// Trap ends mneme_assemble with a trap.
func Trap() []byte { return []byte{opcode.Unreachable} }

// When runs code if the table has exactly that many records, and continues after it otherwise. The code must end the
// function.
func When(records int32, code []byte) []byte {
	const recordCount = 16
	return slices.Concat(Op(opcode.LocalGet, 0), Op(opcode.I32Load, 2, recordCount), I32Const(records),
		Op(opcode.I32Sub), Op(opcode.I32Eqz), Op(opcode.If, Void), code, Op(opcode.End))
}

// DropFirst ends mneme_assemble with a plan that drops the first record.
func DropFirst() []byte { return Answer(1, 0, 0, 0, "") }

// Answer ends mneme_assemble with a plan of one op on one record.
func Answer(op, template byte, record, argument uint32, text string) []byte {
	le := binary.LittleEndian
	plan := []byte("MNP1")
	for _, word := range []uint32{1, 16, 32, uint32(op) | uint32(template)<<8, record, record, 48, uint32(len(text)), 0, 0,
		argument} {
		plan = le.AppendUint32(plan, word)
	}
	plan = append(plan, text...)
	plan = append(plan, make([]byte, -len(plan)&7)...)
	var code []byte
	for at := 0; at < len(plan); at += 8 {
		code = slices.Concat(code, Op(opcode.LocalGet, 2), I64Const(int64(le.Uint64(plan[at:]))),
			Op(opcode.I64Store, 3, uint32(at)))
	}
	return append(code, I32Const(int32(len(plan)))...)
}
