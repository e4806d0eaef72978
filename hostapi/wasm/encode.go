package wasm

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
)

// module assembles the sections again, without the custom ones.
func (rw *rewriter) module() []byte {
	m := rw.mod
	out := make([]byte, 0, len(rw.code)+len(m.raw[secData])+len(m.raw[secElement])+4<<10)
	out = append(out, "\x00asm\x01\x00\x00\x00"...)
	out = appendSection(out, secType, rw.typeSection())
	out = appendSection(out, secImport, m.raw[secImport])
	out = appendSection(out, secFunction, rw.functionSection())
	out = appendSection(out, secTable, m.raw[secTable])
	out = appendSection(out, secMemory, rw.memorySection())
	out = appendSection(out, secGlobal, rw.globalSection())
	out = appendSection(out, secExport, rw.exportSection())
	out = appendSection(out, secElement, m.raw[secElement])
	out = appendSection(out, secDataCount, m.raw[secDataCount])
	out = appendSection(out, secCode, append(binary.AppendUvarint(nil, uint64(rw.count)), rw.code...))
	return appendSection(out, secData, m.raw[secData])
}

// appendSection appends a section unless there is none.
func appendSection(out []byte, id byte, content []byte) []byte {
	if content == nil {
		return out
	}
	out = binary.AppendUvarint(append(out, id), uint64(len(content)))
	return append(out, content...)
}

// extend returns a vector with a larger count and items appended.
func extend(raw []byte, added int, items []byte) []byte {
	n := uint64(0)
	if raw != nil {
		r := reader{meter: &meter{}, buf: raw}
		n, raw = uint64(r.u32()), raw[r.pos:]
	}
	out := binary.AppendUvarint(nil, n+uint64(added))
	return append(append(out, raw...), items...)
}

func (rw *rewriter) typeSection() []byte {
	var items []byte
	for _, t := range rw.addedTypes {
		items = append(items, 0x60)
		for _, list := range [][]ValueType{t.Params, t.Results} {
			items = append(items, byte(len(list)))
			for _, v := range list {
				items = append(items, byte(v))
			}
		}
	}
	return extend(rw.mod.raw[secType], len(rw.addedTypes), items)
}

func (rw *rewriter) functionSection() []byte {
	return extend(rw.mod.raw[secFunction], rw.count-rw.own, rw.addedFunctions())
}

// memorySection writes the memory with a maximum: the module's own, if that is within the cap. If the cap leaves room
// for YieldPages, the maximum is the cap, and the host enforces the module's own: with a lower maximum, the engine
// would refuse a refill's request at once, and the host would never see it.
func (rw *rewriter) memorySection() []byte {
	mem := rw.mod.memory
	if mem == nil {
		return rw.mod.raw[secMemory]
	}
	out := binary.AppendUvarint([]byte{1, 1}, uint64(mem.min))
	most := rw.memoryMax()
	if rw.pages > YieldPages {
		most = rw.pages
	}
	return binary.AppendUvarint(out, uint64(most))
}

func (rw *rewriter) memoryMax() uint32 {
	if mem := rw.mod.memory; mem.hasMax {
		return min(mem.max, rw.pages)
	}
	return rw.pages
}

// globalSection adds tank, slice, depth and cards, all zero: a module cannot run before its host has set them.
func (rw *rewriter) globalSection() []byte {
	item := []byte{byte(I64), 1, opcode.I64Const, 0, opcode.End}
	return extend(rw.mod.raw[secGlobal], 4, bytes.Repeat(item, 4))
}

func (rw *rewriter) exportSection() []byte {
	var items []byte
	n := 0
	add := func(name string, index int) {
		items = binary.AppendUvarint(items, uint64(len(name)))
		items = append(append(items, name...), byte(KindGlobal))
		items = binary.AppendUvarint(items, uint64(index))
		n++
	}
	add(TankExport, int(rw.tank))
	add(SliceExport, int(rw.slice))
	add(DepthExport, int(rw.depth))
	add(CardsExport, int(rw.cards))
	for i, g := range rw.mod.globals {
		if g.mutable {
			add(globalExport(i), i)
		}
	}
	return extend(rw.mod.raw[secExport], n, items)
}

func globalExport(index int) string { return reserved + strconv.Itoa(index) }

// info describes the rewritten module.
func (rw *rewriter) info() Info {
	m := rw.mod
	info := Info{
		Imports: m.imports, Exports: m.exports, Traits: rw.walker.traits, Manifest: m.manifest,
		Functions: rw.own, Marks: rw.marks,
		Sizes: Sizes{Types: len(m.types) + len(rw.addedTypes), Imports: len(m.imports), Globals: len(m.globals),
			Exports: len(m.exports), TableEntries: m.meter.found[tableEntries], Elements: m.elements,
			ElementEntries: m.meter.found[elementEntries], DataSegments: m.meter.found[dataSegments]},
	}
	for i, g := range m.globals {
		if g.mutable {
			info.Globals = append(info.Globals, Global{globalExport(i), g.typ})
		}
	}
	if m.memory != nil {
		info.MemoryMin, info.MemoryMax = m.memory.min, rw.memoryMax()
	}
	return info
}
