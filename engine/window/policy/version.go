package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Version is a version of a policy with the contents of its manifest.
type Version struct {
	Name string `json:"name"`
	VersionState
	Facts
	Said
}

// Said has the texts of a module's manifest. They are returned only with a single version.
type Said struct {
	Manifest *plan.Manifest    `json:"manifest,omitempty"` // without its tests
	Tests    []json.RawMessage `json:"tests,omitzero"`     // that an upload runs
}

// VersionState is the state of a version of a policy.
type VersionState struct {
	Version   int        `json:"version"`
	Digest    string     `json:"digest"` // of the module, as sha256:HEX
	Size      int        `json:"size"`   // of the module, in bytes
	CreatedAt *time.Time `json:"created_at"`
	State     string     `json:"state"`    // live, ready, or set_back if it was live and failed
	Failures  int        `json:"failures"` // in a row, up to now, that this process saw
	SetBack   *SetBack   `json:"set_back,omitempty"`
}

// States of versions.
const (
	stateLive    = "live"
	stateReady   = "ready"
	stateSetBack = "set_back"
)

// SetBack says why a version is no longer live.
type SetBack struct {
	At       time.Time   `json:"at"`
	To       int         `json:"to"` // the version that took its place
	Failures int         `json:"failures"`
	Outcome  plan.Status `json:"outcome"` // of the last failure
	Detail   string      `json:"detail"`
}

// Facts are what the checks found out about a module when it was uploaded.
type Facts struct {
	ABI         string                  `json:"abi"`
	Hooks       []string                `json:"hooks"`
	Description string                  `json:"description"`
	Config      map[string]plan.Setting `json:"config"`
	Checks      []plan.Check            `json:"checks"`
}

func factsOf(p plan.Policy) Facts {
	f := Facts{ABI: p.Manifest.ABI, Hooks: p.Manifest.Hooks, Description: p.Manifest.Description,
		Config: p.Manifest.Schema, Checks: p.Checks}
	if f.Config == nil {
		f.Config = map[string]plan.Setting{}
	}
	return f
}

// VersionName returns the name of a version as in pipelines: name@version.
func VersionName(policy string, version int) string { return policy + "@" + strconv.Itoa(version) }

func hexDigest(d plan.Digest) string { return fmt.Sprintf("sha256:%x", d) }

func noVersion(name string, version int) *fault.Error {
	return fault.Errorf(fault.NotFound, "not_found", "no version %d of policy %q", version, name)
}

// versionState returns the state of a version of a tenant's policy.
func (svc *Service) versionState(tenant string, p *record, v *versionEntry) VersionState {
	digest := plan.Digest(v.Digest)
	s := VersionState{Version: v.Version, Digest: hexDigest(digest), Size: v.Size, CreatedAt: &v.CreatedAt,
		State: stateReady, Failures: svc.breaker.failures(tenant, p.Name, digest), SetBack: v.SetBack}
	switch {
	case v.Version == p.Live:
		s.State = stateLive
	case v.SetBack != nil:
		s.State = stateSetBack
	}
	return s
}

// GetVersion describes one version, or returns not_found.
func (svc *Service) GetVersion(ctx context.Context, c ident.Caller, name string, version int) (Version, error) {
	const maxVersion = 1<<31 - 1
	if svc.Reserved(name) {
		return svc.builtInVersion(ctx, name, version)
	}
	if !ident.ValidID(name) || version < 1 || version > maxVersion {
		return Version{}, noVersion(name, version)
	}
	rec, err := records.Get[record](ctx, svc.db, c.Tenant, records.Policy.Key(name))
	if err != nil {
		return Version{}, err
	}
	if rec == nil && svc.IsBuiltIn(name) {
		return svc.builtInVersion(ctx, name, version)
	}
	facts, err := records.Get[Facts](ctx, svc.db, c.Tenant, records.PolicyVersion.Key(name, uint32(version)))
	if err != nil {
		return Version{}, err
	}
	if rec == nil || facts == nil || rec.version(version) == nil {
		return Version{}, noVersion(name, version)
	}
	v := Version{Name: name, VersionState: svc.versionState(c.Tenant, rec, rec.version(version)), Facts: *facts}
	return v, nil
}

// DeleteVersion removes one version, and with the last version the policy. Errors are policy_in_use if a project's
// pipeline names the version, or if it is live and not the only one, and key_narrowed, built_in_policy or not_found.
func (svc *Service) DeleteVersion(ctx context.Context, c ident.Caller, name string, version int) error {
	return svc.drop(ctx, c, name, func(t *records.Tx, rec *record) ([]versionEntry, error) {
		v := rec.version(version)
		if v == nil {
			return nil, noVersion(name, version)
		}
		last := len(rec.Versions) == 1
		if version == rec.Live && !last {
			return nil, fault.Errorf(fault.Conflict, "policy_in_use",
				"version %d is live; make another version live first", version)
		}
		named := func(ref string) bool { return ref == VersionName(name, version) || last && ref == name }
		return []versionEntry{*v}, svc.unused(t, named)
	})
}

