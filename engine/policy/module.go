package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// registry knows the built-in policies by name, and of every policy what was learned when its module was loaded.
type registry struct {
	shipped map[string]int // which version of each built-in this program comes with: what its bare name means here

	mu       sync.RWMutex
	versions map[string][]plan.Digest // of built-ins, those of other programs over the store too; version n is at n-1
	builtIn  map[plan.Digest]bool
	known    map[plan.Digest]plan.Policy
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

// IsBuiltIn tells whether a name is that of a policy that this program comes with.
func (svc *Service) IsBuiltIn(name string) bool { return svc.registry.shipped[name] > 0 }

// isBuiltInModule tells whether a module came with this program, or with another one over the store that is known of.
func (r *registry) isBuiltInModule(d plan.Digest) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.builtIn[d]
}

// list gives the versions of a built-in that are known of; version n is at n-1.
func (r *registry) list(name string) []plan.Digest {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.versions[name]
}

// learnVersions takes in what the store says of a built-in. Versions only ever come to it.
func (r *registry) learnVersions(name string, rec builtInRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(rec.Digests) <= len(r.versions[name]) {
		return
	}
	all := make([]plan.Digest, len(rec.Digests))
	for i, d := range rec.Digests {
		all[i] = plan.Digest(d)
		r.builtIn[all[i]] = true
	}
	r.versions[name] = all
}

// builtInRecord lists a built-in's versions, in the order in which they came. Modules stay in the store for replays.
type builtInRecord struct {
	Digests [][]byte `json:"digests"`
}

// version is the number that a digest has; 0: none.
func (b builtInRecord) version(d plan.Digest) int {
	return 1 + slices.IndexFunc(b.Digests, func(known []byte) bool { return bytes.Equal(known, d[:]) })
}

// installBuiltIns loads the built-in modules and keeps their bytes in the store, each digest that was never there as a
// new version. An older program that starts again finds its own, however many came after it.
func (svc *Service) installBuiltIns(ctx context.Context, builtIns []BuiltIn) error {
	reg := &registry{shipped: map[string]int{}, versions: map[string][]plan.Digest{}, builtIn: map[plan.Digest]bool{},
		known: map[plan.Digest]plan.Policy{}}
	system := access.Caller{Tenant: records.SystemTenant, Role: access.RoleRoot}
	for _, b := range builtIns {
		policy, err := svc.host.Load(ctx, "", b.Wasm)
		if err != nil {
			return fmt.Errorf("loading built-in policy %s: %w", b.Name, err)
		}
		rec, err := records.Update(ctx, svc.db, system, access.Once{}, func(t *records.Tx) (builtInRecord, error) {
			var rec builtInRecord
			got, err := t.Get(records.BuiltIn.Key(b.Name))
			if err != nil {
				return rec, err
			}
			if got[0].Value != nil {
				if err := json.Unmarshal(got[0].Value, &rec); err != nil {
					return rec, err
				}
			}
			if rec.version(policy.Digest) > 0 {
				return rec, nil
			}
			rec.Digests = append(rec.Digests, policy.Digest[:])
			t.Put(records.Module.Key(policy.Digest), b.Wasm)
			return rec, t.PutJSON(records.BuiltIn.Key(b.Name), rec)
		})
		if err != nil {
			return err
		}
		reg.learn(policy)
		reg.learnVersions(b.Name, rec)
		reg.shipped[b.Name] = rec.version(policy.Digest)
	}
	svc.registry = reg
	return nil
}

// learnBuiltIns looks for versions that other programs over the store have brought since.
func (svc *Service) learnBuiltIns(ctx context.Context) error {
	all := records.BuiltIn.All()
	r, err := svc.db.Store.Read(ctx, records.SystemTenant, store.Query{Ranges: []store.Range{all}})
	if err != nil {
		return err
	}
	for _, it := range r.Ranges[0] {
		var rec builtInRecord
		if it.Damaged || json.Unmarshal(it.Value, &rec) != nil {
			continue // what this program comes with it knows already
		}
		svc.registry.learnVersions(string(it.Key[2:len(it.Key)-1]), rec)
	}
	return nil
}

// builtIn gives the module of a version of a built-in; the zero digest where there is no such version.
func (svc *Service) builtIn(ctx context.Context, name string, version int) (plan.Digest, error) {
	if version > len(svc.registry.list(name)) {
		if err := svc.learnBuiltIns(ctx); err != nil {
			return plan.Digest{}, err
		}
	}
	if all := svc.registry.list(name); version >= 1 && version <= len(all) {
		return all[version-1], nil
	}
	return plan.Digest{}, nil
}

// home is the tenant in whose space a module is kept: nobody runs what is neither built in nor its own.
func (svc *Service) home(tenant string, digest plan.Digest) string {
	if svc.registry.isBuiltInModule(digest) {
		return records.SystemTenant
	}
	return tenant
}

// moduleRecord reads a module, or only whether it is there. One that is not may have come with another program.
func (svc *Service) moduleRecord(ctx context.Context, tenant string, digest plan.Digest, keysOnly bool) (*store.Item, error) {
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

// module fetches a module's bytes.
func (svc *Service) module(ctx context.Context, tenant string, digest plan.Digest) ([]byte, error) {
	found, err := svc.moduleRecord(ctx, tenant, digest, false)
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

func modulePurged(name string, digest plan.Digest) *fault.Error {
	if name != "" {
		name = " of " + name
	}
	return fault.Errorf(fault.Gone, "module_purged", "the policy module%s, %s, was deleted", name, hexDigest(digest))
}

// stored tells whether a module is still kept for a tenant, whatever is in memory.
func (svc *Service) stored(ctx context.Context, tenant string, digest plan.Digest) (bool, error) {
	found, err := svc.moduleRecord(ctx, tenant, digest, true)
	return found != nil, err
}

// of tells what a module says of itself. It does not say that its compiled code is in memory.
func (svc *Service) of(ctx context.Context, tenant string, digest plan.Digest) (plan.Policy, error) {
	if p, ok := svc.registry.lookUp(digest); ok {
		return p, nil
	}
	return svc.load(ctx, tenant, digest)
}

// load makes a stored module ready to run.
func (svc *Service) load(ctx context.Context, tenant string, digest plan.Digest) (plan.Policy, error) {
	code, err := svc.module(ctx, tenant, digest)
	if err != nil {
		return plan.Policy{}, err
	}
	if svc.registry.isBuiltInModule(digest) {
		tenant = ""
	}
	p, err := svc.host.Load(ctx, tenant, code)
	if err == nil {
		svc.registry.learn(p)
	}
	return p, err
}

// unloadable words, for the outcome of a step, why its module could not be made ready.
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

// Call runs a policy, loading its module where compiled code had to make room for others.
func (svc *Service) Call(ctx context.Context, c plan.Call) (out plan.Outcome) {
	for range 2 { // it may have to make room again in between
		if !svc.host.Loaded(c.Module) {
			if _, err := svc.load(ctx, c.Tenant, c.Module); err != nil {
				return plan.Outcome{Status: plan.StatusUnavailable, Detail: svc.unloadable(c.Tenant, c.Module, err)}
			}
		}
		if out = svc.host.Run(ctx, c); out.Status != plan.StatusUnavailable || svc.host.Loaded(c.Module) {
			return out
		}
	}
	return out
}
