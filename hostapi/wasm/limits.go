package wasm

// Limits limits a module before anything is compiled. The first group limits what a module contains, the second what
// compiling it may cost: a few kilobytes are enough to keep an optimising compiler busy for a minute.
type Limits struct {
	ModuleBytes    int // the whole file
	Types          int // function types
	Params         int // of one function type
	Results        int // of one function type
	Imports        int
	Functions      int // defined, without imports
	Tables         int
	TableEntries   int // all tables together, and all element segments together
	MemoryPages    int // of 64 KiB; a module that declares no maximum, or a larger one, gets this one
	Globals        int
	Exports        int
	Elements       int // element segments
	DataSegments   int
	BodyBytes      int // one function
	Locals         int // of one function, including its parameters
	Operands       int // depth of one function's operand stack
	BlockNest      int
	LoopNest       int
	BranchTargets  int // of all br_table together
	MemoryAccesses int // loads and stores
	LocalsBlocks   int // sum over basic blocks of the locals and operands that may be live there, more within loops
	LocalsLoops    int // sum over functions of (locals x loop nest) squared
	MemoryBlocks   int // sum over basic blocks of the addresses that the compiler remembers as checked
	Lookups        int // steps the compiler takes back through blocks to find a memory base or a global
	GlobalsByCalls int // sum over calls of the mutable globals, which are loaded again after each
}

// DefaultLimits returns limits that real policies stay well below. The largest one seen, stock Go with encoding/json,
// has 3.2 MB, 2,100 functions of up to 29 KB and 21 locals, 36,000 data segments, 74,000 branch targets, 117,000 memory
// accesses, and sums of 1.6 M locals, 170,000 addresses, 31,000 lookups and 150,000 globals. A module that just reaches
// one of the limits on the cost of compiling compiles in 0.2 to 3 seconds.
func DefaultLimits() Limits {
	return Limits{
		ModuleBytes:    4 << 20,
		Types:          2_000,
		Params:         100,
		Results:        16,
		Imports:        256,
		Functions:      20_000,
		Tables:         16,
		TableEntries:   16_384,
		MemoryPages:    256,
		Globals:        1_000,
		Exports:        1_000,
		Elements:       1_000,
		DataSegments:   100_000,
		BodyBytes:      128 << 10,
		Locals:         1_000,
		Operands:       1_000,
		BlockNest:      10_000,
		LoopNest:       32,
		BranchTargets:  300_000,
		MemoryAccesses: 500_000,
		LocalsBlocks:   4_000_000,
		LocalsLoops:    500_000_000,
		MemoryBlocks:   8_000_000,
		Lookups:        8_000_000,
		GlobalsByCalls: 2_000_000,
	}
}

// quantity is something that is counted against a limit.
type quantity int

const (
	moduleBytes quantity = iota
	types
	params
	results
	imports
	functions
	tables
	tableEntries
	elementEntries
	memoryPages
	globals
	exports
	elements
	dataSegments
	bodyBytes
	locals
	operands
	blockNest
	loopNest
	branchTargets
	memoryAccesses
	localsBlocks
	localsLoops
	memoryBlocks
	lookups
	globalsByCalls
	quantities
)

// bound is a quantity's name and limit.
type bound struct {
	name  string
	limit int
}

func (l *Limits) bounds() [quantities]bound {
	return [quantities]bound{
		moduleBytes:    {"module_bytes", l.ModuleBytes},
		types:          {"types", l.Types},
		params:         {"params", l.Params},
		results:        {"results", l.Results},
		imports:        {"imports", l.Imports},
		functions:      {"functions", l.Functions},
		tables:         {"tables", l.Tables},
		tableEntries:   {"table_entries", l.TableEntries},
		elementEntries: {"element_entries", l.TableEntries},
		memoryPages:    {"memory_pages", l.MemoryPages},
		globals:        {"globals", l.Globals},
		exports:        {"exports", l.Exports},
		elements:       {"elements", l.Elements},
		dataSegments:   {"data_segments", l.DataSegments},
		bodyBytes:      {"body_bytes", l.BodyBytes},
		locals:         {"locals", l.Locals},
		operands:       {"operands", l.Operands},
		blockNest:      {"block_nest", l.BlockNest},
		loopNest:       {"loop_nest", l.LoopNest},
		branchTargets:  {"branch_targets", l.BranchTargets},
		memoryAccesses: {"memory_accesses", l.MemoryAccesses},
		localsBlocks:   {"locals_blocks", l.LocalsBlocks},
		localsLoops:    {"locals_loops", l.LocalsLoops},
		memoryBlocks:   {"memory_blocks", l.MemoryBlocks},
		lookups:        {"lookups", l.Lookups},
		globalsByCalls: {"globals_by_calls", l.GlobalsByCalls},
	}
}
