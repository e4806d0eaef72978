package hostapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// module is a loaded module as the host keeps it. It never changes, but for the snapshots of its first instances.
type module struct {
	plan.Policy
	compiled   wazero.CompiledModule
	globals    []string // export names of all mutable globals
	restorable bool     // memory and globals are all the state that it has

	mu      sync.Mutex
	started [sizeCount]*snapshot
}

// Load admits, instruments and compiles a module and starts it once in each size, so that Run can trust it. The same
// bytes again answer what the first time did. A module that is refused leaves nothing behind; the error is a *Refusal.
func (h *Host) Load(ctx context.Context, code []byte) (plan.Policy, error) {
	digest := plan.Digest(sha256.Sum256(code))
	if m := h.module(digest); m != nil {
		return m.Policy, nil
	}
	select {
	case h.compile <- struct{}{}:
		defer func() { <-h.compile }()
	case <-ctx.Done():
		return plan.Policy{}, ctx.Err()
	}
	if m := h.module(digest); m != nil {
		return m.Policy, nil
	}
	m, err := h.admit(ctx, digest, code)
	if err != nil {
		return plan.Policy{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.modules[digest] = m
	return m.Policy, nil
}

// admit takes a module through all checks.
func (h *Host) admit(ctx context.Context, digest plan.Digest, code []byte) (*module, error) {
	prepared, err := h.prepare(code)
	if err != nil {
		return nil, err
	}
	info := &prepared.Info
	manifest, err := parseManifest(info.Manifest)
	if err != nil {
		return nil, refuse(checkManifest, "custom section %s: %v", manifestSection, err)
	}
	if refusal := checkImports(info.Imports); refusal != nil {
		return nil, refusal
	}
	if refusal := checkExports(info.Exports); refusal != nil {
		return nil, refusal
	}
	m := &module{
		Policy:     plan.Policy{Digest: digest, Manifest: manifest, Size: len(code)},
		restorable: !info.Traits.FreshInstance(),
	}
	for _, g := range info.Globals {
		m.globals = append(m.globals, g.Export)
	}
	if m.compiled, err = h.compileModule(ctx, prepared.Module); err != nil {
		return nil, err
	}
	if refusal := h.tryOut(ctx, m); refusal != nil {
		_ = m.compiled.Close(ctx) // it was never used
		return nil, refusal
	}
	for _, c := range prepared.Checks {
		m.Checks = append(m.Checks, plan.Check(c))
	}
	m.Checks = append(m.Checks,
		plan.Check{Name: checkManifest, OK: true, Detail: "abi " + manifest.ABI},
		plan.Check{Name: checkImported, OK: true, Detail: fmt.Sprintf("%d, all offered", len(info.Imports))},
		plan.Check{Name: checkExported, OK: true, Detail: "all that the ABI asks"},
		plan.Check{Name: checkCompile, OK: true},
		plan.Check{Name: checkStart, OK: true, Detail: "in both arena sizes"},
	)
	return m, nil
}

// compileModule compiles what admission let through. A panic of the compiler on a stranger's module ends as a refusal.
func (h *Host) compileModule(ctx context.Context, code []byte) (_ wazero.CompiledModule, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = refuse(checkCompile, "the compiler failed: %v", r)
		}
	}()
	compiled, err := h.runtime.CompileModule(ctx, code)
	if err != nil {
		return nil, refuse(checkCompile, "%v", err)
	}
	return compiled, nil
}

// tryOut starts the module once in each size and asks its version.
func (h *Host) tryOut(ctx context.Context, m *module) *Refusal {
	for size := range sizeCount {
		in, ended := h.instantiate(ctx, poolKey{module: m, size: size})
		if ended != nil {
			return refuse(checkStart, "%v", ended)
		}
		ended = in.checkVersion()
		in.close(ctx)
		if ended != nil {
			return refuse(checkStart, "%v", ended)
		}
	}
	return nil
}

// checkVersion asks the guest for the ABI that it speaks.
func (in *instance) checkVersion() *ending {
	result, err := in.guest.ExportedFunction(exportABI).Call(in.ctx)
	if err != nil {
		return in.explain(exportABI, err)
	}
	if err := checkVersion(api.DecodeU32(result[0])); err != nil {
		return endingf(plan.StatusTrap, "%s: %v", exportABI, err)
	}
	return nil
}
