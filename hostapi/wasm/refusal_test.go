package wasm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// function returns a module with a memory, a table and one function of this code.
func function(code ...[]byte) []byte { return functionWith(nil, code...) }

func functionWith(also func(*Module), code ...[]byte) []byte {
	m := &Module{}
	if also != nil {
		also(m)
	}
	m.Memory(1, 1)
	m.Table(2)
	m.Func(nil, nil, Types{wasm.I32}, code...)
	return m.Bytes()
}

// module returns a module of the given sections.
func module(sections ...[]byte) []byte { return append(Header(), slices.Concat(sections...)...) }

func with(change func(*Module)) []byte {
	m := &Module{}
	change(m)
	return m.Bytes()
}

func TestRefusals(t *testing.T) {
	voidType := Section(1, []byte{1, 0x60, 0, 0})
	tests := []struct {
		name, check string
		module      []byte
	}{
		{"empty", "format", nil},
		{"text", "format", []byte("(module)")},
		{"version 2", "format", []byte("\x00asm\x02\x00\x00\x00")},
		{"component", "format", []byte("\x00asm\x0d\x00\x01\x00")},
		{"section past the end", "format", append(Header(), 1, 4, 0)},
		{"section too long", "format", module(Section(1, []byte{0, 0}))},
		{"section too short", "format", module(Section(1, []byte{1, 0x60, 0}))},
		{"empty section", "format", module(Section(1, nil))},
		{"sections out of order", "format", module(Section(3, []byte{0}), Section(1, []byte{0}))},
		{"section twice", "format", module(Section(1, []byte{0}), Section(1, []byte{0}))},
		{"data count behind code", "format", module(Section(10, []byte{0}), Section(12, []byte{0}))},
		{"unknown section", "features", module(Section(14, nil))},
		{"tag section", "features", module(Section(13, []byte{0}))},
		{"number of six bytes", "format", append(Header(), 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0)},
		{"number over 32 bits", "format", append(Header(), 1, 0x80, 0x80, 0x80, 0x80, 0x10)},
		{"count beyond the section", "format", module(Section(1, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}))},
		{"custom section without a name", "format", module(Section(0, []byte{5, 'a'}))},
		{"custom name is not UTF-8", "format", module(Section(0, []byte{1, 0xff}))},
		{"two manifests", "format", with(func(m *Module) {
			m.Custom(wasm.ManifestSection, nil)
			m.Custom(wasm.ManifestSection, nil)
		})},
		{"struct type", "features", module(Section(1, []byte{1, 0x5f, 0}))},
		{"unknown value type", "format", module(Section(1, []byte{1, 0x60, 1, 0x11, 0}))},
		{"SIMD type", "features", module(Section(1, []byte{1, 0x60, 1, 0x7b, 0}))},
		{"start function", "start", with(func(m *Module) { m.Start(m.Func(nil, nil, nil)) })},

		{"imported memory", "import_kinds", with(func(m *Module) { m.ImportRaw("env", "memory", 2, 0, 1) })},
		{"imported table", "import_kinds", with(func(m *Module) { m.ImportRaw("env", "table", 1, 0x70, 0, 1) })},
		{"imported global", "import_kinds", with(func(m *Module) { m.ImportRaw("env", "g", 3, 0x7f, 0) })},
		{"import of unknown type", "format", with(func(m *Module) { m.ImportRaw("env", "f", 0, 7) })},
		{"import name is not UTF-8", "format", with(func(m *Module) { m.Import("env", "\xff", nil, nil) })},
		{"function of unknown type", "format", module(voidType, Section(3, []byte{1, 1}))},
		{"function without a body", "format", module(voidType, Section(3, []byte{1, 0}))},
		{"body without a function", "format", module(voidType, Section(10, []byte{1, 2, 0, opcode.End}))},

		{"two memories", "features", with(func(m *Module) { m.Memory(1, 1); m.Memory(1, 1) })},
		{"shared memory", "features", module(Section(5, []byte{1, 3, 1, 1}))},
		{"64-bit memory", "features", module(Section(5, []byte{1, 4, 1}))},
		{"memory of 4 GiB", "memory_pages", with(func(m *Module) { m.Memory(65_536, 0) })},
		{"memory over 4 GiB", "format", module(Section(5, []byte{1, 1, 1, 0x81, 0x80, 4}))},
		{"memory above its maximum", "format", module(Section(5, []byte{1, 1, 2, 1}))},
		{"huge table", "table_entries", with(func(m *Module) { m.Table(134_000_000) })},
		{"two tables, huge together", "table_entries", with(func(m *Module) { m.Table(10_000); m.Table(10_000) })},
		{"table of numbers", "features", module(Section(4, []byte{1, 0x7f, 0, 1}))},

		{"global from a global", "features", with(func(m *Module) {
			m.Global(wasm.I32, false,
				Op(opcode.GlobalGet, 0))
		})},
		{"global by addition", "features", with(func(m *Module) {
			m.Global(wasm.I32, false, slices.Concat(I32Const(1), I32Const(2), Op(opcode.I32Add)))
		})},
		{"mutability 2", "format", module(Section(6, []byte{1, 0x7f, 2, opcode.I32Const, 0, opcode.End}))},

		{"export of nothing", "format", with(func(m *Module) { m.Export("f", wasm.KindFunc, 0) })},
		{"export of no memory", "format", with(func(m *Module) { m.Export("m", wasm.KindMemory, 0) })},
		{"export of no table", "format", with(func(m *Module) { m.Export("t", wasm.KindTable, 0) })},
		{"export of no global", "format", with(func(m *Module) { m.Export("g", wasm.KindGlobal, 0) })},
		{"export of a tag", "format", with(func(m *Module) { m.Export("e", 4, 0) })},
		{"export twice", "export_names", with(func(m *Module) {
			m.Memory(1, 1)
			m.Export("m", wasm.KindMemory, 0)
			m.Export("m", wasm.KindMemory, 0)
		})},
		{"reserved export", "export_names", with(func(m *Module) {
			m.Export(wasm.TankExport, wasm.KindGlobal, m.Global(wasm.I64, true, I64Const(0)))
		})},
		{"export name is not UTF-8", "format", with(func(m *Module) {
			m.Memory(1, 1)
			m.Export("\xc0", wasm.KindMemory,
				0)
		})},

		{"elements of unknown form", "format", with(func(m *Module) { m.ElementsRaw(8) })},
		{"elements without a table", "format", with(func(m *Module) { m.Elements(0) })},
		{"elements of no function", "format", with(func(m *Module) { m.Table(1); m.Elements(0, 5) })},
		{"too many elements", "element_entries", with(func(m *Module) {
			m.PassiveElements(make([]uint32, 16_385)...)
			m.Func(nil, nil, nil)
		})},
		{"data without a memory", "format", with(func(m *Module) { m.Data(0, []byte("x")) })},
		{"data past the end", "format", module(Section(5, []byte{1, 0, 1}), Section(11, []byte{1, 1, 9, 'x'}))},
		{"data in memory 1", "features", module(Section(5, []byte{1, 0, 1}),
			Section(11, []byte{1, 2, 1, opcode.I32Const, 0, opcode.End, 0}))},
		{"announced data missing", "format", module(Section(12, []byte{1}))},
		{"more data than announced", "format", module(Section(12, []byte{0}), Section(11, []byte{1, 1, 0}))},

		{"function without an end", "format", with(func(m *Module) {
			m.FuncRaw(m.Type(nil, nil),
				[]byte{0, opcode.Nop})
		})},
		{"code behind the end", "format", with(func(m *Module) {
			m.FuncRaw(m.Type(nil, nil), []byte{0, opcode.End, opcode.Nop})
		})},
		{"50,000 locals", "locals", with(func(m *Module) {
			m.FuncRaw(m.Type(nil, nil), append(binary.AppendUvarint([]byte{1}, 50_000), byte(wasm.I32), opcode.End))
		})},
		{"4 billion locals, twice", "locals", with(func(m *Module) {
			group := append(binary.AppendUvarint(nil, 1<<32-1), byte(wasm.I32))
			m.FuncRaw(m.Type(nil, nil), slices.Concat([]byte{2}, group, group, []byte{opcode.End}))
		})},
		{"150,000 functions", "functions", with(func(m *Module) {
			for range 150_000 {
				m.Func(nil, nil, nil)
			}
		})},
		{"straight line of 1 MB", "body_bytes", function(bytes.Repeat([]byte{opcode.Nop}, 1<<20))},
		{"nested loops", "loop_nest", function(
			bytes.Repeat(Op(opcode.Loop, Void), 33), bytes.Repeat([]byte{opcode.End}, 33))},
		{"nested blocks", "block_nest", function(
			bytes.Repeat(Op(opcode.Block, Void), 10_001), bytes.Repeat([]byte{opcode.End}, 10_001))},
		{"deep stack", "operands", function(bytes.Repeat(I32Const(0), 1_001),
			bytes.Repeat([]byte{opcode.Drop}, 1_001))},
		{"30 MiB of data", "module_bytes", with(func(m *Module) { m.Memory(1, 1); m.Data(0, make([]byte, 30<<20)) })},

		{"unknown opcode", "features", function(Op(0x06))},
		{"throw", "features", function(Op(0x08, 0))},
		{"tail call", "features", function(Op(0x12, 0))},
		{"call_ref", "features", function(Op(0x14, 0))},
		{"SIMD", "features", function(Op(0xfd, 12))},
		{"atomics", "features", function(Op(0xfe, 3, 0))},
		{"unknown misc opcode", "features", function(Misc(18))},
		{"padded misc opcode", "features", function([]byte{opcode.Misc, 0x8b, 0x00, 0})},
		{"table.grow", "table_growth", function(Op(opcode.RefNull, 0x70), I32Const(1), Misc(opcode.MiscTableGrow, 0))},
		{"memory.size of memory 1", "features", function(Op(opcode.MemorySize, 1), Op(opcode.Drop))},
		{"memory.fill of memory 1", "features", function(
			I32Const(0), I32Const(0), I32Const(0), Misc(opcode.MiscMemoryFill, 1))},
		{"select of two types", "format", function([]byte{opcode.SelectTyped, 2, 0x7f, 0x7f})},
		{"block of unknown type", "format", function(Op(opcode.Block, 9), Op(opcode.End))},
		{"block of SIMD type", "features", function(Op(opcode.Block, 0x7b), Op(opcode.End))},
		{"else without if", "format", function(Op(opcode.Block, Void), Op(opcode.Else), Op(opcode.End))},
		{"two elses", "format", function(
			I32Const(0), Op(opcode.If, Void), Op(opcode.Else), Op(opcode.Else), Op(opcode.End))},
		{"if without else leaves a value", "format", function(
			I32Const(0), Op(opcode.If, 0x7f), I32Const(1), Op(opcode.End), Op(opcode.Drop))},
		{"pop from an empty stack", "format", function(Op(opcode.Drop))},
		{"pop from the block outside", "format", function(
			I32Const(0), Op(opcode.Block, Void), Op(opcode.Drop), Op(opcode.End))},
		{"value left over", "format", function(I32Const(0))},
		{"too many values in dead code", "format", function(Op(opcode.Unreachable), I32Const(0), I32Const(0))},
		{"branch too far", "format", function(Op(opcode.Br, 1))},
		{"table of branches too far", "format", function(I32Const(0), Op(opcode.BrTable, 1, 0, 1))},
		{"table of branches too long", "format", function(I32Const(0), Op(opcode.BrTable, 1<<31))},
		{"call of nothing", "format", function(Op(opcode.Call, 1))},
		{"call through no table", "format", function(I32Const(0), Op(opcode.CallIndirect, 0, 1))},
		{"call of no type", "format", function(I32Const(0), Op(opcode.CallIndirect, 1, 0))},
		{"local out of range", "format", function(Op(opcode.LocalGet, 1), Op(opcode.Drop))},
		{"global out of range", "format", function(Op(opcode.GlobalGet, 0), Op(opcode.Drop))},
		{"the global that Prepare adds", "format", functionWith(func(m *Module) {
			m.Global(wasm.I32, true,
				I32Const(0))
		},
			I64Const(1), Op(opcode.GlobalSet, 1))},
		{"the function that Prepare adds", "format", function(Op(opcode.Call, 2))},
		{"data.drop without a count", "format", functionWith(
			func(m *Module) { m.Data(0, nil) }, Misc(opcode.MiscDataDrop, 0))},
		{"elem.drop of nothing", "format", function(Misc(opcode.MiscElemDrop, 0))},
		{"constant over 32 bits", "format", function([]byte{opcode.I32Const, 0xff, 0xff, 0xff, 0xff, 0x0f,
			opcode.Drop})},
		{"constant over 64 bits", "format", function([]byte{opcode.I64Const,
			0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, opcode.Drop})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := refusal(t, test.module, wasm.DefaultLimits())
			if r.Check != test.check {
				t.Fatalf("refused by %q (%v), not %q", r.Check, r, test.check)
			}
			if (r.Detail == "") != (r.Found > r.Limit) {
				t.Fatalf("%#v names neither a reason nor a number", r)
			}
		})
	}
}

