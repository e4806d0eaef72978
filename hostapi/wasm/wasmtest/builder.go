// Package wasmtest assembles WebAssembly modules by hand, for tests that need a module which no compiler would emit.
package wasmtest

import (
	"encoding/binary"
	"slices"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
)

// Module is a module that is being built. Imports must be added before functions. Bytes writes whatever was added,
// valid or not.
type Module struct {
	types     []wasm.FuncType
	imports   [][]byte
	functions [][]byte
	bodies    [][]byte
	tables    [][]byte
	memories  [][]byte
	globals   [][]byte
	exports   [][]byte
	start     []byte
	elements  [][]byte
	dataCount bool
	data      [][]byte
	custom    []byte
}

// Types is a list of value types, to keep signatures short.
type Types = []wasm.ValueType

// Type returns the index of a function type, which it adds if necessary.
func (m *Module) Type(params, results Types) uint32 {
	for i, t := range m.types {
		if slices.Equal(t.Params, params) && slices.Equal(t.Results, results) {
			return uint32(i)
		}
	}
	m.types = append(m.types, wasm.FuncType{Params: params, Results: results})
	return uint32(len(m.types) - 1)
}

// Import adds an imported function and returns its index.
func (m *Module) Import(module, name string, params, results Types) uint32 {
	item := append(text(module), text(name)...)
	item = append(item, byte(wasm.KindFunc))
	m.imports = append(m.imports, u32(item, m.Type(params, results)))
	return uint32(len(m.imports) - 1)
}

// ImportRaw adds an import of any kind; desc is what follows the names.
func (m *Module) ImportRaw(module, name string, desc ...byte) {
	m.imports = append(m.imports, slices.Concat(text(module), text(name), desc))
}

// Func adds a function and returns its index. The end of its body is added.
func (m *Module) Func(params, results, locals Types, code ...[]byte) uint32 {
	groups := u32(nil, uint32(len(locals)))
	for _, t := range locals {
		groups = append(groups, 1, byte(t))
	}
	return m.FuncRaw(m.Type(params, results), slices.Concat(groups, slices.Concat(code...), []byte{opcode.End}))
}

// FuncRaw adds a function with the given body, including locals.
func (m *Module) FuncRaw(typ uint32, body []byte) uint32 {
	m.functions = append(m.functions, u32(nil, typ))
	m.bodies = append(m.bodies, append(u32(nil, uint32(len(body))), body...))
	return uint32(len(m.imports) + len(m.functions) - 1)
}

// Table adds a table of functions.
func (m *Module) Table(entries uint32) {
	m.tables = append(m.tables, u32([]byte{byte(wasm.FuncRef), 0}, entries))
}

// Memory adds a memory with a number of pages; there is no maximum if high is below low.
func (m *Module) Memory(low, high uint32) {
	if high < low {
		m.memories = append(m.memories, u32([]byte{0}, low))
		return
	}
	m.memories = append(m.memories, u32(u32([]byte{1}, low), high))
}

// Global adds a global with a constant expression, without its end, and returns its index.
func (m *Module) Global(t wasm.ValueType, mutable bool, init []byte) uint32 {
	item := []byte{byte(t), 0}
	if mutable {
		item[1] = 1
	}
	m.globals = append(m.globals, slices.Concat(item, init, []byte{opcode.End}))
	return uint32(len(m.globals) - 1)
}

// Export exports something under a name.
func (m *Module) Export(name string, kind wasm.Kind, index uint32) {
	m.exports = append(m.exports, u32(append(text(name), byte(kind)), index))
}

// Start names the start function.
func (m *Module) Start(function uint32) { m.start = u32(nil, function) }

// Elements fills table 0 from an offset.
func (m *Module) Elements(offset int32, functions ...uint32) {
	item := slices.Concat([]byte{0}, I32Const(offset), []byte{opcode.End})
	item = u32(item, uint32(len(functions)))
	for _, f := range functions {
		item = u32(item, f)
	}
	m.elements = append(m.elements, item)
}

// PassiveElements adds a segment for table.init and returns its index.
func (m *Module) PassiveElements(functions ...uint32) uint32 {
	item := u32([]byte{1, 0}, uint32(len(functions)))
	for _, f := range functions {
		item = u32(item, f)
	}
	m.elements = append(m.elements, item)
	return uint32(len(m.elements) - 1)
}

// ElementsRaw adds an element segment with the given bytes.
func (m *Module) ElementsRaw(item ...byte) { m.elements = append(m.elements, item) }

// Data fills memory from an offset.
func (m *Module) Data(offset int32, content []byte) {
	item := slices.Concat([]byte{0}, I32Const(offset), []byte{opcode.End})
	m.data = append(m.data, append(u32(item, uint32(len(content))), content...))
}

// PassiveData adds a segment for memory.init and the count that goes with it; it returns the segment's index.
func (m *Module) PassiveData(content []byte) uint32 {
	m.dataCount = true
	m.data = append(m.data, append(u32([]byte{1}, uint32(len(content))), content...))
	return uint32(len(m.data) - 1)
}

// Custom adds a custom section at the front.
func (m *Module) Custom(name string, content []byte) {
	m.custom = append(m.custom, Section(0, append(text(name), content...))...)
}

// Bytes returns the module.
func (m *Module) Bytes() []byte {
	var types [][]byte
	for _, t := range m.types {
		item := []byte{0x60}
		for _, list := range []Types{t.Params, t.Results} {
			item = u32(item, uint32(len(list)))
			for _, v := range list {
				item = append(item, byte(v))
			}
		}
		types = append(types, item)
	}
	out := slices.Concat(Header(), m.custom,
		vector(1, types), vector(2, m.imports), vector(3, m.functions), vector(4, m.tables), vector(5, m.memories),
		vector(6, m.globals), vector(7, m.exports))
	if m.start != nil {
		out = append(out, Section(8, m.start)...)
	}
	out = append(out, vector(9, m.elements)...)
	if m.dataCount {
		out = append(out, Section(12, u32(nil, uint32(len(m.data))))...)
	}
	return slices.Concat(out, vector(10, m.bodies), vector(11, m.data))
}

// Header returns the magic number and version that open a module.
func Header() []byte { return []byte("\x00asm\x01\x00\x00\x00") }

// Section returns one section.
func Section(id byte, content []byte) []byte {
	return append(u32([]byte{id}, uint32(len(content))), content...)
}

// Op returns an instruction whose immediates are unsigned numbers.
func Op(op byte, immediates ...uint32) []byte {
	out := []byte{op}
	for _, v := range immediates {
		out = u32(out, v)
	}
	return out
}

// Misc returns an instruction after the Misc prefix.
func Misc(op byte, immediates ...uint32) []byte {
	return append([]byte{opcode.Misc}, Op(op, immediates...)...)
}

// I32Const returns the instruction that pushes v.
func I32Const(v int32) []byte { return opcode.AppendSigned([]byte{opcode.I32Const}, int64(v)) }

// I64Const returns the instruction that pushes v.
func I64Const(v int64) []byte { return opcode.AppendSigned([]byte{opcode.I64Const}, v) }

// Void is the type of a block that takes and leaves nothing, in the place of Op's immediate.
const Void = 0x40

func vector(id byte, items [][]byte) []byte {
	if len(items) == 0 {
		return nil
	}
	return Section(id, append(u32(nil, uint32(len(items))), slices.Concat(items...)...))
}

func text(s string) []byte { return append(u32(nil, uint32(len(s))), s...) }

func u32(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }
