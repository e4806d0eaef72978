package hostapi

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// instance is an instance of a module with its own memory. One goroutine uses it at a time.
type instance struct {
	key      poolKey
	limits   *Limits
	guest    api.Module
	memory   *linearMemory
	globals  []api.MutableGlobal
	cards    api.MutableGlobal // bits of what the guest has written to
	start    *snapshot
	tank     *tank
	entries  [2]entry        // for assemble, and for all other hooks
	ctx      context.Context // passes the instance to the host functions
	stack    [4]uint64       // arguments and result of a call
	requests uint32          // address of the request arena
	plans    uint32          // address of the plan arena
	reasons  reasons
	slot     *slot // of the running call; nil if none is needed
	own      slot  // storage for slot
	usage

	idle         int       // footprint while it is idle
	sweep        int       // the number of the pool's sweeps when it became idle
	newer, older *instance // neighbours among all idle instances
	above, below *instance // neighbours among the idle instances with its key
	shelf        *shelf    // of its key; nil if it was never idle
}

// usage is the state of one call. It is reset for each call.
type usage struct {
	request  *plan.Request // nil while the instance starts
	texts    plan.Texts
	random   uint64
	function string // the host function entered last
	last     fetched

	hostCalls, pulled, written int
	textRoom                   int               // the most that pulled may become
	argued                     map[[2]int32]bool // by record and call: the arguments for which textRoom has room
	dirty                      dirty             // what the host has written to, or may have

	log     []plan.LogLine
	clean   bool   // the call ended in time
	failure string // the author's message
	printed []byte // what the language runtime wrote to stderr
	ended   *ending
}

// ending says how a call failed.
type ending struct {
	status plan.Status
	detail string
}

func (e *ending) Error() string { return fmt.Sprintf("%s: %s", e.status, e.detail) }

func endingf(status plan.Status, format string, args ...any) *ending {
	return &ending{status, fmt.Sprintf(format, args...)}
}

// in adds the function in which the call ended.
func (e *ending) in(function string) *ending { return &ending{e.status, function + ": " + e.detail} }

// stop ends the running call from inside a host function. It unwinds the guest's stack and does not return.
func (in *instance) stop(status plan.Status, format string, args ...any) {
	in.stopAs(endingf(status, format, args...))
}

func (in *instance) stopAs(e *ending) {
	in.ended = e.in(in.function)
	panic(in.ended)
}

// spend charges the guest for work that the host does for it.
func (in *instance) spend(n int) {
	if ended := in.tank.charge(n); ended != nil {
		in.stopAs(ended)
	}
}

// instanceKey is the context key of the instance in a host call.
type instanceKey struct{}

// instanceContext is a context with an instance. Unlike context.WithValue, it needs one allocation per instance, not
// per call.
type instanceContext struct {
	context.Context
	in *instance
}

func (c *instanceContext) Value(key any) any {
	if _, ok := key.(instanceKey); ok {
		return c.in
	}
	return c.Context.Value(key)
}

func instanceOf(ctx context.Context) *instance { return ctx.Value(instanceKey{}).(*instance) }

// instantiate creates an instance and starts it: memory and data, _initialize, then the arenas. On failure it returns a
// status and a text like that of a call, and leaves nothing behind.
func (h *Host) instantiate(ctx context.Context, key poolKey) (_ *instance, failed *ending) {
	in := &instance{
		key: key, limits: &h.limits, reasons: reasons{},
		memory: &linearMemory{most: key.module.memory, limit: uint64(h.limits.MemoryBytes), buffers: &h.buffers},
		usage:  usage{random: startSeed, textRoom: h.limits.TextBytes},
		slot:   slotOf(ctx),
	}
	in.memory.rest = in.rest
	in.memory.charge = func(fuel int) { in.tank.take(fuel) }
	in.ctx = &instanceContext{context.Background(), in}
	allocated := experimental.WithMemoryAllocator(in.ctx, experimental.MemoryAllocatorFunc(
		func(_, _ uint64) experimental.LinearMemory { return in.memory }))
	guest, err := key.module.runtime.InstantiateModule(allocated, key.module.code.Module,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, endingf(plan.StatusUnavailable, "the module cannot be instantiated: %v", err)
	}
	in.guest = guest
	defer func() {
		if failed != nil {
			in.close(ctx)
		}
	}()
	if in.tank, err = newTank(guest, h); err != nil {
		return nil, endingf(plan.StatusUnavailable, "%v", err)
	}
	if in.cards, _ = guest.ExportedGlobal(wasm.CardsExport).(api.MutableGlobal); in.cards == nil {
		return nil, endingf(plan.StatusUnavailable, "the module has no global %s", wasm.CardsExport)
	}
	if failed := in.initialize(); failed != nil {
		return nil, failed
	}
	for _, name := range key.module.globals {
		global, ok := guest.ExportedGlobal(name).(api.MutableGlobal)
		if !ok {
			return nil, endingf(plan.StatusUnavailable, "global %s cannot be restored", name)
		}
		in.globals = append(in.globals, global)
	}
	in.export()
	if failed := in.matchSnapshot(); failed != nil {
		return nil, failed
	}
	return in, nil
}

