package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// registry knows the built-in policies by name, and of every policy what was learned when its module was loaded.
type registry struct {
	versions map[string][]plan.Digest // of built-ins; version n is at n-1
	builtIn  map[plan.Digest]bool

	mu    sync.RWMutex
	known map[plan.Digest]plan.Policy
}

// maxKnown bounds what is remembered of loaded modules.
const maxKnown = 1024

func (r *registry) lookUp(d plan.Digest) (plan.Policy, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, ok := r.known[d]
	return p, ok
}

func (r *registry) learn(p plan.Policy) {
	p.Manifest.Tests = nil // they run once, at upload, and may be long
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxKnown {
		clear(r.known)
	}
	r.known[p.Digest] = p
}

// builtInRecord lists a built-in's versions, oldest first. Old modules stay in the store for replays.
type builtInRecord struct {
	Digests [][]byte `json:"digests"`
}

// installBuiltIns loads the built-in modules and keeps their bytes in the store, each new digest as a new version.
func (e *Engine) installBuiltIns(ctx context.Context, builtIns []BuiltIn) (*registry, error) {
	reg := &registry{versions: map[string][]plan.Digest{}, builtIn: map[plan.Digest]bool{},
		known: map[plan.Digest]plan.Policy{}}
	system := Caller{Tenant: systemTenant, Role: RoleRoot}
	for _, b := range builtIns {
		policy, err := e.host.Load(ctx, "", b.Wasm)
		if err != nil {
			return nil, fmt.Errorf("loading built-in policy %s: %w", b.Name, err)
		}
		rec, err := update(ctx, e, system, Once{}, func(t *tx) (builtInRecord, error) {
			var rec builtInRecord
			got, err := t.get(builtInKey(b.Name))
			if err != nil {
				return rec, err
			}
			if got[0].Value != nil {
				if err := json.Unmarshal(got[0].Value, &rec); err != nil {
					return rec, err
				}
			}
			if n := len(rec.Digests); n > 0 && bytes.Equal(rec.Digests[n-1], policy.Digest[:]) {
				return rec, nil
			}
			rec.Digests = append(rec.Digests, policy.Digest[:])
			t.putModule(policy.Digest, b.Wasm)
			return rec, t.putJSON(builtInKey(b.Name), rec)
		})
		if err != nil {
			return nil, err
		}
		reg.learn(policy)
		for _, d := range rec.Digests {
			reg.versions[b.Name] = append(reg.versions[b.Name], plan.Digest(d))
			reg.builtIn[plan.Digest(d)] = true
		}
	}
	return reg, nil
}

func (t *tx) putModule(digest plan.Digest, code []byte) {
	for part := 0; part == 0 || len(code) > 0; part++ {
		n := min(len(code), maxBodyPart)
		t.put(modulePartKey(digest, part), code[:n])
		code = code[n:]
	}
}

func (t *tx) deleteModule(digest plan.Digest, size int) {
	for part := range bodyParts(uint32(size)) {
		t.delete(modulePartKey(digest, part))
	}
}

// home is the tenant in whose space a module is kept: nobody runs what is neither built in nor its own.
func (e *Engine) home(tenant string, digest plan.Digest) string {
	if e.policies.builtIn[digest] {
		return systemTenant
	}
	return tenant
}

// module fetches a module's bytes.
func (e *Engine) module(ctx context.Context, tenant string, digest plan.Digest) ([]byte, error) {
	r, err := e.store.Read(ctx, e.home(tenant, digest), store.Query{Ranges: []store.Range{prefixRange(moduleKey(digest))}})
	if err != nil {
		return nil, err
	}
	if len(r.Ranges[0]) == 0 {
		return nil, modulePurged("", digest)
	}
	code := joinBody(r.Ranges[0])
	if sha256.Sum256(code) != digest {
		return nil, fmt.Errorf("%w: policy module %s", errDamaged, hexDigest(digest))
	}
	return code, nil
}

func modulePurged(name string, digest plan.Digest) *Error {
	if name != "" {
		name = " of " + name
	}
	return errorf(Gone, "module_purged", "the policy module%s, %s, was deleted", name, hexDigest(digest))
}

// stored tells whether a module is still kept for a tenant, whatever is in memory.
func (e *Engine) stored(ctx context.Context, tenant string, digest plan.Digest) (bool, error) {
	first, err := e.firstKey(ctx, e.home(tenant, digest), prefixRange(moduleKey(digest)))
	return first != nil, err
}

// policyOf tells what a module says of itself. It does not say that its compiled code is in memory.
func (e *Engine) policyOf(ctx context.Context, tenant string, digest plan.Digest) (plan.Policy, error) {
	if p, ok := e.policies.lookUp(digest); ok {
		return p, nil
	}
	return e.load(ctx, tenant, digest)
}

// load makes a stored module ready to run.
func (e *Engine) load(ctx context.Context, tenant string, digest plan.Digest) (plan.Policy, error) {
	code, err := e.module(ctx, tenant, digest)
	if err != nil {
		return plan.Policy{}, err
	}
	if e.policies.builtIn[digest] {
		tenant = ""
	}
	p, err := e.host.Load(ctx, tenant, code)
	if err == nil {
		e.policies.learn(p)
	}
	return p, err
}

// unloadable words, for the outcome of a step, why its module could not be made ready.
func (e *Engine) unloadable(tenant string, digest plan.Digest, err error) string {
	e.log.Error("a policy module cannot be loaded", "tenant", tenant, "module", hexDigest(digest), "error", err)
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Detail
	}
	if refusal, ok := errors.AsType[*plan.Refusal](err); ok {
		return refusal.Error()
	}
	return "the module cannot be loaded now"
}

// call runs a policy, loading its module where compiled code had to make room for others.
func (e *Engine) call(ctx context.Context, c plan.Call) (out plan.Outcome) {
	for range 2 { // it may have to make room again in between
		if !e.host.Loaded(c.Module) {
			if _, err := e.load(ctx, c.Tenant, c.Module); err != nil {
				return plan.Outcome{Status: plan.StatusUnavailable, Detail: e.unloadable(c.Tenant, c.Module, err)}
			}
		}
		if out = e.host.Run(ctx, c); out.Status != plan.StatusUnavailable || e.host.Loaded(c.Module) {
			return out
		}
	}
	return out
}
