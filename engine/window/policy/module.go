package policy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Host runs policy modules. Policies run in no other way.
type Host interface {
	// Load checks and compiles a module for a tenant; "" means a built-in one. The error of a module that fails the
	// checks is a *plan.Refusal. Loading the same bytes again is free.
	Load(ctx context.Context, tenant string, wasm []byte) (plan.Policy, error)
	// Manifest reads only a module's manifest.
	Manifest(wasm []byte) (plan.Manifest, error)
	// Loaded reports whether a module is ready to run for a tenant. Modules that were not used for long may be
	// unloaded.
	Loaded(tenant string, digest plan.Digest) bool
	// Refuse unloads a module that was not stored in the end.
	Refuse(tenant string, digest plan.Digest)
	// Run makes one call. It never panics; all failures are reported as the outcome's status.
	Run(ctx context.Context, call plan.Call) plan.Outcome
}

// home returns the tenant in whose space a module is stored. Tenants run only their own modules and built-in ones.
func (svc *Service) home(tenant string, digest plan.Digest) string {
	if svc.registry.isBuiltIn(digest) {
		return records.SystemTenant
	}
	return tenant
}

// find reads a module, or with keysOnly only checks that it exists. It returns nil if there is none. If it finds none
// at first, it looks for versions that other programs with the same store have added.
func (svc *Service) find(ctx context.Context, tenant string, digest plan.Digest, keysOnly bool) (*store.Item, error) {
	key := records.Module.Key(digest)
	rng := store.Range{From: key, To: append(key[:len(key):len(key)], 0), KeysOnly: keysOnly}
	for looked := false; ; looked = true {
		home := svc.home(tenant, digest)
		r, err := svc.db.Store.Read(ctx, home, store.Query{Ranges: []store.Range{rng}})
		if err != nil {
			return nil, err
		}
		if found := r.Ranges[0]; len(found) > 0 {
			return &found[0], nil
		}
		if home == records.SystemTenant || looked {
			return nil, nil
		}
		if err := svc.learnBuiltIns(ctx); err != nil {
			return nil, err
		}
	}
}

// module reads a module's bytes, or returns module_purged.
func (svc *Service) module(ctx context.Context, tenant string, digest plan.Digest) ([]byte, error) {
	found, err := svc.find(ctx, tenant, digest, false)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, modulePurged("", digest)
	}
	if sha256.Sum256(found.Value) != digest {
		return nil, fmt.Errorf("%w: policy module %s", records.ErrDamaged, hexDigest(digest))
	}
	return found.Value, nil
}

// modulePurged returns the error for a module that is no longer stored. of is the name of its version, or "" if
// unknown.
func modulePurged(of string, digest plan.Digest) *fault.Error {
	if of != "" {
		of = " of " + of
	}
	return fault.Errorf(fault.Gone, "module_purged", "the policy module%s, %s, was deleted", of, hexDigest(digest))
}

// of returns the facts about a module, from memory if possible. Its code need not be loaded.
func (svc *Service) of(ctx context.Context, tenant string, digest plan.Digest) (plan.Policy, error) {
	if p, ok := svc.registry.lookUp(tenant, digest); ok {
		return p, nil
	}
	return svc.load(ctx, tenant, digest)
}

// load loads a stored module, so that it can run.
func (svc *Service) load(ctx context.Context, tenant string, digest plan.Digest) (plan.Policy, error) {
	code, err := svc.module(ctx, tenant, digest)
	if err != nil {
		return plan.Policy{}, err
	}
	if svc.registry.isBuiltIn(digest) {
		tenant = ""
	}
	p, err := svc.host.Load(ctx, tenant, code)
	if err == nil {
		svc.registry.learn(tenant, p)
	}
	return p, err
}

// unloadable returns a text for the outcome of a step whose module could not be loaded, and logs the cause.
func (svc *Service) unloadable(tenant string, digest plan.Digest, err error) string {
	svc.db.Log.Error("a policy module cannot be loaded", "tenant", tenant, "module", hexDigest(digest), "error", err)
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known.Detail
	}
	if refusal, ok := errors.AsType[*plan.Refusal](err); ok {
		return refusal.Error()
	}
	return "the module cannot be loaded now"
}

// Call runs a policy. It loads the module first if the host has unloaded it. All failures are reported as the outcome's
// status.
func (svc *Service) Call(ctx context.Context, c plan.Call) (out plan.Outcome) {
	for range 2 { // the host may unload it again between loading and running
		if !svc.host.Loaded(c.Tenant, c.Module) {
			if _, err := svc.load(ctx, c.Tenant, c.Module); err != nil {
				return plan.Outcome{Status: plan.StatusUnavailable, Detail: svc.unloadable(c.Tenant, c.Module, err)}
			}
		}
		if out = svc.host.Run(ctx, c); out.Status != plan.StatusUnavailable ||
			svc.host.Loaded(c.Tenant, c.Module) {
			return out
		}
	}
	return out
}
