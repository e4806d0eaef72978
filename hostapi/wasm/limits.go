package wasm

import "fmt"

// Limits bounds what a module may be before anything is compiled. The first group bounds what a module holds, the
// second what compiling it may cost: a few kilobytes are enough to keep an optimising compiler busy for a minute.
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
	Locals         int // one function, with its parameters
	Operands       int // depth of one function's operand stack
	BlockNest      int
	LoopNest       int
	BranchTargets  int // of all br_table together
	LocalsBlocks   int // sum over basic blocks of the locals and operands that may be live there, more within loops
	LocalsLoops    int // sum over functions of (locals x loop nest) squared
	MemoryBlocks   int // sum over basic blocks of the addresses that the compiler remembers as checked
	Lookups        int // steps the compiler takes back through blocks to find a memory base or a global
	GlobalsByCalls int // sum over calls of the mutable globals, which are loaded again after each
}

// DefaultLimits returns limits that real policies stay well below, those built by stock Go with encoding/json included.
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
		LocalsBlocks:   4_000_000,
		LocalsLoops:    500_000_000,
		MemoryBlocks:   8_000_000,
		Lookups:        8_000_000,
		GlobalsByCalls: 2_000_000,
	}
}

// quantity is one thing that is counted against a limit.
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
		localsBlocks:   {"locals_blocks", l.LocalsBlocks},
		localsLoops:    {"locals_loops", l.LocalsLoops},
		memoryBlocks:   {"memory_blocks", l.MemoryBlocks},
		lookups:        {"lookups", l.Lookups},
		globalsByCalls: {"globals_by_calls", l.GlobalsByCalls},
	}
}

// meter holds what was found so far against the limits, and the first refusal, which sticks.
type meter struct {
	bounds [quantities]bound
	found  [quantities]int
	err    *Refusal
}

// most records the largest value seen of a quantity.
func (m *meter) most(q quantity, n int) {
	if n > m.found[q] {
		m.found[q] = n
		m.check(q)
	}
}

// add counts towards a sum over the whole module.
func (m *meter) add(q quantity, n int) {
	m.found[q] += n
	m.check(q)
}

func (m *meter) check(q quantity) {
	if b := &m.bounds[q]; m.found[q] > b.limit && m.err == nil {
		m.err = &Refusal{Check: b.name, Found: int64(m.found[q]), Limit: int64(b.limit)}
	}
}

// Names of the checks that are not counts.
const (
	checkFormat   = "format"
	checkFeatures = "features"
	checkImports  = "import_kinds"
	checkExports  = "export_names"
	checkStart    = "start"
	checkGrowth   = "table_growth"
)

// Check is one thing that was looked at, for the answer to an upload.
type Check struct {
	Name   string
	OK     bool
	Detail string
}

// checks lists everything that a module has passed.
func (m *meter) checks() []Check {
	list := []Check{
		{checkFormat, true, "well-formed binary, version 1"},
		{checkFeatures, true, "WebAssembly 2.0 without SIMD"},
		{checkImports, true, "functions only"},
		{checkExports, true, "unique, none reserved"},
		{checkStart, true, "no start function"},
		{checkGrowth, true, "no table grows"},
	}
	for q, b := range m.bounds {
		list = append(list, Check{b.name, true, fmt.Sprintf("%d of %d", m.found[q], b.limit)})
	}
	return list
}

// Refusal says which check a module failed. Found and Limit are set for counts, Detail for everything else.
type Refusal struct {
	Check        string
	Found, Limit int64
	Detail       string
}

func (e *Refusal) Error() string {
	if e.Detail != "" {
		return fmt.Sprintf("module refused: %s: %s", e.Check, e.Detail)
	}
	return fmt.Sprintf("module refused: %s: %d is over the limit of %d", e.Check, e.Found, e.Limit)
}
