package wasm

import (
	"bytes"
	"strings"
)

// Section ids of the binary format.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
	sections     = 13
)

// ManifestSection is the custom section that describes a policy.
const ManifestSection = "mneme.policy"

// order gives each section its position in a module; the data count precedes the code.
var order = [sections]int{
	secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secGlobal: 6, secExport: 7,
	secStart: 8, secElement: 9, secDataCount: 10, secCode: 11, secData: 12,
}

// global is the type of one global.
type global struct {
	typ     ValueType
	mutable bool
}

// memory is the one memory, in pages.
type memory struct {
	min, max uint32
	hasMax   bool
}

// module is what the sections before the code contain. Functions, globals and tables are in index order, imports first.
type module struct {
	meter     *meter
	raw       [sections][]byte // contents of the sections; nil if there is none
	at        [sections]int    // where each was
	types     []FuncType
	imports   []Import
	functions []uint32 // type of each function
	tables    []ValueType
	memory    *memory
	globals   []global
	exports   []Export
	elements  int
	data      int // -1 if there is no data count
	manifest  []byte
}

// parse splits a module into sections and reads all but the code.
func parse(b []byte, meter *meter) *module {
	m := &module{meter: meter, data: -1}
	meter.most(moduleBytes, len(b))
	m.split(b)
	steps := []struct {
		id   int
		read func(*reader)
	}{
		{secType, m.readTypes}, {secImport, m.readImports}, {secFunction, m.readFunctions},
		{secTable, m.readTables}, {secMemory, m.readMemory}, {secGlobal, m.readGlobals}, {secExport, m.readExports},
		{secElement, m.readElements}, {secDataCount, m.readDataCount}, {secData, m.readData},
	}
	for _, step := range steps {
		if m.raw[step.id] == nil || meter.err != nil {
			continue
		}
		r := m.section(step.id)
		step.read(r)
		r.finish()
	}
	return m
}

// section returns a reader of one section's contents.
func (m *module) section(id int) *reader {
	return &reader{meter: m.meter, buf: m.raw[id], base: m.at[id]}
}

// split finds the sections, each once and in order, and keeps only the manifest of the custom ones.
func (m *module) split(b []byte) {
	r := &reader{meter: m.meter, buf: b}
	if !bytes.Equal(r.bytes(8), []byte("\x00asm\x01\x00\x00\x00")) {
		r.fail(checkFormat, "not a WebAssembly module of version 1")
	}
	last := 0
	for r.left() > 0 && r.err == nil {
		id := r.byte()
		content := r.bytes(r.u32())
		switch {
		case r.err != nil:
		case id == secCustom:
			m.readCustom(&reader{meter: m.meter, buf: content, base: r.pos - len(content)})
		case id == secStart:
			r.fail(checkStart, "it would run before the host can set its fuel; export _initialize instead")
		case id >= sections:
			r.lacks(map[byte]string{13: exceptions}[id], "section %d", id)
		case order[id] <= last:
			r.fail(checkFormat, "section %d is out of order or occurs twice", id)
		default:
			last = order[id]
			m.raw[id], m.at[id] = content, r.pos-len(content)
		}
	}
}

func (m *module) readCustom(r *reader) {
	if r.name() != ManifestSection {
		return
	}
	if m.manifest != nil {
		r.fail(checkFormat, "section %s occurs twice", ManifestSection)
	}
	m.manifest = append([]byte{}, r.buf[r.pos:]...)
}

func (m *module) readTypes(r *reader) {
	n := r.count()
	r.most(types, n)
	for range r.items(n) {
		if form := r.byte(); form != 0x60 {
			r.lacks(partOfType(form), "type form 0x%02x", form)
		}
		t := FuncType{Params: r.valueTypes(), Results: r.valueTypes()}
		if r.err != nil {
			return
		}
		r.most(params, len(t.Params))
		r.most(results, len(t.Results))
		m.types = append(m.types, t)
	}
}

func (r *reader) valueTypes() []ValueType {
	list := make([]ValueType, r.count())
	for i := range list {
		list[i] = r.valueType()
	}
	return list
}

func (m *module) readImports(r *reader) {
	n := r.count()
	r.most(imports, n)
	for range r.items(n) {
		mod, name := r.name(), r.name()
		if kind := r.byte(); kind != byte(KindFunc) && r.err == nil {
			r.fail(checkImports, "%q.%q is of kind %d; only functions can be imported", mod, name, kind)
		}
		t := r.index("type", len(m.types))
		if r.err != nil {
			return
		}
		m.imports = append(m.imports, Import{mod, name, m.types[t]})
		m.functions = append(m.functions, t)
	}
}

func (m *module) readFunctions(r *reader) {
	n := r.count()
	r.most(functions, n)
	for range r.items(n) {
		m.functions = append(m.functions, r.index("type", len(m.types)))
	}
}

func (m *module) readTables(r *reader) {
	n := r.count()
	r.most(tables, n)
	for range r.items(n) {
		m.tables = append(m.tables, r.refType())
		// A table that cannot grow keeps its initial size; a larger maximum costs nothing.
		low, _, _ := r.limits()
		r.add(tableEntries, int(low))
	}
}

// limits reads the sizes of a table or memory.
func (r *reader) limits() (low, high uint32, hasMax bool) {
	switch flag := r.byte(); flag {
	case 0:
	case 1:
		hasMax = true
	default:
		r.lacks(partOfLimits(flag), "limits of form 0x%02x", flag)
	}
	low = r.u32()
	if hasMax {
		if high = r.u32(); high < low {
			r.fail(checkFormat, "maximum %d is below minimum %d", high, low)
		}
	}
	return low, high, hasMax
}

func (m *module) readMemory(r *reader) {
	n := r.count()
	if n > 1 {
		r.fail(checkFeatures, "%d memories; there is one at most", n)
	}
	if n == 0 {
		return
	}
	low, high, hasMax := r.limits()
	if high > 1<<16 {
		r.fail(checkFormat, "memory of %d pages", high)
	}
	m.memory = &memory{low, high, hasMax}
	r.most(memoryPages, int(low))
}

func (m *module) readGlobals(r *reader) {
	n := r.count()
	r.most(globals, n)
	for range r.items(n) {
		g := global{typ: r.valueType()}
		switch flag := r.byte(); flag {
		case 0:
		case 1:
			g.mutable = true
		default:
			r.fail(checkFormat, "mutability %d", flag)
		}
		m.readConstant(r)
		m.globals = append(m.globals, g)
	}
}

func (m *module) readExports(r *reader) {
	n := r.count()
	r.most(exports, n)
	seen := make(map[string]bool, n)
	memories := 0
	if m.memory != nil {
		memories = 1
	}
	for range r.items(n) {
		e := Export{Name: r.name(), Kind: Kind(r.byte())}
		switch e.Kind {
		case KindFunc:
			e.Index = r.index("function", len(m.functions))
			if r.err == nil {
				e.Type = m.types[m.functions[e.Index]]
			}
		case KindTable:
			e.Index = r.index("table", len(m.tables))
		case KindMemory:
			e.Index = r.index("memory", memories)
		case KindGlobal:
			e.Index = r.index("global", len(m.globals))
		default:
			r.fail(checkFormat, "export of kind %d", e.Kind)
		}
		switch {
		case r.err != nil:
			return
		case seen[e.Name]:
			r.fail(checkExports, "%q stands twice", e.Name)
		case strings.HasPrefix(e.Name, reserved):
			r.fail(checkExports, "%q begins with %q, which is reserved", e.Name, reserved)
		}
		seen[e.Name] = true
		m.exports = append(m.exports, e)
	}
}
