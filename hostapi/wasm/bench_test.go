package wasm_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// BenchmarkPrepare rewrites 3 MB of ordinary functions.
func BenchmarkPrepare(b *testing.B) {
	m := &Module{}
	m.Memory(1, 1)
	body := times(12, countdown(times(10, one),
		Op(opcode.LocalGet, 0), Op(opcode.If, Void), one, Op(opcode.Return), Op(opcode.End)))
	for range 4000 {
		m.Func(Types{wasm.I32}, nil, nil, body, Op(opcode.LocalGet, 0), Op(opcode.Call, 0))
	}
	module := m.Bytes()
	b.SetBytes(int64(len(module)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wasm.Prepare(module, wasm.DefaultLimits()); err != nil {
			b.Fatal(err)
		}
	}
}
