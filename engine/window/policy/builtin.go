package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// BuiltIn is a policy that comes with Mneme, as bytes like any other.
type BuiltIn struct {
	Name string
	Wasm []byte
	// Late says that releases were out before it. A tenant may have a policy of its own that it called so, and keeps it.
	Late bool
}

// registry knows the built-in policies by name, and of every policy what was learned when its module was loaded.
type registry struct {
	shipped map[string]int // the version of each built-in that this program comes with, which its bare name means here
	late    map[string]bool

	mu sync.RWMutex
	// versions are those of built-ins, also the ones that other programs over the store brought; version n is at n-1.
	versions map[string][]plan.Digest
	known    map[knownModule]plan.Policy
	weight   int // bytes of memory that known takes
}

// knownModule names what was learned of a module for a tenant, "" for all. Tenants do not share it, because a quicker
// answer would tell one what another has.
type knownModule struct {
	tenant string
	digest plan.Digest
}

// maxKnown bounds what is remembered of loaded modules, in bytes of memory.
const maxKnown = 16 << 20

func (r *registry) lookUp(tenant string, d plan.Digest) (plan.Policy, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, ok := r.known[knownModule{"", d}]
	if !ok {
		p, ok = r.known[knownModule{tenant, d}]
	}
	return p, ok
}

func (r *registry) learn(tenant string, p plan.Policy) {
	p.Manifest.Tests = nil // they run once, at upload, and may be long
	key, weight := knownModule{tenant, p.Digest}, p.Weight()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.known[key]; ok {
		return
	}
	if r.weight += weight; r.weight > maxKnown {
		clear(r.known)
		r.weight = weight
	}
	r.known[key] = p
}

// isBuiltIn tells whether a module is that of a version of a built-in that is known of.
func (r *registry) isBuiltIn(d plan.Digest) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, all := range r.versions {
		if slices.Contains(all, d) {
			return true
		}
	}
	return false
}

// list gives the versions of a built-in that are known of; version n is at n-1.
func (r *registry) list(name string) []plan.Digest {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.versions[name]
}

// learnVersions takes in what the store says of a built-in. Versions are only ever added to it.
func (r *registry) learnVersions(name string, rec builtInRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(rec.Digests) <= len(r.versions[name]) {
		return
	}
	all := make([]plan.Digest, len(rec.Digests))
	for i, d := range rec.Digests {
		all[i] = plan.Digest(d)
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

// IsBuiltIn tells whether a name is that of a policy that this program comes with.
func (svc *Service) IsBuiltIn(name string) bool { return svc.registry.shipped[name] > 0 }

// Reserved tells whether a name is that of a built-in policy in every tenant. A built-in that came late gives way to a
// policy that a tenant has called so.
func (svc *Service) Reserved(name string) bool {
	return svc.IsBuiltIn(name) && !svc.registry.late[name]
}

// installBuiltIns loads the built-in modules and keeps their bytes in the store, each digest that was never there as a
// new version. An older program that starts again finds its own, however many came after it.
func (svc *Service) installBuiltIns(ctx context.Context, builtIns []BuiltIn) error {
	svc.registry = &registry{shipped: map[string]int{}, late: map[string]bool{}, versions: map[string][]plan.Digest{},
		known: map[knownModule]plan.Policy{}}
	system := ident.Caller{Tenant: records.SystemTenant, Role: ident.RoleRoot}
	for _, b := range builtIns {
		policy, err := svc.host.Load(ctx, "", b.Wasm)
		if err != nil {
			return fmt.Errorf("loading built-in policy %s: %w", b.Name, err)
		}
		rec, err := records.Update(ctx, svc.db, system, ident.Once{}, func(t *records.Tx) (builtInRecord, error) {
			rec, err := records.GetTx[builtInRecord](t, records.BuiltIn.Key(b.Name))
			if err != nil {
				return builtInRecord{}, err
			}
			if rec == nil {
				rec = new(builtInRecord)
			}
			if rec.version(policy.Digest) > 0 {
				return *rec, nil
			}
			rec.Digests = append(rec.Digests, policy.Digest[:])
			t.Put(records.Module.Key(policy.Digest), b.Wasm)
			return *rec, t.PutJSON(records.BuiltIn.Key(b.Name), rec)
		})
		if err != nil {
			return err
		}
		svc.registry.learn("", policy)
		svc.registry.learnVersions(b.Name, rec)
		svc.registry.shipped[b.Name], svc.registry.late[b.Name] = rec.version(policy.Digest), b.Late
	}
	return nil
}

// learnBuiltIns looks for versions that other programs over the store have brought since.
func (svc *Service) learnBuiltIns(ctx context.Context) error {
	for it, err := range svc.db.Scan(ctx, records.SystemTenant, records.BuiltIn.All()) {
		if err != nil {
			return err
		}
		var rec builtInRecord
		if it.Damaged || json.Unmarshal(it.Value, &rec) != nil {
			continue // this program knows its own versions without the record
		}
		name, _ := records.BuiltIn.Split(it.Key)
		svc.registry.learnVersions(name, rec)
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

// shownBuiltIn is a built-in policy as clients see it, with the versions that all programs over the store brought.
func (svc *Service) shownBuiltIn(ctx context.Context, name string) (Policy, error) {
	if err := svc.learnBuiltIns(ctx); err != nil {
		return Policy{}, err
	}
	out := Policy{Name: name, BuiltIn: true, Live: svc.registry.shipped[name]}
	for i := range svc.registry.list(name) {
		v, err := svc.builtInVersion(ctx, name, i+1)
		if err != nil {
			return out, err
		}
		out.Versions = append(out.Versions, v.VersionState)
	}
	return out, nil
}

// builtInVersion describes one version of a built-in, or answers not_found.
func (svc *Service) builtInVersion(ctx context.Context, name string, version int) (Version, error) {
	digest, err := svc.builtIn(ctx, name, version)
	if err != nil {
		return Version{}, err
	}
	if digest == (plan.Digest{}) {
		return Version{}, noVersion(name, version)
	}
	p, err := svc.of(ctx, records.SystemTenant, digest)
	if err != nil {
		return Version{}, err
	}
	v := Version{Name: name, Facts: factsOf(p),
		VersionState: VersionState{Version: version, Digest: hexDigest(p.Digest), Size: p.Size, State: stateReady}}
	if version == svc.registry.shipped[name] {
		v.State = stateLive
	}
	return v, nil
}
