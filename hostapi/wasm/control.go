package wasm

import "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"

// open enters a block whose parameters are already on the stack.
func (w *walker) open(op byte, params, results int) {
	w.frames = append(w.frames, frame{op: op, height: w.height - params, params: params, results: results})
	f := &w.frames[len(w.frames)-1]
	w.path.open(f, len(w.body.patches))
	w.work.open(f)
}

// block reads a block's type and enters it.
func (w *walker) block(op byte) {
	if op == opcode.If {
		w.pop(1)
	}
	in, out := w.blockType()
	w.apply(in, in)
	if op != opcode.Block {
		w.work.blocks(2, w.height, w.path.loops())
	}
	w.open(op, in, out)
	if op == opcode.Loop {
		w.patch(patchCharge, w.r.pos, 0) // path sets the amount when the loop ends
		w.loopNest = max(w.loopNest, w.path.loops())
	}
	w.r.most(blockNest, len(w.frames)-1)
}

// blockType returns how many operands a block takes and leaves.
func (w *walker) blockType() (in, out int) {
	r := &w.r
	if r.err == nil && r.pos < len(r.buf) && r.buf[r.pos] == 0x40 {
		r.pos++
		return 0, 0
	}
	t := r.signed(33)
	if t >= 0 {
		if t >= int64(len(w.mod.types)) {
			r.fail(checkFormat, "block of type %d of %d", t, len(w.mod.types))
			return 0, 0
		}
		typ := w.mod.types[t]
		return len(typ.Params), len(typ.Results)
	}
	switch ValueType(t & 0x7f) {
	case I32, I64, F32, F64, FuncRef, ExternRef:
		if t >= -0x40 {
			return 0, 1
		}
	}
	r.lacks(partOfType(byte(t&0x7f)), "block type %d", t)
	return 0, 0
}

func (w *walker) otherwise() {
	f := &w.frames[len(w.frames)-1]
	if f.op != opcode.If {
		w.r.fail(checkFormat, "else without if")
	}
	w.checkResults(f)
	w.path.otherwise(f)
	w.work.otherwise(f)
	f.op, f.dead = opcode.Else, false
	w.height = f.height + f.params
}

// checkResults checks that a block ends with exactly its results on the stack.
func (w *walker) checkResults(f *frame) {
	if w.height != f.height+f.results && (!f.dead || w.height > f.height+f.results) {
		w.r.fail(checkFormat, "block leaves %d operands instead of %d", w.height-f.height, f.results)
	}
	w.height = f.height + f.results
}

func (w *walker) close() {
	f := &w.frames[len(w.frames)-1]
	w.checkResults(f)
	if f.op == opcode.If && f.params != f.results {
		w.r.fail(checkFormat, "if without else changes the stack")
	}
	w.path.close(f, &w.body)
	w.work.close(f)
	w.frames = w.frames[:len(w.frames)-1]
	w.work.blocks(1, w.height, w.path.loops())
}

// target finds the block that a label refers to and records a branch to it; nil if there is none.
func (w *walker) target(label uint32) *frame {
	if int64(label) >= int64(len(w.frames)) {
		w.r.fail(checkFormat, "label %d of %d", label, len(w.frames))
		return nil
	}
	f := &w.frames[len(w.frames)-1-int(label)]
	w.path.branch(f)
	w.work.branch(f)
	return f
}

// arity returns how many operands a branch to a block carries.
func (f *frame) arity() int {
	if f.op == opcode.Loop {
		return f.params
	}
	return f.results
}

func (w *walker) branch(op byte, label uint32) {
	if op == opcode.BrIf {
		w.pop(1)
	}
	f := w.target(label)
	if f == nil {
		return
	}
	w.pop(f.arity())
	if op == opcode.Br {
		w.die()
		return
	}
	w.push(f.arity())
	w.work.step()
	w.work.blocks(1, w.height, w.path.loops())
}

func (w *walker) branchTable() {
	w.pop(1)
	n := w.r.count() + 1
	w.r.add(branchTargets, n)
	arity := 0
	for range w.r.items(n) {
		if f := w.target(w.r.u32()); f != nil {
			arity = f.arity()
		}
	}
	w.work.blocks(n, w.height, w.path.loops())
	w.pop(arity)
	w.die()
}

// die marks the rest of the block as unreachable.
func (w *walker) die() {
	f := &w.frames[len(w.frames)-1]
	f.dead, w.height = true, f.height
	w.path.die()
	w.work.die()
}