// Every limit refuses what is one over it and accepts what just reaches it.
func TestEveryLimit(t *testing.T) {
	m := &Module{}
	f := m.Import("mneme", "log", Types{wasm.I32, wasm.I32, wasm.I32}, nil)
	m.Memory(3, 5)
	m.Table(7)
	m.Global(wasm.I32, true, I32Const(1))
	g := m.Func(Types{wasm.I32}, Types{wasm.I32}, Types{wasm.I64, wasm.F64},
		Op(opcode.LocalGet, 0), Op(opcode.I32Load, 2, 0), Op(opcode.LocalSet, 0),
		Op(opcode.Loop, Void),
		Op(opcode.LocalGet, 0), Op(opcode.If, Void),
		Op(opcode.LocalGet, 0), Op(opcode.I32Load, 2, 0), Op(opcode.Drop),
		I32Const(1), I32Const(2), I32Const(3), Op(opcode.Call, f),
		Op(opcode.LocalGet, 0), Op(opcode.BrTable, 2, 0, 1, 0),
		Op(opcode.End),
		Op(opcode.GlobalGet, 0), Op(opcode.BrIf, 0),
		Op(opcode.End),
		Op(opcode.LocalGet, 0))
	m.Elements(0, g)
	m.Export("f", wasm.KindFunc, g)
	m.Data(0, []byte("x"))
	module := m.Bytes()

	reached := 0
	for _, check := range prepare(t, module).Checks {
		var found, limit int
		if n, _ := fmt.Sscanf(check.Detail, "%d of %d", &found, &limit); n != 2 {
			continue
		}
		if found == 0 {
			t.Errorf("%s: the module has none", check.Name)
		}
		lim := wasm.DefaultLimits()
		field := reflect.ValueOf(&lim).Elem().FieldByNameFunc(func(field string) bool {
			return strings.EqualFold(field, strings.ReplaceAll(check.Name, "_", ""))
		})
		if !field.IsValid() {
			if check.Name != "element_entries" { // it shares the limit of table_entries
				t.Errorf("%s: no such limit", check.Name)
			}
			continue
		}
		reached++
		if int(field.Int()) != limit {
			t.Errorf("%s: limit is %d, not %d", check.Name, limit, field.Int())
		}
		field.SetInt(int64(found))
		if _, err := wasm.Prepare(module, lim); err != nil {
			t.Errorf("%s: %v", check.Name, err)
		}
		field.SetInt(int64(found - 1))
		if r := refusal(t, module, lim); r.Check != check.Name || r.Found <= r.Limit || r.Limit != int64(found-1) {
			t.Errorf("%s: one too many is refused as %#v", check.Name, r)
		}
	}
	if fields := reflect.TypeFor[wasm.Limits]().NumField(); reached != fields {
		t.Errorf("%d of %d limits were tried", reached, fields)
	}
}

// Damage is refused or harmless, and never causes a panic.
func TestDamage(t *testing.T) {
	good, _ := generate(3)
	for n := range good {
		_, _ = wasm.Prepare(good[:n], wasm.DefaultLimits())
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[n] ^= 1 << bit
			_, _ = wasm.Prepare(bad, wasm.DefaultLimits())
		}
	}
}
