package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

func versionName(policy string, version int) string { return policy + "@" + strconv.Itoa(version) }

// LiveSpec says which version a policy's bare name is to mean.
type LiveSpec struct {
	Version int `json:"version"`
}

// SetLive lets a policy's bare name mean another version, from the next assembly on, everywhere. It answers
// config_conflict where the version does not take the config that a project's pipeline gives to the name, and
// key_narrowed, built_in_policy or not_found.
func (e *Engine) SetLive(ctx context.Context, c Caller, name string, spec LiveSpec) (Policy, error) {
	if spec.Version < 1 {
		return Policy{}, invalidField("version", "required", "must be the number of a version")
	}
	if err := c.wholeTenant(); err != nil {
		return Policy{}, err
	}
	rec, err := update(ctx, e, c, Once{}, func(t *tx) (*policyRecord, error) {
		rec, err := t.changeable(name)
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
		if err := t.fits(name, v); err != nil {
			return nil, err
		}
		was := rec.Live
		rec.makeLive(spec.Version)
		if err := t.audit(c, "policy.live", versionName(name, spec.Version), "instead of "+strconv.Itoa(was)); err != nil {
			return nil, err
		}
		return rec, t.putJSON(kindPolicy.Key(name), rec)
	})
	if err != nil {
		return Policy{}, err
	}
	e.breaker.forget(versionID{c.Tenant, name, plan.Digest(rec.version(spec.Version).Digest)})
	return e.policyShown(c.Tenant, rec), nil
}

// DeletePolicy removes a policy with all its versions. It answers policy_in_use where a project's pipeline names it, and
// key_narrowed, built_in_policy or not_found.
func (e *Engine) DeletePolicy(ctx context.Context, c Caller, name string) error {
	if err := c.wholeTenant(); err != nil {
		return err
	}
	_, err := update(ctx, e, c, Once{}, func(t *tx) (struct{}, error) {
		rec, err := t.changeable(name)
		if err != nil {
			return struct{}{}, err
		}
		if err := t.unused(func(ref string) bool { n, _, _ := strings.Cut(ref, "@"); return n == name }); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, t.dropVersions(c, rec, rec.Versions)
	})
	return err
}

// DeletePolicyVersion removes one version, and with the last version the policy. It answers policy_in_use where the
// version is live while there are others, or a project's pipeline names it, and key_narrowed, built_in_policy or
// not_found.
func (e *Engine) DeletePolicyVersion(ctx context.Context, c Caller, name string, version int) error {
	if err := c.wholeTenant(); err != nil {
		return err
	}
	_, err := update(ctx, e, c, Once{}, func(t *tx) (struct{}, error) {
		rec, err := t.changeable(name)
		if err != nil {
			return struct{}{}, err
		}
		v := rec.version(version)
		if v == nil {
			return struct{}{}, noVersion(name, version)
		}
		last := len(rec.Versions) == 1
		if version == rec.Live && !last {
			return struct{}{}, errorf(Conflict, "policy_in_use", "version %d is live; make another version live first", version)
		}
		named := func(ref string) bool { return ref == versionName(name, version) || last && ref == name }
		if err := t.unused(named); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, t.dropVersions(c, rec, []versionEntry{*v})
	})
	return err
}

// unused refuses where a project's pipeline names a policy. A pipeline that is set to name it at the same time writes
// the policy's record, so one of the two commits fails.
func (t *tx) unused(named func(ref string) bool) error {
	return t.eachPipeline(func(project string, s Settings) error {
		if slices.ContainsFunc(s.Pipeline, func(entry PipelineStep) bool { return named(entry.Policy) }) {
			return errorf(Conflict, "policy_in_use", "the pipeline of project %q names it", project)
		}
		return nil
	})
}

// fits refuses a version whose schema does not take the config that a project's pipeline gives to the bare name.
func (t *tx) fits(name string, v *versionEntry) error {
	policy, err := t.e.policyOf(t.ctx, t.tenant, plan.Digest(v.Digest))
	if err != nil {
		return errorf(Unavailable, "policy_unavailable", "%s", t.e.unloadable(t.tenant, plan.Digest(v.Digest), err))
	}
	return t.eachPipeline(func(project string, s Settings) error {
		for i, entry := range s.Pipeline {
			if entry.Policy != name {
				continue
			}
			if wrong := new(step).configure(s, fmt.Sprintf("pipeline[%d].config", i), entry.Config, policy); wrong != nil {
				return errorf(Conflict, "config_conflict", "version %d does not take the settings of project %q: %s",
					v.Version, project, wrong.Detail)
			}
		}
		return nil
	})
}

// eachPipeline visits the settings of all of the tenant's projects.
func (t *tx) eachPipeline(visit func(project string, s Settings) error) error {
	r, err := t.e.store.Read(t.ctx, t.tenant, store.Query{Ranges: []store.Range{kindProject.All()}})
	if err != nil {
		return err
	}
	for _, it := range r.Ranges[0] {
		if it.Damaged {
			return errDamaged
		}
		var p project
		if err := json.Unmarshal(it.Value, &p); err != nil {
			return err
		}
		s, err := t.e.settings(p.Set)
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
func (t *tx) dropVersions(c Caller, rec *policyRecord, gone []versionEntry) error {
	usage, err := t.policyUsage()
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(rec.Versions), func(v versionEntry) bool {
		return slices.ContainsFunc(gone, func(g versionEntry) bool { return g.Version == v.Version })
	})
	shared, err := t.otherDigests(rec.Name)
	if err != nil {
		return err
	}
	numbers := make([]string, len(gone))
	for i, v := range gone {
		numbers[i] = strconv.Itoa(v.Version)
		t.delete(kindPolicyVersion.Key(rec.Name, uint32(v.Version)))
		if digest := plan.Digest(v.Digest); !shared[digest] {
			t.delete(kindModule.Key(digest))
		}
		usage.Versions--
		usage.Bytes -= int64(v.Size)
		rec.Before = slices.DeleteFunc(rec.Before, func(n int) bool { return n == v.Version })
	}
	if err := t.putJSON(kindPolicyUsage.Key(), usage); err != nil {
		return err
	}
	if err := t.audit(c, "policy.delete", rec.Name, fmt.Sprintf("versions %s", strings.Join(numbers, ", "))); err != nil {
		return err
	}
	if rec.Versions = kept; len(kept) == 0 {
		t.delete(kindPolicy.Key(rec.Name))
		return nil
	}
	return t.putJSON(kindPolicy.Key(rec.Name), rec)
}

// otherDigests are the modules that the tenant's other policies use: the same bytes are kept once. Uploads and
// deletions take turns, so this holds until the commit.
func (t *tx) otherDigests(name string) (map[plan.Digest]bool, error) {
	r, err := t.e.store.Read(t.ctx, t.tenant, store.Query{Ranges: []store.Range{kindPolicy.All()}})
	if err != nil {
		return nil, err
	}
	out := map[plan.Digest]bool{}
	for _, it := range r.Ranges[0] {
		if it.Damaged {
			return nil, errDamaged
		}
		var rec policyRecord
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
