package wasm

import "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"

// readConstant reads a constant expression: one instruction and its end. Arithmetic on constants is an extension that
// toolchains emit only on request.
func (m *module) readConstant(r *reader) {
	switch op := r.byte(); op {
	case opcode.I32Const:
		r.signed(32)
	case opcode.I64Const:
		r.signed(64)
	case opcode.F32Const:
		r.bytes(4)
	case opcode.F64Const:
		r.bytes(8)
	case opcode.GlobalGet:
		// Only an imported global would be constant here, and a policy cannot import any.
		r.fail(checkFeatures, "a constant that reads a global")
	case opcode.RefNull:
		r.refType()
	case opcode.RefFunc:
		r.index("function", len(m.functions))
	default:
		r.lacks(partOf(op), "opcode 0x%02x in a constant", op)
	}
	if end := r.byte(); end != opcode.End && r.err == nil {
		r.fail(checkFeatures, "a constant of more than one instruction")
	}
}

// Bits of an element segment's first number.
const (
	segPassive   = 1 // or declarative, with segExplicit
	segExplicit  = 2 // names its table, or is declarative
	segConstants = 4 // holds expressions instead of function indices
)

func (m *module) readElements(r *reader) {
	m.elements = r.count()
	r.most(elements, m.elements)
	for range r.items(m.elements) {
		flags := r.u32()
		if flags > segPassive|segExplicit|segConstants {
			r.fail(checkFormat, "element segment of form %d", flags)
		}
		if flags&segPassive == 0 {
			table := uint32(0)
			if flags&segExplicit != 0 {
				table = r.u32()
			}
			if int64(table) >= int64(len(m.tables)) {
				r.fail(checkFormat, "table %d of %d", table, len(m.tables))
			}
			m.readConstant(r)
		}
		if flags&(segPassive|segExplicit) != 0 {
			if flags&segConstants != 0 {
				r.refType()
			} else if kind := r.byte(); kind != 0 {
				r.fail(checkFeatures, "element kind %d", kind)
			}
		}
		n := r.count()
		r.add(elementEntries, n)
		for range r.items(n) {
			if flags&segConstants != 0 {
				m.readConstant(r)
			} else {
				r.index("function", len(m.functions))
			}
		}
	}
}

func (m *module) readDataCount(r *reader) {
	// Not the length of a vector: the segments are in another section.
	n := r.u32()
	m.data = int(min(n, 1<<31-1))
	r.most(dataSegments, m.data)
}

func (m *module) readData(r *reader) {
	n := r.count()
	r.most(dataSegments, n)
	if m.data >= 0 && m.data != n {
		r.fail(checkFormat, "%d data segments, not %d as announced", n, m.data)
	}
	for range r.items(n) {
		switch form := r.u32(); form {
		case 0, 2:
			if form == 2 {
				r.zero("memory")
			}
			if m.memory == nil {
				r.fail(checkFormat, "data for a memory that is not there")
			}
			m.readConstant(r)
		case 1:
		default:
			r.fail(checkFormat, "data segment of form %d", form)
		}
		r.bytes(r.u32())
	}
}