// initialize runs _initialize and takes the arenas, with the fuel of a start.
func (in *instance) initialize() *ending {
	in.tank.fill(in.limits.StartFuel, in.limits.Depth, in.limits.StartTime, in.tank.clock())
	defer in.tank.end()
	if start := in.guest.ExportedFunction(exportInitialize); start != nil {
		if _, err := start.Call(in.ctx); err != nil {
			return in.explain(exportInitialize, err)
		}
	}
	return in.takeArenas()
}

// takeArenas requests the two areas from the guest and checks them.
func (in *instance) takeArenas() *ending {
	arena := in.guest.ExportedFunction(exportArena)
	sizes := [...]uint32{arenaRequest: in.key.size.request(), arenaPlan: in.key.size.plan()}
	var at [len(sizes)]uint32
	for kind, size := range sizes {
		result, err := arena.Call(in.ctx, uint64(kind), uint64(size))
		if err != nil {
			return in.explain(exportArena, err)
		}
		at[kind] = api.DecodeU32(result[0])
		end := uint64(at[kind]) + uint64(size)
		switch {
		case at[kind] == 0:
			return endingf(plan.StatusMemory, "mneme_arena refused %d bytes for kind %d", size, kind)
		case at[kind]%8 != 0:
			return endingf(plan.StatusTrap, "mneme_arena: address %d of kind %d is not a multiple of 8", at[kind], kind)
		case end > uint64(len(in.memory.bytes)):
			return endingf(plan.StatusTrap, "mneme_arena: %d bytes at %d for kind %d pass the end of memory at %d",
				size, at[kind], kind, len(in.memory.bytes))
		}
	}
	first, second := at[arenaRequest], at[arenaPlan]
	if first < second+sizes[arenaPlan] && second < first+sizes[arenaRequest] {
		return endingf(plan.StatusTrap, "mneme_arena: the areas at %d and %d overlap", first, second)
	}
	in.requests, in.plans = first, second
	return nil
}

// matchSnapshot takes the snapshot of the first started instance, and compares every later one with it: a policy whose
// instances start differently would not always return the same plan for the same call.
func (in *instance) matchSnapshot() *ending {
	globals := make([]uint64, len(in.globals))
	for i, g := range in.globals {
		globals[i] = g.Get()
	}
	m := in.key.module
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started[in.key.size] == nil {
		m.started[in.key.size] = takeSnapshot(in.memory.bytes, globals)
	}
	in.start = m.started[in.key.size]
	if !in.start.matches(in.memory.bytes, globals) {
		return endingf(plan.StatusUnavailable, "two instances of the module start differently")
	}
	return nil
}

// restore resets the instance to its snapshot. If it returns false, that was impossible, and the instance must be
// closed.
func (in *instance) restore() bool {
	changed := in.changed()
	in.usage, in.slot, in.own = usage{}, nil, slot{} // so that nothing of the call or of its request stays in memory
	in.trimStack()
	if !in.key.module.restorable || !in.start.restore(in.memory.bytes, changed) {
		return false
	}
	for i, g := range in.globals {
		g.Set(in.start.globals[i])
	}
	return true
}

// changed returns what the call may have changed of the memory: what the guest and the host have marked.
func (in *instance) changed() dirty {
	d := in.dirty
	d.cards |= in.cards.Get()
	if !in.key.module.marks {
		d.cards = allCards
	}
	return d
}

func (in *instance) close(ctx context.Context) {
	if in.tank != nil {
		in.tank.close()
	}
	// An error does not matter: the instance holds nothing but memory.
	_ = in.guest.Close(ctx)
}

// explain converts an error of a guest function to how the call ended.
func (in *instance) explain(function string, err error) *ending {
	if in.ended != nil {
		return in.withPrinted(in.ended)
	}
	if ended := in.tank.ranDry(); ended != nil {
		return ended.in(function)
	}
	fault, ofHost := errors.AsType[runtime.Error](err)
	words, _, _ := strings.Cut(err.Error(), "\n")
	words = strings.TrimPrefix(words, "wasm error: ")
	switch {
	case ofHost:
		return endingf(plan.StatusUnavailable, "the host failed in %s: %v", in.function, fault)
	case words == "stack overflow":
		return endingf(plan.StatusDepth, "%s: calls are nested too deep", function)
	case in.memory.refused:
		return in.withPrinted(endingf(plan.StatusMemory, "%s: %s, after memory was refused beyond %d bytes",
			function, words, in.memory.limit))
	}
	return in.withPrinted(endingf(plan.StatusTrap, "%s: %s", function, words))
}

// withPrinted adds what the guest's language runtime printed, which usually says why it trapped.
func (in *instance) withPrinted(e *ending) *ending {
	if text := strings.TrimSpace(strings.ToValidUTF8(string(in.printed), string(utf8.RuneError))); text != "" {
		return &ending{e.status, e.detail + ": " + text}
	}
	return e
}
