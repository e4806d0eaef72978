// Package policy keeps policies: modules that tenants upload, and those that come with Mneme. policy.go and version.go
// are what clients see of them, module.go and builtin.go hold and load their code, pipeline.go makes the pipelines of
// projects ready to run, and breaker.go takes back versions that keep failing.
//
// The hard idea is the version: a name means its live version, which anybody may change at any time, while a decision
// pins what it ran by the digest of the module, and runs that again when it is replayed.
package policy

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Service keeps policy modules, their versions, and which of them is live. Safe for concurrent use once Prove is set.
type Service struct {
	db       *records.DB
	projects *project.Service
	host     Host
	quota    Quota

	registry *registry
	memo     records.Memo[record]
	breaker  breaker
	uploads  *admission.Gate

	// Prove runs the self-tests of a module that is uploaded. Its error is a *plan.Refusal where one fails. engine.New
	// sets it, because windows, which the tests make, stand above this room.
	Prove func(ctx context.Context, tenant string, p plan.Policy) (plan.Check, error)
}

// New makes the room, loads the built-in policies and keeps their bytes in the store.
func New(ctx context.Context, db *records.DB, projects *project.Service, host Host, q Quota, builtIns []BuiltIn,
) (*Service, error) {
	svc := &Service{db: db, projects: projects, host: host, quota: q.OrDefault(),
		uploads: admission.NewGate(uploadsAtOnce, 1)}
	return svc, svc.installBuiltIns(ctx, builtIns)
}

// Policy is a policy as listed: its name, and the versions that were uploaded under it.
type Policy struct {
	Name      string         `json:"name"`
	BuiltIn   bool           `json:"built_in"`
	Live      int            `json:"live"`       // the version that its bare name means
	Versions  []VersionState `json:"versions"`   // ascending
	CreatedAt *time.Time     `json:"created_at"` // null where it is built in
}

// validName tells whether a policy may have a name: "@" begins the number of a version.
func validName(name string) bool {
	return ident.ValidID(name) && !ident.PathSegment(name) && !strings.Contains(name, "@")
}

func badName() *fault.Error {
	return fault.InvalidField("name", "invalid_id", "must be 1 to 128 characters of A-Z a-z 0-9 . _ : -, not . or ..")
}

func notFound(name string) *fault.Error {
	return fault.Errorf(fault.NotFound, "not_found", "no policy %q", name)
}

func errBuiltIn(name string) *fault.Error {
	return fault.Errorf(fault.Conflict, "built_in_policy", "%q is a built-in policy and cannot be changed", name)
}

// List pages through a tenant's policies and the built-in ones, by name.
func (svc *Service) List(ctx context.Context, c ident.Caller, page records.Page) (records.List[Policy], error) {
	limit, after, err := page.Decode(records.Policy.All().From)
	if err != nil {
		return records.List[Policy]{}, err
	}
	own, err := records.ListPage(ctx, svc.db, c.Tenant, records.Policy.All(), page,
		func(_ []byte, rec *record) (Policy, bool) { return svc.shown(c.Tenant, rec), true })
	if err != nil {
		return records.List[Policy]{}, err
	}
	shown := own.Data
	for name := range maps.Keys(svc.registry.shipped) {
		if slices.ContainsFunc(own.Data, func(p Policy) bool { return p.Name == name }) {
			continue
		}
		if after != nil && name <= strings.TrimSuffix(string(after), "\x00") {
			continue
		}
		p, err := svc.shownBuiltIn(ctx, name)
		if err != nil {
			return records.List[Policy]{}, err
		}
		shown = append(shown, p)
	}
	slices.SortFunc(shown, func(a, b Policy) int { return strings.Compare(a.Name, b.Name) })
	if len(shown) <= limit {
		return records.List[Policy]{Data: shown, HasMore: own.HasMore, NextCursor: own.NextCursor}, nil
	}
	next := records.Cursor(records.Policy.Key(shown[limit-1].Name)[2:], records.Policy.All().From)
	return records.List[Policy]{Data: shown[:limit], HasMore: true, NextCursor: next}, nil
}

// Get describes a policy with its versions, or answers not_found.
func (svc *Service) Get(ctx context.Context, c ident.Caller, name string) (Policy, error) {
	if svc.Reserved(name) {
		return svc.shownBuiltIn(ctx, name)
	}
	rec, err := svc.read(ctx, c.Tenant, name)
	if err == nil && rec == nil {
		if svc.IsBuiltIn(name) {
			return svc.shownBuiltIn(ctx, name)
		}
		err = notFound(name)
	}
	if err != nil {
		return Policy{}, err
	}
	return svc.shown(c.Tenant, rec), nil
}

// shown is a tenant's policy as clients see it.
func (svc *Service) shown(tenant string, p *record) Policy {
	out := Policy{Name: p.Name, Live: p.Live, CreatedAt: &p.CreatedAt, Versions: []VersionState{}}
	for i := range p.Versions {
		out.Versions = append(out.Versions, svc.versionState(tenant, p, &p.Versions[i]))
	}
	return out
}

// LiveSpec says which version a policy's bare name is to mean.
type LiveSpec struct {
	Version int `json:"version"`
}

// SetLive lets a policy's bare name mean another version, from the next window on, everywhere. It answers required
// where no version is named, config_conflict where the version does not take the config that a project's pipeline gives
// to the name, policy_unavailable where its module cannot be loaded now, and key_narrowed, built_in_policy or
// not_found.
func (svc *Service) SetLive(ctx context.Context, c ident.Caller, name string, spec LiveSpec) (Policy, error) {
	if spec.Version < 1 {
		return Policy{}, fault.InvalidField("version", "required", "must be the number of a version")
	}
	if err := c.WholeTenant(); err != nil {
		return Policy{}, err
	}
	rec, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (*record, error) {
		rec, err := svc.change(t, name)
		if err != nil {
			return nil, err
		}
		v := rec.version(spec.Version)
		if v == nil {
			return nil, noVersion(name, spec.Version)
		}
		if spec.Version == rec.Live {
			return rec, nil
		}
		if err := svc.fits(t, name, v); err != nil {
			return nil, err
		}
		instead := "instead of " + strconv.Itoa(rec.Live)
		rec.makeLive(spec.Version)
		if err := tenant.Audit(t, c, "policy.live", VersionName(name, spec.Version), instead); err != nil {
			return nil, err
		}
		return rec, t.PutJSON(records.Policy.Key(name), rec)
	})
	if err != nil {
		return Policy{}, err
	}
	svc.breaker.forget(versionID{c.Tenant, name, plan.Digest(rec.version(spec.Version).Digest)})
	return svc.shown(c.Tenant, rec), nil
}

// Delete removes a policy with all its versions. It answers policy_in_use where a project's pipeline names it, and
// key_narrowed, built_in_policy or not_found.
func (svc *Service) Delete(ctx context.Context, c ident.Caller, name string) error {
	named := func(ref string) bool { n, _, _ := strings.Cut(ref, "@"); return n == name }
	return svc.drop(ctx, c, name, func(t *records.Tx, rec *record) ([]versionEntry, error) {
		return rec.Versions, svc.unused(t, named)
	})
}
