package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Ready is what assembling needs of a project and the policies that its pipeline names. record is the JSON of the
// rest as decisions keep it.
type Ready struct {
	Settings project.Settings
	Steps    []Step
	Fallback []Step
	Encoding int
	Record   json.RawMessage
	Hash     [16]byte // of record

	Policies Set  // as they stood
	Partial  bool // a module could not be loaded; it may be, next time
}

// Make makes a pipeline and the fallback behind it ready.
func (r *Resolver) Make(entries []project.PipelineStep) (*Ready, error) {
	out := &Ready{Settings: r.Settings, Encoding: r.Settings.Encoding(), Policies: r.Policies}
	var err error
	if out.Steps, err = r.pipeline(entries); err != nil {
		return nil, err
	}
	out.Fallback, err = r.pipeline([]project.PipelineStep{{Policy: delegationFilter}, {Policy: toolPairTrim}})
	if err != nil {
		return nil, err
	}
	s := r.Settings
	s.Pipeline = nil // the steps say it, pinned
	out.Record, err = json.Marshal(Effective{Settings: s, Steps: out.Steps, Fallback: out.Fallback})
	sum := sha256.Sum256(out.Record)
	out.Hash, out.Partial = [16]byte(sum[:16]), r.partial
	return out, err
}

// ResolverFor resolves pipelines that name a version, which must exist, of a policy, built in or the tenant's own.
func (svc *Service) ResolverFor(ctx context.Context, tenant, name string, version int) (*Resolver, error) {
	set, err := svc.Read(ctx, tenant, svc.projects.OwnPolicies([]project.PipelineStep{{Policy: name}}))
	if err != nil {
		return nil, err
	}
	r := &Resolver{E: svc, Ctx: ctx, Tenant: tenant, Settings: svc.projects.DefaultSettings(), Policies: set}
	if !r.Find(new(Step), VersionName(name, version)) {
		return nil, noVersion(name, version)
	}
	return r, nil
}

// Pinned makes a decision's own settings and steps ready again.
func (svc *Service) Pinned(ctx context.Context, tenant string, eff *Effective) (*Ready, error) {
	r := &Ready{Settings: eff.Settings, Encoding: eff.Settings.Encoding(), Steps: slices.Clone(eff.Steps),
		Fallback: slices.Clone(eff.Fallback)}
	for _, steps := range [][]Step{r.Steps, r.Fallback} {
		for i := range steps {
			s := &steps[i]
			if s.Broken != "" {
				continue // it did not run then
			}
			b, err := hex.DecodeString(strings.TrimPrefix(s.Hex, "sha256:"))
			if err != nil || len(b) != len(s.Digest) {
				return nil, fmt.Errorf("%w: a decision's policy digest", records.ErrDamaged)
			}
			s.Digest = plan.Digest(b)
			if kept, err := svc.stored(ctx, tenant, s.Digest); err != nil {
				return nil, err
			} else if !kept {
				return nil, modulePurged(fmt.Sprintf("%s@%d", s.Policy, s.Version), s.Digest)
			}
			policy, err := svc.of(ctx, tenant, s.Digest)
			if err != nil {
				return nil, err
			}
			if s.Entries, err = policy.Manifest.Config(s.Config); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// Effective is how a ready pipeline is kept, once a day for all decisions made with it.
type Effective struct {
	Settings project.Settings `json:"settings"`
	Steps    []Step           `json:"steps"`
	Fallback []Step           `json:"fallback"`
}
