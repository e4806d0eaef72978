package wasm

import "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"

// patchKind says what the rewriter changes at one position of a body.
type patchKind uint8

const (
	patchCharge patchKind = iota // insert a charge of arg
	patchLength                  // insert a charge by the length on top of the stack
	patchReturn                  // replace the return by a branch to the outermost block; arg is its depth
	patchStore                   // mark the cards of a store
	patchBulk                    // insert a charge by the length on top of the stack, and mark the cards of the range
)

type patch struct {
	at   int // in the code
	kind patchKind
	arg  int
}

// body is the result of walking one function.
type body struct {
	typ     FuncType
	locals  []byte // unchanged
	local   int    // the first index after parameters and locals
	code    []byte // including its end instruction
	cost    int    // fuel of the most expensive path outside of loops
	leaf    bool   // it calls only imported functions
	writes  bool   // it writes to memory
	patches []patch
}

// frame is an open block. The function's body is one, too.
type frame struct {
	op              byte
	height          int // operands below the block's own
	params, results int
	dead            bool // the current code of the block is unreachable
	path            pathFrame
	work            workFrame
}

// walker reads the body of each function once. It refuses malformed code and tracks the depth of the operand stack;
// path adds up the fuel of running the function, and work the cost of compiling it. The walker does not check types,
// because the compiler does.
type walker struct {
	mod      *module
	r        reader
	body     body
	locals   int // including parameters
	loopNest int // the deepest so far
	frames   []frame
	height   int
	path     path
	work     work
	traits   Traits
}

// walk reads one entry of the code section. Its result is valid until the next call.
func (w *walker) walk(typ FuncType, entry []byte, at int) *body {
	w.r = reader{meter: w.mod.meter, buf: entry, base: at}
	r := &w.r
	r.most(bodyBytes, len(entry))
	w.readLocals(len(typ.Params))
	w.body = body{typ: typ, locals: entry[:r.pos], local: w.locals, leaf: true, patches: w.body.patches[:0]}

	w.r = reader{meter: w.mod.meter, buf: entry[r.pos:], base: at + r.pos}
	w.body.code = r.buf
	w.frames, w.height, w.loopNest = w.frames[:0], 0, 0
	w.path.start(w.locals)
	w.work.start(w.locals)
	w.open(opcode.Block, 0, len(typ.Results))
	for len(w.frames) > 0 && r.err == nil {
		w.instruction()
	}
	r.finish()
	r.most(loopNest, w.loopNest)
	w.work.finish(w.loopNest)
	w.body.cost = w.path.entry()
	return &w.body
}

// readLocals counts the locals.
func (w *walker) readLocals(params int) {
	w.locals = params
	for range w.r.items(w.r.count()) {
		w.locals += int(w.r.u32())
		w.r.valueType()
		w.r.most(locals, w.locals)
	}
	w.r.most(locals, w.locals)
}

// instruction reads one instruction with its immediates.
func (w *walker) instruction() {
	at := w.r.pos
	op := w.r.byte()
	if op == opcode.Misc {
		w.misc(at)
		return
	}
	info, ok := opcode.Of(op)
	if !ok {
		w.r.lacks(partOf(op), "opcode 0x%02x", op)
	}
	if w.r.err != nil {
		return
	}
	w.path.spend(cost(op))
	switch op {
	case opcode.Block, opcode.Loop, opcode.If:
		w.block(op)
	case opcode.Else:
		w.otherwise()
	case opcode.End:
		w.close()
	case opcode.Br, opcode.BrIf:
		w.branch(op, w.r.u32())
	case opcode.BrTable:
		w.branchTable()
	case opcode.Return:
		outermost := len(w.frames) - 1
		w.patch(patchReturn, at, outermost)
		w.branch(opcode.Br, uint32(outermost))
	case opcode.Unreachable:
		w.die()
	case opcode.Call:
		f := w.r.index("function", len(w.mod.functions))
		w.body.leaf = w.body.leaf && int(f) < len(w.mod.imports)
		if w.r.err == nil {
			w.call(w.mod.types[w.mod.functions[f]], 0)
		}
	case opcode.CallIndirect:
		t := w.r.index("type", len(w.mod.types))
		w.r.index("table", len(w.mod.tables))
		w.body.leaf = false
		if w.r.err == nil {
			w.call(w.mod.types[t], 1)
		}
	default:
		w.plain(op, info, at)
	}
}

