package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// versionState shows how a version of a tenant's policy stands.
func (e *Engine) versionState(tenant string, p *policyRecord, v *versionEntry) VersionState {
	digest := plan.Digest(v.Digest)
	s := VersionState{Version: v.Version, Digest: hexDigest(digest), Size: v.Size, CreatedAt: &v.CreatedAt,
		State: stateReady, Failures: e.breaker.failures(versionID{tenant, p.Name, digest}), SetBack: v.SetBack}
	switch {
	case v.Version == p.Live:
		s.State = stateLive
	case v.SetBack != nil:
		s.State = stateSetBack
	}
	return s
}

func (e *Engine) policyShown(tenant string, p *policyRecord) Policy {
	out := Policy{Name: p.Name, Live: p.Live, CreatedAt: &p.CreatedAt, Versions: []VersionState{}}
	for i := range p.Versions {
		out.Versions = append(out.Versions, e.versionState(tenant, p, &p.Versions[i]))
	}
	return out
}

func (e *Engine) builtInShown(ctx context.Context, name string) (Policy, error) {
	if err := e.learnBuiltIns(ctx); err != nil {
		return Policy{}, err
	}
	digests := e.policies.list(name)
	out := Policy{Name: name, BuiltIn: true, Live: e.policies.shipped[name]}
	for i := range digests {
		v, err := e.builtInVersion(ctx, name, i+1)
		if err != nil {
			return out, err
		}
		out.Versions = append(out.Versions, v.VersionState)
	}
	return out, nil
}

func (e *Engine) builtInVersion(ctx context.Context, name string, version int) (PolicyVersion, error) {
	digest, err := e.builtIn(ctx, name, version)
	if err != nil {
		return PolicyVersion{}, err
	}
	if digest == (plan.Digest{}) {
		return PolicyVersion{}, noVersion(name, version)
	}
	p, err := e.policyOf(ctx, systemTenant, digest)
	if err != nil {
		return PolicyVersion{}, err
	}
	v := PolicyVersion{Name: name, PolicyFacts: factsOf(p),
		VersionState: VersionState{Version: version, Digest: hexDigest(p.Digest), Size: p.Size, State: stateReady}}
	if version == e.policies.shipped[name] {
		v.State = stateLive
	}
	return v, nil
}

// ListPolicies pages through a tenant's policies and the built-in ones, by name.
func (e *Engine) ListPolicies(ctx context.Context, c Caller, page Page) (List[Policy], error) {
	limit, after, err := page.decode()
	if err != nil {
		return List[Policy]{}, err
	}
	own, err := listPage(ctx, e, c.Tenant, kindPolicy.All(), page, func(_ []byte, rec *policyRecord) (Policy, bool) {
		return e.policyShown(c.Tenant, rec), true
	})
	if err != nil {
		return List[Policy]{}, err
	}
	shown := own.Data
	for name := range maps.Keys(e.policies.shipped) {
		if after != nil && name <= strings.TrimSuffix(string(after), "\x00") {
			continue
		}
		p, err := e.builtInShown(ctx, name)
		if err != nil {
			return List[Policy]{}, err
		}
		shown = append(shown, p)
	}
	slices.SortFunc(shown, func(a, b Policy) int { return strings.Compare(a.Name, b.Name) })
	if len(shown) <= limit {
		return List[Policy]{Data: shown, HasMore: own.HasMore, NextCursor: own.NextCursor}, nil
	}
	next := base64.RawURLEncoding.EncodeToString(kindPolicy.Key(shown[limit-1].Name)[2:])
	return List[Policy]{Data: shown[:limit], HasMore: true, NextCursor: &next}, nil
}

// GetPolicy describes a policy with its versions, or answers not_found.
func (e *Engine) GetPolicy(ctx context.Context, c Caller, name string) (Policy, error) {
	if e.isBuiltIn(name) {
		return e.builtInShown(ctx, name)
	}
	rec, err := e.readPolicy(ctx, c.Tenant, name)
	if err != nil {
		return Policy{}, err
	}
	return e.policyShown(c.Tenant, rec), nil
}

// GetPolicyVersion describes one version, or answers not_found.
func (e *Engine) GetPolicyVersion(ctx context.Context, c Caller, name string, version int) (PolicyVersion, error) {
	if e.isBuiltIn(name) {
		return e.builtInVersion(ctx, name, version)
	}
	if !validID(name) || version < 1 || version > maxVersion {
		return PolicyVersion{}, noVersion(name, version)
	}
	r, err := e.store.Read(ctx, c.Tenant, store.Query{Keys: [][]byte{kindPolicy.Key(name), kindPolicyVersion.Key(name, uint32(version))}})
	if err != nil {
		return PolicyVersion{}, err
	}
	return e.versionShown(c.Tenant, name, version, r.Keys[0], r.Keys[1])
}

// versionShown decodes a version from its two records.
func (e *Engine) versionShown(tenant, name string, version int, policy, facts store.Item) (PolicyVersion, error) {
	if policy.Damaged || facts.Damaged {
		return PolicyVersion{}, errDamaged
	}
	if policy.Value == nil || facts.Value == nil {
		return PolicyVersion{}, noVersion(name, version)
	}
	rec := new(policyRecord)
	if err := json.Unmarshal(policy.Value, rec); err != nil {
		return PolicyVersion{}, err
	}
	v := rec.version(version)
	if v == nil {
		return PolicyVersion{}, noVersion(name, version)
	}
	out := PolicyVersion{Name: name, VersionState: e.versionState(tenant, rec, v)}
	return out, json.Unmarshal(facts.Value, &out.PolicyFacts)
}

// maxVersion is the highest number that a version may have.
const maxVersion = 1<<31 - 1

func noPolicy(name string) *Error { return errorf(NotFound, "not_found", "no policy %q", name) }

func noVersion(name string, version int) *Error {
	return errorf(NotFound, "not_found", "no version %d of policy %q", version, name)
}

// readPolicy reads one policy of a tenant's.
func (e *Engine) readPolicy(ctx context.Context, tenant, name string) (*policyRecord, error) {
	if !validID(name) {
		return nil, noPolicy(name)
	}
	set, err := e.readPolicies(ctx, tenant, []string{name})
	if err == nil && set.records[0] == nil {
		err = noPolicy(name)
	}
	return set.records[0], err
}
