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

// BuiltIn is the module of a policy that comes with Mneme.
type BuiltIn struct {
	Name string
	Wasm []byte
	// Late means that earlier releases did not have it. A tenant may have its own policy of that name, and keeps it.
	Late bool
}

// registry holds the built-in policies by name, and facts about modules that were loaded.
type registry struct {
	shipped map[string]int // the version of each built-in that this program ships, which its bare name means
	late    map[string]bool

	mu sync.RWMutex
	// versions are those of built-ins, including versions that other programs with the same store have added; version n
	// is at index n-1.
	versions map[string][]plan.Digest
	known    map[knownModule]plan.Policy
	weight   int // size of known in bytes
}

// knownModule is the key for facts about a module of a tenant, or of all if tenant is "". Tenants do not share them,
// because a faster response would reveal that another tenant has the same module.
type knownModule struct {
	tenant string
	digest plan.Digest
}

// maxKnown limits the remembered facts about modules, in bytes.
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

// isBuiltIn reports whether a module is a known version of a built-in.
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

// list returns the known versions of a built-in; version n is at index n-1.
func (r *registry) list(name string) []plan.Digest {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.versions[name]
}

// learnVersions adds the versions of a built-in that the store lists. Versions are never removed.
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

// builtInRecord lists a built-in's versions in the order in which they were added. Their modules stay in the store for
// replays.
type builtInRecord struct {
	Digests [][]byte `json:"digests"`
}

// version returns the number of the version with a digest, or 0.
func (b builtInRecord) version(d plan.Digest) int {
	return 1 + slices.IndexFunc(b.Digests, func(known []byte) bool { return bytes.Equal(known, d[:]) })
}

// IsBuiltIn reports whether this program ships a policy with that name.
func (svc *Service) IsBuiltIn(name string) bool { return svc.registry.shipped[name] > 0 }

// Reserved reports whether a name always means a built-in policy. The name of a late built-in means a tenant's own
// policy if there is one.
func (svc *Service) Reserved(name string) bool {
	return svc.IsBuiltIn(name) && !svc.registry.late[name]
}

// installBuiltIns loads the built-in modules and stores each new digest as a new version. An older program that starts
// again finds its own versions, even if newer ones were added.
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

// learnBuiltIns reads the versions that other programs with the same store have added since.
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

// builtIn returns the digest of a version of a built-in, or the zero digest if there is no such version.
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

// shownBuiltIn returns a built-in policy for clients, with the versions that all programs with the same store have
// added.
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

// builtInVersion describes one version of a built-in, or returns not_found.
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
