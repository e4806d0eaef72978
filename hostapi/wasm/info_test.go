package wasm_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

func TestInfo(t *testing.T) {
	m := &Module{}
	m.Import("mneme", "find", Types{wasm.I32, wasm.I32, wasm.I32}, Types{wasm.I32})
	m.Memory(2, 3)
	m.Global(wasm.I32, false, I32Const(1))
	m.Global(wasm.F32, true, []byte{opcode.F32Const, 0, 0, 0, 0})
	f := m.Func(Types{wasm.F64}, Types{wasm.I32, wasm.I64}, nil, I32Const(1), I64Const(2))
	m.Export("memory", wasm.KindMemory, 0)
	m.Export("pair", wasm.KindFunc, f)
	m.Custom("producers", []byte("somebody"))
	m.Custom(wasm.ManifestSection, []byte(`{"abi":"1.0"}`))
	module := m.Bytes()
	p := prepare(t, module)

	info := p.Info
	if got, want := fmt.Sprint(info.Imports), "[{mneme find (i32, i32, i32) -> i32}]"; got != want {
		t.Errorf("imports %s, not %s", got, want)
	}
	if got, want := fmt.Sprint(info.Exports), "[{memory 2 0 ()} {pair 0 1 (f64) -> (i32, i64)}]"; got != want {
		t.Errorf("exports %s, not %s", got, want)
	}
	if got, want := fmt.Sprint(info.Globals), "[{mneme:1 f32}]"; got != want {
		t.Errorf("globals %s, not %s", got, want)
	}
	if string(info.Manifest) != `{"abi":"1.0"}` || info.Functions != 1 || info.MemoryMin != 2 || info.MemoryMax != 3 {
		t.Errorf("%+v", info)
	}
	if info.Traits.FreshInstance() {
		t.Errorf("%+v", info.Traits)
	}
	for _, c := range p.Checks {
		if !c.OK || c.Name == "" || c.Detail == "" {
			t.Errorf("check %+v", c)
		}
	}

	clear(module)
	if string(info.Manifest) != `{"abi":"1.0"}` || info.Exports[1].Name != "pair" {
		t.Error("what Prepare returns shares the bytes that it was given")
	}
	if again, err := wasm.Prepare(m.Bytes(), wasm.DefaultLimits()); err != nil ||
		!slices.Equal(again.Module, p.Module) {
		t.Errorf("the same module is rewritten in two ways (error %v)", err)
	}
}

func TestMemoryMaximum(t *testing.T) {
	for _, test := range []struct{ low, high, want uint32 }{
		{1, 0, 256}, {1, 1, 1}, {256, 256, 256}, {1, 256, 256}, {1, 257, 256}, {0, 65_536, 256},
	} {
		m := &Module{}
		m.Memory(test.low, test.high)
		m.Export("memory", wasm.KindMemory, 0)
		p := prepare(t, m.Bytes())
		if p.Info.MemoryMin != test.low || p.Info.MemoryMax != test.want {
			t.Errorf("%+v: %d to %d", test, p.Info.MemoryMin, p.Info.MemoryMax)
		}
		g := engines(t)[0].mustStart(t, p.Module)
		if _, ok := g.mod.Memory().Grow(test.want - test.low); !ok {
			t.Errorf("%+v: cannot grow to the maximum", test)
		}
		if _, ok := g.mod.Memory().Grow(1); ok {
			t.Errorf("%+v: grows beyond the maximum", test)
		}
	}
}

// What cannot be restored from outside is reported.
func TestTraits(t *testing.T) {
	three := times(3, I32Const(0))
	tests := []struct {
		name string
		code []byte
		want wasm.Traits
	}{
		{"memory.init", slices.Concat(three, Misc(opcode.MiscMemoryInit, 0, 0)), wasm.Traits{}},
		{"data.drop", Misc(opcode.MiscDataDrop, 0), wasm.Traits{DropsSegments: true}},
		{"elem.drop", Misc(opcode.MiscElemDrop, 0), wasm.Traits{DropsSegments: true}},
		{"table.init", slices.Concat(three, Misc(opcode.MiscTableInit, 0, 0)), wasm.Traits{ChangesTables: true}},
		{"table.copy", slices.Concat(three, Misc(opcode.MiscTableCopy, 0, 0)), wasm.Traits{ChangesTables: true}},
		{"table.set", slices.Concat(I32Const(0), Op(opcode.RefNull, 0x70), Op(opcode.TableSet, 0)),
			wasm.Traits{ChangesTables: true}},
		{"table.fill", slices.Concat(I32Const(0), Op(opcode.RefNull, 0x70), I32Const(0), Misc(opcode.MiscTableFill, 0)),
			wasm.Traits{ChangesTables: true}},
		{"table.get", slices.Concat(I32Const(0), Op(opcode.TableGet, 0), Op(opcode.Drop)), wasm.Traits{}},
	}
	for _, test := range tests {
		m := &Module{}
		m.Memory(1, 1)
		m.Table(1)
		m.PassiveData([]byte("x"))
		m.PassiveElements(0)
		m.Func(nil, nil, nil, test.code)
		p := prepare(t, m.Bytes())
		if p.Info.Traits != test.want {
			t.Errorf("%s: %+v", test.name, p.Info.Traits)
		}
		for _, e := range engines(t) {
			e.mustStart(t, p.Module)
		}
	}

	m := &Module{}
	m.Global(wasm.FuncRef, true, Op(opcode.RefNull, 0x70))
	if traits := prepare(t, m.Bytes()).Info.Traits; traits != (wasm.Traits{KeepsRefs: true}) {
		t.Errorf("mutable reference: %+v", traits)
	}
}

// A host can restore the globals of a guest, whether the guest exports them or not.
func TestGlobalsCanBeRestored(t *testing.T) {
	m := &Module{}
	m.Memory(1, 1)
	counter := m.Global(wasm.I64, true, I64Const(5))
	m.Export("next", wasm.KindFunc, m.Func(nil, Types{wasm.I64}, nil,
		Op(opcode.GlobalGet, counter), I64Const(1), Op(opcode.I64Add), Op(opcode.GlobalSet, counter),
		Op(opcode.GlobalGet, counter)))
	p := prepare(t, m.Bytes())
	for _, e := range engines(t) {
		g := e.mustStart(t, p.Module)
		for range 3 {
			if o := g.call("next", plenty, 1); o.stop != "" || o.results[0] != 6 {
				t.Fatalf("%s: %v", e.name, o)
			}
			g.set(p.Info.Globals[0].Export, 5)
		}
	}
}
