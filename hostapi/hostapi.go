// Package hostapi is the sandbox: the one door that every policy comes through. It admits modules, instruments and
// compiles them, keeps instances of them, and runs one call at a time in each, so that a call is a function of
// the request, the module and its config alone. It speaks the ABI mneme/1, which docs/ABI.md prints.
//
// A module passes through the files in this order: compile.go, instrument.go, admit.go, instance.go, pool.go, call.go.
package hostapi

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/tetratelabs/wazero"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Limits bounds what a policy may take from its host.
type Limits struct {
	MemoryBytes   int // linear memory of one instance
	StartFuel     int // starting an instance: _initialize and mneme_arena
	Fuel          int // one call
	FuelPerRecord int // one call, besides, for each record of the request
	Depth         int // nested calls
	HostCalls     int // of one call, all functions together
	TextBytes     int // text copied, searched or tokenised for one call
	LogBytes      int // log lines and author's message of one call
	InsertedBytes int // texts in one plan
}

// DefaultLimits leave real policies ample room; see docs/ABI.md.
func DefaultLimits() Limits {
	return Limits{
		MemoryBytes:   16 << 20,
		StartFuel:     100_000_000,
		Fuel:          2_000_000,
		FuelPerRecord: 10_000,
		Depth:         500,
		HostCalls:     10_000,
		TextBytes:     1 << 20,
		LogBytes:      4 << 10,
		InsertedBytes: 16 << 10,
	}
}

// Options of a Host. The zero value is ready to use.
type Options struct {
	Limits      Limits // zero: DefaultLimits
	Concurrency int    // calls that run at once; 0: GOMAXPROCS, since guests compute and never wait
	IdleBytes   int    // memory that idle instances may hold; 0: 256 MiB
	CacheDir    string // machine code compiled earlier, for this server's eyes only; empty: none is kept
	Interpreter bool   // run without compiling: slow, the oracle of tests
}

const defaultIdleBytes = 256 << 20

// Host runs policies. It is safe for concurrent use.
type Host struct {
	limits  Limits
	runtime wazero.Runtime
	cache   wazero.CompilationCache // nil: none
	pool    *pool
	slots   chan struct{} // one per running call
	compile chan struct{} // one module is compiled at a time

	mu      sync.RWMutex
	modules map[plan.Digest]*module
}

// New starts a host without modules. Close it.
func New(ctx context.Context, o Options) (*Host, error) {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.Concurrency == 0 {
		o.Concurrency = runtime.GOMAXPROCS(0)
	}
	if o.IdleBytes == 0 {
		o.IdleBytes = defaultIdleBytes
	}
	config := wazero.NewRuntimeConfigCompiler()
	if o.Interpreter {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	h := &Host{
		limits:  o.Limits,
		pool:    newPool(o.IdleBytes),
		slots:   make(chan struct{}, o.Concurrency),
		compile: make(chan struct{}, 1),
		modules: map[plan.Digest]*module{},
	}
	if o.CacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(o.CacheDir)
		if err != nil {
			return nil, err
		}
		h.cache, config = cache, config.WithCompilationCache(cache)
	}
	h.runtime = wazero.NewRuntimeWithConfig(ctx, config.WithDebugInfoEnabled(false))
	for name, functions := range map[string][]hostFunction{hostModule: mnemeFunctions(), wasiModule: wasiFunctions()} {
		if err := instantiateHost(ctx, h.runtime, name, functions); err != nil {
			return nil, errors.Join(err, h.Close(ctx))
		}
	}
	return h, nil
}

// Close ends the host with all its modules and instances. No call may be running.
func (h *Host) Close(ctx context.Context) error {
	err := h.runtime.Close(ctx)
	if h.cache != nil {
		err = errors.Join(err, h.cache.Close(ctx))
	}
	return err
}

// module finds a loaded module; nil where there is none.
func (h *Host) module(d plan.Digest) *module {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.modules[d]
}
