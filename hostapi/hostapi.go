// Package hostapi is the sandbox that runs all policies, built-in or uploaded. It admits modules, instruments and
// compiles them, keeps instances of them, and runs one call at a time in each instance. A call depends only on the
// request, the module and its config: after each call the instance's memory is restored. The ABI is mneme/1, documented
// in docs/ABI.md.
//
// A module passes through the files in this order: load.go, instrument.go, admit.go, package compiler, modules.go,
// weight.go, instance.go, pool.go, call.go. limits.go lists the limits; tank.go and memory.go enforce them.
package hostapi

import (
	"context"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
)

// Options of a Host. Compiler or Interpreter must be set.
type Options struct {
	Limits   Limits   // zero means DefaultLimits
	Compiler []string // a program and its first arguments, which start a child that calls compiler.Main
	CacheDir string   // keeps machine code, for this process only; empty means until Close
	// run without compiling: slow, only for comparisons in tests, and not with a running timer
	Interpreter bool
	NewTimer    func(func()) Timer // returns a stopped timer; nil means the system's
	Clock       func() time.Time   // measures how long calls take; nil means the system's
}

// Host runs policies. It is safe for concurrent use.
type Host struct {
	limits   Limits
	newTimer func(func()) Timer
	clock    func() time.Time
	config   wazero.RuntimeConfig
	compiler *compiler.Compiler // nil if the interpreter is used
	compiles *admission.Gate
	calls    *admission.Gate
	modules  *modules
	pool     *pool
	sweeper  Timer
	buffers  buffers
}

// New starts a host without modules. It must be closed.
func New(o Options) (*Host, error) {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.NewTimer == nil {
		o.NewTimer = systemTimer
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	h := &Host{
		limits:   o.Limits,
		newTimer: o.NewTimer,
		clock:    o.Clock,
		compiles: admission.NewGate(o.Limits.Compiles, 1),
		calls:    admission.NewGate(o.Limits.Calls, o.Limits.Calls),
		pool:     newPool(o.Limits.IdleBytes),
		buffers:  buffers{limit: o.Limits.IdleBytes / 4},
	}
	h.calls.Crowd(max(1, o.Limits.Calls-1), max(1, o.Limits.Calls-1))
	h.sweeper = o.NewTimer(h.sweep)
	h.modules = newModules(o.Limits.CodeBytes, h.unload)
	if o.Interpreter {
		h.config = wazero.NewRuntimeConfigInterpreter().WithDebugInfoEnabled(false)
		return h, nil
	}
	var err error
	h.compiler, err = compiler.Open(compiler.Options{
		Dir: o.CacheDir, Command: o.Compiler,
		Time: o.Limits.CompileTime, Memory: int64(o.Limits.CompileMemory), Bytes: int64(o.Limits.DiskBytes),
	})
	if err != nil {
		return nil, err
	}
	h.config = compiler.Config().WithCompilationCache(h.compiler.Cache())
	return h, nil
}

// Close closes the host with all its modules and instances. No call may be running.
func (h *Host) Close(ctx context.Context) error {
	h.sweeper.Stop()
	h.modules.close()
	if h.compiler == nil {
		return nil
	}
	return h.compiler.Close(ctx)
}
