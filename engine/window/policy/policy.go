// Package policy stores policies: modules that tenants upload, and those that come with Mneme. policy.go and version.go
// have what clients see, module.go and builtin.go store and load modules, pipeline.go prepares the pipelines of
// projects, and breaker.go rolls back versions that keep failing.
//
// A policy's name means its live version, which may change at any time. Decisions name modules by digest, so a replay
// runs the same code.
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

// Service stores policy modules, their versions, and which version is live. It is safe for concurrent use once Prove is
// set.
type Service struct {
	db       *records.DB
	projects *project.Service
	host     Host
	quota    Quota

	registry *registry
	memo     records.Memo[record]
	breaker  breaker
	uploads  *admission.Gate

	// Prove runs the self-tests of an uploaded module. It returns a *plan.Refusal if one fails. engine.New sets it,
	// because the tests make windows, and package window imports this one.
	Prove func(ctx context.Context, tenant string, p plan.Policy) (plan.Check, error)
}

// New returns a Service. It loads the built-in policies and stores their modules.
func New(ctx context.Context, db *records.DB, projects *project.Service, host Host, q Quota, builtIns []BuiltIn,
) (*Service, error) {
	svc := &Service{db: db, projects: projects, host: host, quota: q.OrDefault(),
		uploads: admission.NewGate(uploadsAtOnce, 1)}
	return svc, svc.installBuiltIns(ctx, builtIns)
}

// Policy is a policy in lists: its name and its versions.
type Policy struct {
	Name      string         `json:"name"`
	BuiltIn   bool           `json:"built_in"`
	Live      int            `json:"live"`       // the version that its bare name means
	Versions  []VersionState `json:"versions"`   // ascending
	CreatedAt *time.Time     `json:"created_at"` // null for a built-in policy
}

// validName reports whether a name is valid for a policy. It must not contain "@", which begins the number of a
// version.
func validName(name string) bool {
	return ident.ValidID(name) && !ident.PathSegment(name) && !strings.Contains(name, "@")
}

func badName() *fault.Error {
	return fault.InvalidField("name", "invalid_id", ident.IDRule+`, and must not contain "@"`)
}

func notFound(name string) *fault.Error {
	return fault.Errorf(fault.NotFound, "not_found", "no policy %q", name)
}

func errBuiltIn(name string) *fault.Error {
	return fault.Errorf(fault.Conflict, "built_in_policy", "%q is a built-in policy and cannot be changed", name)
}

// List returns a page of a tenant's policies and the built-in ones, sorted by name.
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

// Get describes a policy with its versions, or returns not_found.
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

// shown returns a tenant's policy for clients.
func (svc *Service) shown(tenant string, p *record) Policy {
	out := Policy{Name: p.Name, Live: p.Live, CreatedAt: &p.CreatedAt, Versions: []VersionState{}}
	for i := range p.Versions {
		out.Versions = append(out.Versions, svc.versionState(tenant, p, &p.Versions[i]))
	}
	return out
}

// LiveSpec names the version that is to be live.
type LiveSpec struct {
	Version int `json:"version"`
}

// SetLive makes another version live, from the next window on, on all servers. Errors are required if no version is
// named, config_conflict if the version does not accept the config in a project's pipeline, policy_unavailable if its
// module cannot be loaded at present, and key_narrowed, built_in_policy or not_found.
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
	svc.breaker.forget(c.Tenant, name, plan.Digest(rec.version(spec.Version).Digest))
	return svc.shown(c.Tenant, rec), nil
}

// Delete removes a policy with all its versions. Errors are policy_in_use if a project's pipeline names it, and
// key_narrowed, built_in_policy or not_found.
func (svc *Service) Delete(ctx context.Context, c ident.Caller, name string) error {
	named := func(ref string) bool { n, _, _ := strings.Cut(ref, "@"); return n == name }
	return svc.drop(ctx, c, name, func(t *records.Tx, rec *record) ([]versionEntry, error) {
		return rec.Versions, svc.unused(t, named)
	})
}
