package wasm

import "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"

// work adds up those costs of an optimising compiler that grow faster than the code. For every basic block the compiler
// keeps the live values (locals, operands) and the addresses known to be in bounds. From every use of memory or a
// global it walks back through blocks with one predecessor to the value's definition. After every call it loads the
// mutable globals again. Each sum has a limit, so compiling is linear in the module and the limits.
type work struct {
	meter   *meter
	locals  int
	globals int // mutable
	known   int // addresses checked on every way to this point; dead if there is none
	chain   int // blocks back to the last one with several predecessors
}

// workFrame is the state of work for an open block.
type workFrame struct {
	preds      int // number of ways to the block's end
	known      int // addresses checked on all of them
	chain      int // of the last one
	entryKnown int
	entryChain int
}

func (w *work) start(locals int) {
	w.locals, w.known, w.chain = locals, 0, 0
}

// blocks counts n basic blocks that begin with a stack of the given height, inside a number of loops. Eight nested
// loops double the cost of keeping a value in a register.
func (w *work) blocks(n, height, loops int) {
	if w.known == dead {
		return
	}
	w.meter.add(localsBlocks, n*(w.locals+height)*(8+loops)/8)
	w.meter.add(memoryBlocks, n*w.known)
}

// finish counts costs that grow with the square of the number of values in loops: about a nanosecond each.
func (w *work) finish(loopNest int) {
	w.meter.add(localsLoops, w.locals*loopNest*w.locals*loopNest)
}

// lookup counts the use of a value that is cached per block.
func (w *work) lookup() {
	if w.known != dead {
		w.meter.add(lookups, w.chain)
	}
}

// access counts a load or store.
func (w *work) access() {
	if w.known != dead {
		w.meter.add(memoryAccesses, 1)
		w.lookup()
		w.known++
	}
}

func (w *work) call() {
	if w.known != dead {
		w.meter.add(globalsByCalls, w.globals)
	}
}

// step begins a block whose only predecessor is the previous one.
func (w *work) step() { w.chain++ }

func (w *work) open(f *frame) {
	f.work = workFrame{entryKnown: w.known, entryChain: w.chain}
	switch f.op {
	case opcode.If:
		w.chain++
	case opcode.Loop:
		w.chain = 0
	}
}

// branch records a way to a block's end.
func (w *work) branch(f *frame) {
	if f.op != opcode.Loop {
		w.join(f, w.known, w.chain)
	}
}

func (w *work) join(f *frame, known, chain int) {
	if known == dead {
		return
	}
	k := &f.work
	if k.preds == 0 {
		k.known = known
	}
	k.known, k.chain = min(k.known, known), chain
	k.preds++
}

func (w *work) die() { w.known = dead }

func (w *work) otherwise(f *frame) {
	w.join(f, w.known, w.chain)
	w.known, w.chain = f.work.entryKnown, f.work.entryChain+1
}

func (w *work) close(f *frame) {
	w.join(f, w.known, w.chain)
	if f.op == opcode.If {
		w.join(f, f.work.entryKnown, f.work.entryChain+1)
	}
	switch k := &f.work; k.preds {
	case 0:
		w.known = dead
	case 1:
		w.known, w.chain = k.known, k.chain+1
	default:
		w.known, w.chain = k.known, 0
	}
}