// drop removes the versions of a policy that choose returns, and the policy if none is left.
func (svc *Service) drop(ctx context.Context, c ident.Caller, name string,
	choose func(*records.Tx, *record) (gone []versionEntry, err error)) error {
	if err := c.WholeTenant(); err != nil {
		return err
	}
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (struct{}, error) {
		rec, err := svc.change(t, name)
		if err != nil {
			return struct{}{}, err
		}
		gone, err := choose(t, rec)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, dropVersions(t, c, rec, gone)
	})
	return err
}

// dropVersions adds the writes to t that remove versions of a policy, and the policy if none is left.
func dropVersions(t *records.Tx, c ident.Caller, rec *record, gone []versionEntry) error {
	usage, err := readUsage(t)
	if err != nil {
		return err
	}
	shared, err := modulesOfOthers(t, rec.Name)
	if err != nil {
		return err
	}
	dropped := map[int]bool{}
	var numbers []string
	for _, v := range gone {
		dropped[v.Version] = true
		numbers = append(numbers, strconv.Itoa(v.Version))
		t.Delete(records.PolicyVersion.Key(rec.Name, uint32(v.Version)))
		if digest := plan.Digest(v.Digest); !shared[digest] {
			t.Delete(records.Module.Key(digest))
		}
		usage.Versions--
		usage.Bytes -= int64(v.Size)
	}
	if err := t.PutJSON(records.PolicyUsage.Key(), usage); err != nil {
		return err
	}
	if err := tenant.Audit(t, c, "policy.delete", rec.Name, "versions "+strings.Join(numbers, ", ")); err != nil {
		return err
	}
	if len(gone) == len(rec.Versions) {
		t.Delete(records.Policy.Key(rec.Name))
		return nil
	}
	rec.Versions = slices.DeleteFunc(rec.Versions, func(v versionEntry) bool { return dropped[v.Version] })
	rec.Before = slices.DeleteFunc(rec.Before, func(n int) bool { return dropped[n] })
	return t.PutJSON(records.Policy.Key(rec.Name), rec)
}

// modulesOfOthers returns the modules that the tenant's other policies use, because equal modules are stored once. The
// result is valid until the commit, because every upload and deletion writes the usage and so conflicts with t.
func modulesOfOthers(t *records.Tx, name string) (map[plan.Digest]bool, error) {
	out := map[plan.Digest]bool{}
	for it, err := range records.Each[record](t.Ctx, t.DB, t.Tenant, records.Policy.All()) {
		if err != nil {
			return nil, err
		}
		for _, v := range it.Value.Versions {
			if it.Value.Name != name {
				out[plan.Digest(v.Digest)] = true
			}
		}
	}
	return out, nil
}

// unused returns policy_in_use if a project's pipeline names the policy. Storing a pipeline that names it writes the
// policy's record, so a concurrent change makes one of the two commits fail.
func (svc *Service) unused(t *records.Tx, named func(ref string) bool) error {
	return svc.eachProject(t, func(projectID string, s project.Settings) error {
		if slices.ContainsFunc(s.Steps(), func(entry project.PipelineStep) bool {
			return !entry.Standard && named(entry.Policy)
		}) {
			return fault.Errorf(fault.Conflict, "policy_in_use", "the pipeline of project %q names it", projectID)
		}
		return nil
	})
}

// fits returns hook_missing if a project's pipeline needs a hook that the version does not have, and config_conflict if the version's schema does not accept the config that a project's pipeline gives to
// the bare name.
func (svc *Service) fits(t *records.Tx, name string, v *versionEntry) error {
	digest := plan.Digest(v.Digest)
	policy, err := svc.of(t.Ctx, t.Tenant, digest)
	if err != nil {
		return fault.Errorf(fault.Unavailable, "policy_unavailable", "%s", svc.unloadable(t.Tenant, digest, err))
	}
	return svc.eachProject(t, func(projectID string, s project.Settings) error {
		for _, hook := range []plan.Hook{plan.HookAssemble, plan.HookAdmit} {
			if err := fitsPipeline(projectID, s, hook, name, v, policy); err != nil {
				return err
			}
		}
		return nil
	})
}

// fitsPipeline is fits for one pipeline of one project.
func fitsPipeline(projectID string, s project.Settings, hook plan.Hook, name string, v *versionEntry, policy plan.Policy,
) error {
	for i, entry := range s.HookPipeline(hook) {
		if entry.Policy != name || entry.Standard {
			continue
		}
		if !policy.Has(hook) {
			return fault.Errorf(fault.Invalid, "hook_missing",
				"version %d does not have the hook %s, which the %s of project %q needs", v.Version, hook,
				project.PipelineName(hook), projectID)
		}
		wrong := new(Step).Configure(s, fmt.Sprintf("%s[%d].config", project.PipelineName(hook), i), entry.Config, policy)
		if wrong != nil {
			return fault.Errorf(fault.Conflict, "config_conflict",
				"version %d does not take the settings of project %q: %s", v.Version, projectID, wrong.Detail)
		}
	}
	return nil
}

// eachProject visits the settings of all of the tenant's projects.
func (svc *Service) eachProject(t *records.Tx, visit func(id string, s project.Settings) error) error {
	for it, err := range records.Each[project.Record](t.Ctx, t.DB, t.Tenant, records.Project.All()) {
		if err != nil {
			return err
		}
		s, err := svc.projects.WithDefaults(it.Value.Set)
		if err == nil {
			err = visit(it.Value.ID, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
