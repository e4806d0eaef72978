package wasm

import "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"

// CountEach rewrites a module so that every single instruction is charged right before it runs: this is the exact price
// of a run, which the charges of whole regions must never fall below.
func CountEach(module []byte, lim Limits) ([]byte, error) {
	m := &meter{bounds: lim.bounds()}
	mod := parse(module, m)
	if m.err != nil {
		return nil, m.err
	}
	rw := newRewriter(mod, lim)
	r := mod.section(secCode)
	if mod.raw[secCode] != nil {
		rw.own = r.count()
	}
	for i := range rw.own {
		entry := r.bytes(r.u32())
		b := rw.walker.walk(mod.types[mod.functions[len(mod.imports)+i]], entry, 0)
		if m.err != nil {
			return nil, m.err
		}
		each := *b
		each.cost, each.patches = 0, chargeEach(b, m)
		rw.emit(&each)
	}
	rw.count = rw.own
	rw.emitAdded()
	return rw.module(), nil
}

// chargeEach puts a charge before every instruction and drops those of loops.
func chargeEach(b *body, m *meter) []patch {
	var list []patch
	w := walker{mod: &module{meter: m}, r: reader{meter: m, buf: b.code}}
	next := b.patches
	for w.r.left() > 0 {
		at := w.r.pos
		op := w.r.byte()
		if c := cost(op); c > 0 {
			list = append(list, patch{at, patchCharge, c})
		}
		for len(next) > 0 && next[0].at <= at {
			if next[0].at == at && (next[0].kind != patchCharge || op == opcode.MemoryGrow) {
				list = append(list, next[0])
			}
			next = next[1:]
		}
		skip(&w.r, op)
	}
	return list
}

// skip reads past the immediates of an instruction.
func skip(r *reader, op byte) {
	info, _ := opcode.Of(op)
	if op == opcode.Misc {
		info, _ = opcode.OfMisc(r.byte())
	}
	numbers := 0
	switch info.Immediate {
	case opcode.Label, opcode.Function, opcode.Local, opcode.Global, opcode.Table, opcode.Memory, opcode.RefType,
		opcode.Data, opcode.Element:
		numbers = 1
	case opcode.Indirect, opcode.Memarg, opcode.DataAndMemory, opcode.Memories, opcode.ElementAndTable,
		opcode.Tables, opcode.ValueType:
		numbers = 2
	case opcode.Labels:
		numbers = r.count() + 1
	case opcode.BlockType:
		r.signed(33)
	case opcode.I32:
		r.signed(32)
	case opcode.I64:
		r.signed(64)
	case opcode.F32:
		r.bytes(4)
	case opcode.F64:
		r.bytes(8)
	}
	for range numbers {
		r.u32()
	}
}
