package hostapi

import (
	"reflect"

	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// Memory used by the engine's parts in bytes, as measured by TestWeights.
const (
	runtimeWeight  = 32 << 10 // a runtime with its host modules
	functionWeight = 320      // a function: its entry in the parsed module, its definition and where its code begins
	typeWeight     = 320
	segmentWeight  = 80 // a data segment
	exportWeight   = 160
	entryWeight    = 16 // an entry of an element segment

	instanceWeight = 8 << 10 // an instance, without its stack
	globalWeight   = 112     // a global of an instance
	tableWeight    = 8       // an entry of an instance's table
	referredWeight = 64      // an entry of an element segment in an instance, with the function that it refers to
)

// weigh estimates the memory that a module uses (what was parsed and compiled, its snapshots and its manifest) and the
// memory that an instance of it uses besides linear memory and stack.
func (m *module) weigh(p *wasm.Prepared) {
	n := &p.Info.Sizes
	m.weight = runtimeWeight + int(m.code.Size) + 2*len(p.Module) + m.Policy.Weight() +
		functionWeight*(p.Info.Functions+n.Imports) + typeWeight*n.Types + segmentWeight*n.DataSegments +
		exportWeight*(n.Exports+n.Globals+n.Elements) + entryWeight*n.ElementEntries
	for _, s := range m.started {
		m.weight += s.weight()
	}
	m.instance = instanceWeight + globalWeight*n.Globals + tableWeight*n.TableEntries +
		referredWeight*n.ElementEntries + 24*(n.DataSegments+n.Elements) + 48*n.Imports
}

// footprint returns the memory that an idle instance uses, in bytes.
func (in *instance) footprint() int {
	return cap(in.memory.bytes) + in.key.module.instance + in.stacks()
}

// keptStack is the size of the largest call stack, in bytes, that an idle instance keeps. A stack starts with 10 KiB,
// grows by doubling up to 50 MB, and never shrinks.
const keptStack = 64 << 10

// trimStack gives an instance a new stack if a call has grown its current one.
func (in *instance) trimStack() {
	if in.stacks() > keptStack {
		in.export()
	}
}

// entry is a function that calls use, with its own stack.
type entry struct {
	api.Function
	name  string
	stack callStack
}

// export gets the functions that calls use.
func (in *instance) export() {
	in.entries = [2]entry{}
	for _, h := range plan.Hooks() {
		e := in.entry(h)
		if e.Function != nil || !in.key.module.Has(h) {
			continue
		}
		e.name = exportPlan
		if h.Assembles() {
			e.name = exportAssemble
		}
		e.Function = in.guest.ExportedFunction(e.name)
		e.stack = stackOf(e.Function)
	}
}

// entry returns the function for a hook. Its Function is nil if the module does not have the hook.
func (in *instance) entry(h plan.Hook) *entry {
	if h.Assembles() {
		return &in.entries[0]
	}
	return &in.entries[1]
}

// stacks returns the size of the call stacks, in bytes.
func (in *instance) stacks() int { return in.entries[0].stack.bytes() + in.entries[1].stack.bytes() }

// callStack is the stack on which a function's calls run. The zero callStack belongs to an engine that has none.
type callStack struct{ of reflect.Value }

// stackOf finds the stack of a function. wazero does not expose it, so it is read from the engine's structure;
// TestStackIsSeen fails if a new version of wazero has a different structure.
func stackOf(f api.Function) callStack {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer {
		return callStack{}
	}
	stack := v.Elem().FieldByName("stack")
	if stack.Kind() != reflect.Slice || stack.Type().Elem().Kind() != reflect.Uint8 {
		return callStack{}
	}
	return callStack{stack}
}

// bytes returns the current size of the stack.
func (s callStack) bytes() int {
	if !s.of.IsValid() {
		return 0
	}
	return s.of.Cap()
}