// plain handles an instruction that neither branches nor calls.
func (w *walker) plain(op byte, info opcode.Info, at int) {
	switch op {
	case opcode.MemoryGrow:
		w.patch(patchCharge, at, growCost)
	case opcode.TableSet:
		w.traits.ChangesTables = true
	case opcode.LocalSet, opcode.LocalTee:
		w.path.sets++
	}
	if opcode.IsStore(op) {
		w.patch(patchStore, at, 0)
		w.body.writes = true
	}
	w.immediate(info.Immediate)
	w.apply(int(info.Pops), int(info.Pushes))
}

// misc reads an instruction after the prefix. Its opcode is a number that may be padded, but no toolchain does that.
func (w *walker) misc(at int) {
	op := w.r.byte()
	if op == opcode.MiscTableGrow {
		w.r.fail(checkGrowth, "a table that grows runs past any deadline; declare its size")
	}
	info, ok := opcode.OfMisc(op)
	if !ok {
		w.r.lacks(partOfMisc(op), "opcode 0xfc 0x%02x", op)
	}
	w.path.spend(miscCost(op))
	switch op {
	case opcode.MiscMemoryInit, opcode.MiscMemoryCopy, opcode.MiscMemoryFill:
		w.patch(patchBulk, at, 0)
		w.body.writes = true
	case opcode.MiscTableInit, opcode.MiscTableCopy, opcode.MiscTableFill:
		w.patch(patchLength, at, 0)
		w.traits.ChangesTables = true
	case opcode.MiscDataDrop, opcode.MiscElemDrop:
		w.traits.DropsSegments = true
	}
	w.immediate(info.Immediate)
	w.apply(int(info.Pops), int(info.Pushes))
}

func (w *walker) patch(kind patchKind, at, arg int) {
	w.body.patches = append(w.body.patches, patch{at, kind, arg})
}

// immediate reads what follows an opcode that neither branches nor calls.
func (w *walker) immediate(kind opcode.Immediate) {
	r, m := &w.r, w.mod
	switch kind {
	case opcode.None:
	case opcode.Local:
		r.index("local", w.locals)
	case opcode.Global:
		r.index("global", len(m.globals))
		w.work.lookup()
	case opcode.Memarg:
		r.u32()
		r.u32()
		w.work.access()
	case opcode.I32:
		r.signed(32)
	case opcode.I64:
		r.signed(64)
	case opcode.F32:
		r.bytes(4)
	case opcode.F64:
		r.bytes(8)
	case opcode.Memory:
		r.zero("memory")
	case opcode.Memories:
		r.zero("memory")
		r.zero("memory")
	case opcode.Data:
		r.index("data segment", max(m.data, 0))
	case opcode.DataAndMemory:
		r.index("data segment", max(m.data, 0))
		r.zero("memory")
	case opcode.Element:
		r.index("element segment", m.elements)
	case opcode.ElementAndTable:
		r.index("element segment", m.elements)
		r.index("table", len(m.tables))
	case opcode.Table:
		r.index("table", len(m.tables))
	case opcode.Tables:
		r.index("table", len(m.tables))
		r.index("table", len(m.tables))
	case opcode.Function:
		r.index("function", len(m.functions))
	case opcode.RefType:
		r.refType()
	case opcode.ValueType:
		if n := r.byte(); n != 1 {
			r.fail(checkFormat, "select of %d types", n)
		}
		r.valueType()
	default:
		r.fail(checkFeatures, "immediate of an unknown form")
	}
}

// pop removes operands from the stack. In dead code the stack never runs out, as the specification says.
func (w *walker) pop(n int) {
	f := &w.frames[len(w.frames)-1]
	w.height -= n
	if w.height < f.height {
		if !f.dead {
			w.r.fail(checkFormat, "operand stack is empty")
		}
		w.height = f.height
	}
}

func (w *walker) push(n int) {
	w.height += n
	w.r.most(operands, w.height)
}

func (w *walker) apply(pops, pushes int) {
	w.pop(pops)
	w.push(pushes)
}

func (w *walker) call(t FuncType, extra int) {
	w.work.call()
	w.apply(len(t.Params)+extra, len(t.Results))
}
