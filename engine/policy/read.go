package policy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// versionState shows how a version of a tenant's policy stands.
func (svc *Service) versionState(tenant string, p *record, v *versionEntry) VersionState {
	digest := plan.Digest(v.Digest)
	s := VersionState{Version: v.Version, Digest: hexDigest(digest), Size: v.Size, CreatedAt: &v.CreatedAt,
		State: stateReady, Failures: svc.breaker.failures(versionID{tenant, p.Name, digest}), SetBack: v.SetBack}
	switch {
	case v.Version == p.Live:
		s.State = stateLive
	case v.SetBack != nil:
		s.State = stateSetBack
	}
	return s
}

func (svc *Service) shown(tenant string, p *record) Policy {
	out := Policy{Name: p.Name, Live: p.Live, CreatedAt: &p.CreatedAt, Versions: []VersionState{}}
	for i := range p.Versions {
		out.Versions = append(out.Versions, svc.versionState(tenant, p, &p.Versions[i]))
	}
	return out
}

func (svc *Service) builtInShown(ctx context.Context, name string) (Policy, error) {
	if err := svc.learnBuiltIns(ctx); err != nil {
		return Policy{}, err
	}
	digests := svc.registry.list(name)
	out := Policy{Name: name, BuiltIn: true, Live: svc.registry.shipped[name]}
	for i := range digests {
		v, err := svc.builtInVersion(ctx, name, i+1)
		if err != nil {
			return out, err
		}
		out.Versions = append(out.Versions, v.VersionState)
	}
	return out, nil
}

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

// List pages through a tenant's policies and the built-in ones, by name.
func (svc *Service) List(ctx context.Context, c access.Caller, page records.Page) (records.List[Policy], error) {
	limit, after, err := page.Decode()
	if err != nil {
		return records.List[Policy]{}, err
	}
	own, err := records.ListPage(ctx, svc.db, c.Tenant, records.Policy.All(), page, func(_ []byte, rec *record) (Policy, bool) {
		return svc.shown(c.Tenant, rec), true
	})
	if err != nil {
		return records.List[Policy]{}, err
	}
	shown := own.Data
	for name := range maps.Keys(svc.registry.shipped) {
		if after != nil && name <= strings.TrimSuffix(string(after), "\x00") {
			continue
		}
		p, err := svc.builtInShown(ctx, name)
		if err != nil {
			return records.List[Policy]{}, err
		}
		shown = append(shown, p)
	}
	slices.SortFunc(shown, func(a, b Policy) int { return strings.Compare(a.Name, b.Name) })
	if len(shown) <= limit {
		return records.List[Policy]{Data: shown, HasMore: own.HasMore, NextCursor: own.NextCursor}, nil
	}
	next := base64.RawURLEncoding.EncodeToString(records.Policy.Key(shown[limit-1].Name)[2:])
	return records.List[Policy]{Data: shown[:limit], HasMore: true, NextCursor: &next}, nil
}

// Get describes a policy with its versions, or answers not_found.
func (svc *Service) Get(ctx context.Context, c access.Caller, name string) (Policy, error) {
	if svc.IsBuiltIn(name) {
		return svc.builtInShown(ctx, name)
	}
	rec, err := svc.read(ctx, c.Tenant, name)
	if err != nil {
		return Policy{}, err
	}
	return svc.shown(c.Tenant, rec), nil
}

// GetVersion describes one version, or answers not_found.
func (svc *Service) GetVersion(ctx context.Context, c access.Caller, name string, version int) (Version, error) {
	if svc.IsBuiltIn(name) {
		return svc.builtInVersion(ctx, name, version)
	}
	if !ident.ValidID(name) || version < 1 || version > maxVersion {
		return Version{}, noVersion(name, version)
	}
	r, err := svc.db.Store.Read(ctx, c.Tenant, store.Query{Keys: [][]byte{records.Policy.Key(name), records.PolicyVersion.Key(name, uint32(version))}})
	if err != nil {
		return Version{}, err
	}
	return svc.versionShown(c.Tenant, name, version, r.Keys[0], r.Keys[1])
}

// versionShown decodes a version from its two records.
func (svc *Service) versionShown(tenant, name string, version int, policy, facts store.Item) (Version, error) {
	if policy.Damaged || facts.Damaged {
		return Version{}, records.ErrDamaged
	}
	if policy.Value == nil || facts.Value == nil {
		return Version{}, noVersion(name, version)
	}
	rec := new(record)
	if err := json.Unmarshal(policy.Value, rec); err != nil {
		return Version{}, err
	}
	v := rec.version(version)
	if v == nil {
		return Version{}, noVersion(name, version)
	}
	out := Version{Name: name, VersionState: svc.versionState(tenant, rec, v)}
	return out, json.Unmarshal(facts.Value, &out.Facts)
}

// maxVersion is the highest number that a version may have.
const maxVersion = 1<<31 - 1

func no(name string) *fault.Error {
	return fault.Errorf(fault.NotFound, "not_found", "no policy %q", name)
}

func noVersion(name string, version int) *fault.Error {
	return fault.Errorf(fault.NotFound, "not_found", "no version %d of policy %q", version, name)
}

// read reads one policy of a tenant's.
func (svc *Service) read(ctx context.Context, tenant, name string) (*record, error) {
	if !ident.ValidID(name) {
		return nil, no(name)
	}
	set, err := svc.Read(ctx, tenant, []string{name})
	if err == nil && set.Records[0] == nil {
		err = no(name)
	}
	return set.Records[0], err
}
