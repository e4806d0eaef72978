package wasm

import "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"

// Fuel. A function is divided into regions: its own code outside of loops, and the code of each loop outside of its
// inner loops. Between two charges control only moves forward, so a region costs at most what its most expensive path
// costs. That is what is charged when the region is entered: at the function's entry, and at a loop's header once per
// iteration. Nothing runs that was not paid for.
//
// One unit is a simple instruction. An instruction that takes several times as long costs as many units. A load costs
// as much as one that finds its value in the second of three caches: more than most, and far less than the worst, which
// waits for main memory. BenchmarkPrices measures how long a unit takes in each class of instructions.
const (
	headerCost   = 1   // of one iteration besides its instructions, so that no loop is free
	growCost     = 200 // of memory.grow; the host charges for the memory
	loadCost     = 16
	storeCost    = 8
	callCost     = 8
	indirectCost = 16
	divideCost   = 8
	rootCost     = 16
	tableCost    = 4 // of br_table
	floatCost    = 3 // of arithmetic

	// lengthShift makes a bulk operation cost half its length, besides its own cost.
	lengthShift = 1

	// moveShift makes eight values that are moved where paths join cost one unit.
	moveShift = 3
)

// cost returns the price of one instruction.
func cost(op byte) int {
	switch {
	case op >= opcode.I32Load && op <= opcode.I64Load32U:
		return loadCost
	case opcode.IsStore(op):
		return storeCost
	}
	switch op {
	case opcode.Loop, opcode.Else, opcode.End, opcode.Nop:
		return 0
	case opcode.I32DivS, opcode.I32DivU, opcode.I32RemS, opcode.I32RemU,
		opcode.I64DivS, opcode.I64DivU, opcode.I64RemS, opcode.I64RemU,
		opcode.F32Div, opcode.F64Div:
		return divideCost
	case opcode.F32Sqrt, opcode.F64Sqrt:
		return rootCost
	case opcode.Call:
		return callCost
	case opcode.CallIndirect:
		return indirectCost
	case opcode.BrTable:
		return tableCost
	case opcode.RefFunc:
		return 200 // asks the host
	}
	if op >= opcode.F32Abs && op <= opcode.F64Copysign || op > opcode.I32WrapI64 && op < opcode.F64Reinter {
		return floatCost // including conversions
	}
	return 1
}

// miscCost returns the price of an instruction after the prefix, without its length.
func miscCost(op byte) int {
	if op <= opcode.MiscTruncLast {
		return 1
	}
	return 10
}

// region is a piece of code that is charged at once.
type region struct {
	patch   int // the charge; unused for the function itself
	outer   int // cost in the enclosing region up to here, as in path.cost
	dearest int
}

// pathFrame is the state of path for an open block.
type pathFrame struct {
	region int
	entry  int // cost on entry
	sets   int // path.sets on entry
	exit   int // the most expensive way to the block's end; dead if there is none
	ways   int // number of ways to the block's end
}

// dead is the cost of code that no path reaches.
const dead = -1

// path tracks the cost of the most expensive way from the region's start to the current instruction. It takes linear
// time.
type path struct {
	regions []region
	cost    int
	locals  int
	sets    int // assignments to locals so far, anywhere
}

func (p *path) start(locals int) {
	p.regions = append(p.regions[:0], region{})
	p.cost, p.locals, p.sets = 0, locals, 0
}

// loops returns how many loops are open.
func (p *path) loops() int { return len(p.regions) - 1 }

// entry returns the charge of the function itself.
func (p *path) entry() int { return p.regions[0].dearest }

func (p *path) spend(n int) {
	if p.cost == dead {
		return
	}
	p.cost += n
	r := &p.regions[len(p.regions)-1]
	r.dearest = max(r.dearest, p.cost)
}

// open enters a block. The charge of a loop will be the next patch.
func (p *path) open(f *frame, patches int) {
	f.path = pathFrame{entry: p.cost, sets: p.sets, exit: dead}
	if f.op == opcode.Loop {
		p.regions = append(p.regions, region{patch: patches, outer: p.cost})
		p.cost = 0
		p.spend(headerCost)
	}
	f.path.region = len(p.regions) - 1
}

// branch records a way to a block's end. A branch to a loop begins a new iteration, which is charged there.
func (p *path) branch(f *frame) {
	if f.op == opcode.Loop || p.cost == dead {
		return
	}
	here := p.cost
	if f.path.region < len(p.regions)-1 {
		here = p.regions[f.path.region+1].outer // out of loops, which were paid for at their headers
	}
	f.path.join(here)
}

// join records a way to a block's end.
func (f *pathFrame) join(cost int) {
	if cost != dead {
		f.exit = max(f.exit, cost)
		f.ways++
	}
}

func (p *path) die() { p.cost = dead }

func (p *path) otherwise(f *frame) {
	f.path.join(p.cost)
	p.cost = f.path.entry
}

func (p *path) close(f *frame, b *body) {
	if f.op == opcode.Loop {
		r := p.regions[len(p.regions)-1]
		p.regions = p.regions[:len(p.regions)-1]
		b.patches[r.patch].arg = r.dearest
		if p.cost != dead {
			p.cost = r.outer
		}
		return
	}
	f.path.join(p.cost)
	if f.op == opcode.If {
		f.path.join(f.path.entry)
	}
	p.cost = f.path.exit
	if f.path.ways > 1 {
		// Where ways join, values in different registers are moved to the same ones.
		p.spend((min(p.locals, p.sets-f.path.sets) + f.results) >> moveShift)
	}
}
