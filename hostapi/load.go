package hostapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// Load admits, instruments and compiles a module and starts it once in each arena size; after that, Run can call it.
// Loading the same bytes again is cheap while the module is in memory; modules that were not used for long are
// unloaded. The error is a *plan.Refusal if the module is at fault, and a refused module leaves nothing behind.
//
// Tenants share only the modules of tenant "", which come with Mneme: the duration of an upload must not reveal whether
// another tenant has the same bytes.
//
// The work counts against the tenant: compiling takes one of Limits.Compiles, and everything else one of Limits.Calls.
func (h *Host) Load(ctx context.Context, tenant string, code []byte) (plan.Policy, error) {
	digest := plan.Digest(sha256.Sum256(code))
	if m := h.modules.use(tenant, digest); m != nil {
		defer h.modules.done(m)
		return m.Policy, nil
	}
	m := &module{Policy: plan.Policy{Digest: digest, Size: len(code)}, tenant: tenant}
	var prepared *wasm.Prepared
	err := h.share(ctx, tenant, func(context.Context) (err error) {
		prepared, err = h.admit(m, code)
		return err
	})
	if err != nil {
		return plan.Policy{}, err
	}
	if m.runtime, err = h.newRuntime(ctx, prepared.Info.Imports); err == nil {
		err = h.compile(ctx, m, prepared.Module)
	}
	if err == nil {
		err = h.share(ctx, tenant, func(ctx context.Context) error { return h.tryOut(ctx, m) })
	}
	if err != nil {
		_, m.refused = errors.AsType[*plan.Refusal](err)
		h.unload(m)
		return plan.Policy{}, err
	}
	m.weigh(prepared)
	h.modules.add(m)
	return m.Policy, nil
}

// Refuse unloads a module of a tenant that failed a check after it was loaded, and removes its machine code.
func (h *Host) Refuse(tenant string, digest plan.Digest) { h.modules.refuse(moduleKey{tenant, digest}) }

// share does work for a tenant in one of the slots for calls.
func (h *Host) share(ctx context.Context, tenant string, work func(context.Context) error) error {
	slot, err := h.enter(ctx, tenant)
	if err != nil {
		return err
	}
	defer slot.leave()
	return work(slot.within(ctx))
}

// Loaded reports whether a module is in memory, so that Run can call it for a tenant without Load.
func (h *Host) Loaded(tenant string, digest plan.Digest) bool { return h.modules.has(tenant, digest) }

// admit runs all checks of a module that come before compiling.
func (h *Host) admit(m *module, code []byte) (*wasm.Prepared, error) {
	prepared, err := h.prepare(code)
	if err != nil {
		return nil, err
	}
	info := &prepared.Info
	if len(info.Manifest) == 0 {
		return nil, refuse(checkManifest, "there is no manifest: custom section %s, which mneme-manifest adds",
			manifestSection)
	}
	if refusal := limitManifest(info.Manifest); refusal != nil {
		return nil, refusal
	}
	if m.Manifest, err = parseManifest(info.Manifest); err != nil {
		return nil, refuse(checkManifest, "custom section %s: %v", manifestSection, err)
	}
	version, _ := parseVersion(m.Manifest.ABI)
	m.minor = version & minorMask
	if refusal := checkImports(info.Imports); refusal != nil {
		return nil, refusal
	}
	if refusal := checkExports(info.Exports, m.Manifest.Hooks); refusal != nil {
		return nil, refusal
	}
	m.restorable, m.marks = !info.Traits.FreshInstance(), info.Marks
	m.memory = uint64(info.MemoryMax) * pageBytes
	for _, g := range info.Globals {
		m.globals = append(m.globals, g.Export)
	}
	for _, c := range prepared.Checks {
		m.Checks = append(m.Checks, plan.Check(c))
	}
	m.Checks = append(m.Checks,
		plan.Check{Name: checkManifest, OK: true, Detail: "abi " + m.Manifest.ABI},
		plan.Check{Name: checkImported, OK: true, Detail: fmt.Sprintf("%d, all offered", len(info.Imports))},
		plan.Check{Name: checkExported, OK: true, Detail: "all that the ABI asks"},
	)
	prepared.Module = ownedBy(m.tenant, prepared.Module)
	return prepared, nil
}

// ownedBy adds a custom section to a tenant's module, so that its machine code is made and kept for this tenant only.
func ownedBy(tenant string, code []byte) []byte {
	if tenant == "" {
		return code
	}
	const name = "mneme:tenant"
	sum := sha256.Sum256([]byte(tenant))
	code = append(code, 0, byte(1+len(name)+len(sum)), byte(len(name)))
	return append(append(code, name...), sum[:]...)
}

// compile sets the machine code of a module, either from the cache or newly made.
func (h *Host) compile(ctx context.Context, m *module, code []byte) (err error) {
	if h.compiler == nil {
		m.code, err = interpret(ctx, m.runtime, code)
		return err
	}
	if m.code, err = h.cached(ctx, m, code); m.code != nil || err != nil {
		return err
	}
	if err := h.make(ctx, m.tenant, code); err != nil {
		return err
	}
	if m.code, err = h.cached(ctx, m, code); m.code == nil && err == nil {
		err = refuse(compiler.CheckCompile, "its machine code was lost")
	}
	return err
}

// interpret prepares a module for the interpreter. This is fast, so it needs no limits.
func interpret(ctx context.Context, r wazero.Runtime, code []byte) (*compiler.Code, error) {
	m, err := r.CompileModule(ctx, code)
	if err != nil {
		return nil, refuse(compiler.CheckCompile, "%v", err)
	}
	return &compiler.Code{Module: m}, nil
}

// make compiles in a child process, unless another call did so while this tenant waited for its turn.
func (h *Host) make(ctx context.Context, tenant string, code []byte) error {
	if err := h.compiles.Enter(ctx, tenant); err != nil {
		return err
	}
	defer h.compiles.Leave(tenant)
	if h.compiler.Has(code) {
		return nil
	}
	return h.compiler.Compile(ctx, code)
}

// cached loads machine code that was made before; nil if there is none.
func (h *Host) cached(ctx context.Context, m *module, code []byte) (loaded *compiler.Code, err error) {
	err = h.share(ctx, m.tenant, func(ctx context.Context) (err error) {
		loaded, err = h.compiler.Load(ctx, m.runtime, code)
		return err
	})
	return loaded, err
}

// tryOut starts the module once in each size and asks for its version.
func (h *Host) tryOut(ctx context.Context, m *module) error {
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
	m.Checks = append(m.Checks,
		plan.Check{Name: compiler.CheckCompile, OK: true},
		plan.Check{Name: checkStart, OK: true, Detail: "in both arena sizes"},
	)
	return nil
}

// checkVersion asks the guest for its ABI version.
func (in *instance) checkVersion() *ending {
	in.tank.fill(in.limits.StartFuel, in.limits.Depth, in.limits.StartTime, in.tank.clock())
	defer in.tank.end()
	result, err := in.guest.ExportedFunction(exportABI).Call(in.ctx)
	if err != nil {
		return in.explain(exportABI, err)
	}
	if err := checkVersion(api.DecodeU32(result[0])); err != nil {
		return endingf(plan.StatusTrap, "%s: %v", exportABI, err)
	}
	return nil
}
