package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

func VersionName(policy string, version int) string { return policy + "@" + strconv.Itoa(version) }

// LiveSpec says which version a policy's bare name is to mean.
type LiveSpec struct {
	Version int `json:"version"`
}

// SetLive lets a policy's bare name mean another version, from the next assembly on, everywhere. It answers
// config_conflict where the version does not take the config that a project's pipeline gives to the name, and
// key_narrowed, built_in_policy or not_found.
func (svc *Service) SetLive(ctx context.Context, c access.Caller, name string, spec LiveSpec) (Policy, error) {
	if spec.Version < 1 {
		return Policy{}, fault.InvalidField("version", "required", "must be the number of a version")
	}
	if err := c.WholeTenant(); err != nil {
		return Policy{}, err
	}
	rec, err := records.Update(ctx, svc.db, c, access.Once{}, func(t *records.Tx) (*record, error) {
		rec, err := svc.changeable(t, name)
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
		was := rec.Live
		rec.makeLive(spec.Version)
		if err := tenant.Audit(t, c, "policy.live", VersionName(name, spec.Version), "instead of "+strconv.Itoa(was)); err != nil {
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
func (svc *Service) Delete(ctx context.Context, c access.Caller, name string) error {
	if err := c.WholeTenant(); err != nil {
		return err
	}
	_, err := records.Update(ctx, svc.db, c, access.Once{}, func(t *records.Tx) (struct{}, error) {
		rec, err := svc.changeable(t, name)
		if err != nil {
			return struct{}{}, err
		}
		if err := svc.unused(t, func(ref string) bool { n, _, _ := strings.Cut(ref, "@"); return n == name }); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, dropVersions(t, c, rec, rec.Versions)
	})
	return err
}

// DeleteVersion removes one version, and with the last version the policy. It answers policy_in_use where the
// version is live while there are others, or a project's pipeline names it, and key_narrowed, built_in_policy or
// not_found.
func (svc *Service) DeleteVersion(ctx context.Context, c access.Caller, name string, version int) error {
	if err := c.WholeTenant(); err != nil {
		return err
	}
	_, err := records.Update(ctx, svc.db, c, access.Once{}, func(t *records.Tx) (struct{}, error) {
		rec, err := svc.changeable(t, name)
		if err != nil {
			return struct{}{}, err
		}
		v := rec.version(version)
		if v == nil {
			return struct{}{}, noVersion(name, version)
		}
		last := len(rec.Versions) == 1
		if version == rec.Live && !last {
			return struct{}{}, fault.Errorf(fault.Conflict, "policy_in_use", "version %d is live; make another version live first", version)
		}
		named := func(ref string) bool { return ref == VersionName(name, version) || last && ref == name }
		if err := svc.unused(t, named); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, dropVersions(t, c, rec, []versionEntry{*v})
	})
	return err
}

// unused refuses where a project's pipeline names a policy. A pipeline that is set to name it at the same time writes
// the policy's record, so one of the two commits fails.
func (svc *Service) unused(t *records.Tx, named func(ref string) bool) error {
	return svc.eachPipeline(t, func(projectID string, s project.Settings) error {
		if slices.ContainsFunc(s.Pipeline, func(entry project.PipelineStep) bool { return named(entry.Policy) }) {
			return fault.Errorf(fault.Conflict, "policy_in_use", "the pipeline of project %q names it", projectID)
		}
		return nil
	})
}

// fits refuses a version whose schema does not take the config that a project's pipeline gives to the bare name.
func (svc *Service) fits(t *records.Tx, name string, v *versionEntry) error {
	policy, err := svc.of(t.Ctx, t.Tenant, plan.Digest(v.Digest))
	if err != nil {
		return fault.Errorf(fault.Unavailable, "policy_unavailable", "%s", svc.unloadable(t.Tenant, plan.Digest(v.Digest), err))
	}
	return svc.eachPipeline(t, func(project string, s project.Settings) error {
		for i, entry := range s.Pipeline {
			if entry.Policy != name {
				continue
			}
			if wrong := new(Step).Configure(s, fmt.Sprintf("pipeline[%d].config", i), entry.Config, policy); wrong != nil {
				return fault.Errorf(fault.Conflict, "config_conflict", "version %d does not take the settings of project %q: %s",
					v.Version, project, wrong.Detail)
			}
		}
		return nil
	})
}

// eachPipeline visits the settings of all of the tenant's projects.
func (svc *Service) eachPipeline(t *records.Tx, visit func(project string, s project.Settings) error) error {
	r, err := svc.db.Store.Read(t.Ctx, t.Tenant, store.Query{Ranges: []store.Range{records.Project.All()}})
	if err != nil {
		return err
	}
	for _, it := range r.Ranges[0] {
		if it.Damaged {
			return records.ErrDamaged
		}
		var p project.Record
		if err := json.Unmarshal(it.Value, &p); err != nil {
			return err
		}
		s, err := svc.projects.WithDefaults(p.Set)
		if err == nil {
			err = visit(p.ID, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropVersions collects the writes that remove versions of a policy, and the policy where none is left.
func dropVersions(t *records.Tx, c access.Caller, rec *record, gone []versionEntry) error {
	usage, err := ReadUsage(t)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(rec.Versions), func(v versionEntry) bool {
		return slices.ContainsFunc(gone, func(g versionEntry) bool { return g.Version == v.Version })
	})
	shared, err := otherDigests(t, rec.Name)
	if err != nil {
		return err
	}
	numbers := make([]string, len(gone))
	for i, v := range gone {
		numbers[i] = strconv.Itoa(v.Version)
		t.Delete(records.PolicyVersion.Key(rec.Name, uint32(v.Version)))
		if digest := plan.Digest(v.Digest); !shared[digest] {
			t.Delete(records.Module.Key(digest))
		}
		usage.Versions--
		usage.Bytes -= int64(v.Size)
		rec.Before = slices.DeleteFunc(rec.Before, func(n int) bool { return n == v.Version })
	}
	if err := t.PutJSON(records.PolicyUsage.Key(), usage); err != nil {
		return err
	}
	if err := tenant.Audit(t, c, "policy.delete", rec.Name, fmt.Sprintf("versions %s", strings.Join(numbers, ", "))); err != nil {
		return err
	}
	if rec.Versions = kept; len(kept) == 0 {
		t.Delete(records.Policy.Key(rec.Name))
		return nil
	}
	return t.PutJSON(records.Policy.Key(rec.Name), rec)
}

// otherDigests are the modules that the tenant's other policies use: the same bytes are kept once. Uploads and
// deletions take turns, so this holds until the commit.
func otherDigests(t *records.Tx, name string) (map[plan.Digest]bool, error) {
	r, err := t.DB.Store.Read(t.Ctx, t.Tenant, store.Query{Ranges: []store.Range{records.Policy.All()}})
	if err != nil {
		return nil, err
	}
	out := map[plan.Digest]bool{}
	for _, it := range r.Ranges[0] {
		if it.Damaged {
			return nil, records.ErrDamaged
		}
		var rec record
		if err := json.Unmarshal(it.Value, &rec); err != nil {
			return nil, err
		}
		for _, v := range rec.Versions {
			if rec.Name != name {
				out[plan.Digest(v.Digest)] = true
			}
		}
	}
	return out, nil
}
