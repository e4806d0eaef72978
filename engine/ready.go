package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// ready is what assembling needs of a project and the policies that its pipeline names. record is the JSON of the
// rest as decisions keep it.
type ready struct {
	settings Settings
	steps    []step
	fallback []step
	encoding int
	record   json.RawMessage
	hash     [16]byte // of record

	policies policySet // as they stood
	partial  bool      // a module could not be loaded; it may be, next time
}

// make makes a pipeline and the fallback behind it ready.
func (r *resolver) make(entries []PipelineStep) (*ready, error) {
	out := &ready{settings: r.settings, encoding: r.settings.encoding(), policies: r.policies}
	var err error
	if out.steps, err = r.pipeline(entries); err != nil {
		return nil, err
	}
	out.fallback, err = r.pipeline([]PipelineStep{{Policy: policyDelegationFilter}, {Policy: policyToolPairTrim}})
	if err != nil {
		return nil, err
	}
	s := r.settings
	s.Pipeline = nil // the steps say it, pinned
	out.record, err = json.Marshal(effective{Settings: s, Steps: out.steps, Fallback: out.fallback})
	sum := sha256.Sum256(out.record)
	out.hash, out.partial = [16]byte(sum[:16]), r.partial
	return out, err
}

// resolverFor resolves pipelines that name a version, which must exist, of a policy, built in or the tenant's own.
func (e *Engine) resolverFor(ctx context.Context, tenant, name string, version int) (*resolver, error) {
	set, err := e.readPolicies(ctx, tenant, e.ownPolicies([]PipelineStep{{Policy: name}}))
	if err != nil {
		return nil, err
	}
	r := &resolver{e: e, ctx: ctx, tenant: tenant, settings: e.defaultSettings(), policies: set}
	if !r.find(new(step), versionName(name, version)) {
		return nil, noVersion(name, version)
	}
	return r, nil
}

// pinned makes a decision's own settings and steps ready again.
func (e *Engine) pinned(ctx context.Context, tenant string, eff *effective) (*ready, error) {
	r := &ready{settings: eff.Settings, encoding: eff.Settings.encoding(), steps: slices.Clone(eff.Steps),
		fallback: slices.Clone(eff.Fallback)}
	for _, steps := range [][]step{r.steps, r.fallback} {
		for i := range steps {
			s := &steps[i]
			if s.Broken != "" {
				continue // it did not run then
			}
			b, err := hex.DecodeString(strings.TrimPrefix(s.Hex, "sha256:"))
			if err != nil || len(b) != len(s.Digest) {
				return nil, fmt.Errorf("%w: a decision's policy digest", errDamaged)
			}
			s.Digest = plan.Digest(b)
			if kept, err := e.stored(ctx, tenant, s.Digest); err != nil {
				return nil, err
			} else if !kept {
				return nil, modulePurged(fmt.Sprintf("%s@%d", s.Policy, s.Version), s.Digest)
			}
			policy, err := e.policyOf(ctx, tenant, s.Digest)
			if err != nil {
				return nil, err
			}
			if s.entries, err = policy.Manifest.Config(s.Config); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// effective is how a ready pipeline is kept, once a day for all decisions made with it.
type effective struct {
	Settings Settings `json:"settings"`
	Steps    []step   `json:"steps"`
	Fallback []step   `json:"fallback"`
}
