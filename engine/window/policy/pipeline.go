package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Step is one pipeline entry made ready to run: a policy pinned to a digest, its config checked and laid out. As JSON
// it is what decisions keep of the step.
type Step struct {
	Policy  string          `json:"policy"`
	Version int             `json:"version"`
	Digest  plan.Digest     `json:"-"`
	Hex     string          `json:"digest"` // Digest as sha256:HEX
	Config  json.RawMessage `json:"config"`
	OnError string          `json:"on_error,omitempty"`
	// Broken says why a step of stored settings cannot run as things stand; its outcome is unavailable.
	Broken string `json:"broken,omitempty"`

	Entries []plan.ConfigEntry `json:"-"`
	Own     bool               `json:"-"` // the tenant's, not built in
	pinned  bool               // named with its version
}

// Ready is a project's settings with its pipeline made ready to run, and the fallback that runs where the pipeline's
// result breaks the law.
type Ready struct {
	Effective
	Encoding int             // as project.Settings.Encoding
	Record   json.RawMessage // what decisions keep of it: the Effective without the settings' pipeline
	Hash     [16]byte        // of Record

	Policies Set  // as they stood
	Partial  bool // a module could not be loaded; it may be, next time
}

// Effective is how a ready pipeline is kept, once a day for all decisions made with it. The settings are then without
// their pipeline, because the steps say it with each version pinned.
type Effective struct {
	Settings project.Settings `json:"settings"`
	Steps    []Step           `json:"steps"`
	Fallback []Step           `json:"fallback"`
}

// Entries are the pipeline's entries, each with its version. What a built-in policy's config has from the settings is
// left out, so that other settings give it another.
func (e *Effective) Entries() []project.PipelineStep {
	entries := make([]project.PipelineStep, len(e.Steps))
	for i := range e.Steps {
		s := &e.Steps[i]
		entries[i] = project.PipelineStep{Policy: VersionName(s.Policy, s.Version), Config: s.Config, OnError: s.OnError}
		var config map[string]any
		defaults := builtInDefaults(e.Settings, s.Policy)
		if defaults == nil || json.Unmarshal(s.Config, &config) != nil {
			continue
		}
		step, hasStep := config["depth_step"]
		maps.DeleteFunc(config, func(key string, is any) bool { return fmt.Sprint(is) == fmt.Sprint(defaults[key]) })
		if _, ok := config["depth"]; ok && hasStep { // a depth alone would have a step of 1
			config["depth_step"] = step
		}
		if own, err := json.Marshal(config); err == nil {
			entries[i].Config = own
		}
	}
	return entries
}

// fallback runs where a pipeline's result breaks the law.
var fallback = []project.PipelineStep{{Policy: "delegation-filter"}, {Policy: "tool-pair-trim"}}

// builtInDefaults are the settings that serve as defaults of built-in policies' configs.
func builtInDefaults(s project.Settings, policy string) map[string]any {
	switch policy {
	case "summarise":
		return map[string]any{"enabled": s.SummaryEnabled, "threshold": s.SummaryThreshold,
			"threshold_tokens": s.SummaryThresholdTokens, "keep_last": s.SummaryKeepLast}
	case "depth-compress", "tool-pair-trim":
		return map[string]any{"depth": s.SessionHistoryDepth, "depth_step": s.SessionHistoryDepthStep}
	}
	return nil
}

// Resolver makes pipelines of one tenant ready.
type Resolver struct {
	// Lenient is for settings that were stored before: an entry that has become wrong breaks its step alone.
	Lenient bool

	svc      *Service
	ctx      context.Context
	tenant   string
	settings project.Settings
	policies Set  // the tenant's own that pipelines may name
	partial  bool // a module could not be loaded
}

// Resolver makes a resolver of pipelines under some settings, which name policies of the set and built-in ones.
func (svc *Service) Resolver(ctx context.Context, tenant string, settings project.Settings, policies Set) *Resolver {
	return &Resolver{svc: svc, ctx: ctx, tenant: tenant, settings: settings, policies: policies}
}

// ResolverFor makes one, under default settings, of pipelines that name a version of a policy, built in or the tenant's
// own. It answers not_found where there is no such version.
func (svc *Service) ResolverFor(ctx context.Context, tenant, name string, version int) (*Resolver, error) {
	set, err := svc.Read(ctx, tenant, svc.projects.OwnPolicies([]project.PipelineStep{{Policy: name}}))
	if err != nil {
		return nil, err
	}
	r := svc.Resolver(ctx, tenant, svc.projects.DefaultSettings(), set)
	if !r.Find(new(Step), VersionName(name, version)) {
		return nil, noVersion(name, version)
	}
	return r, nil
}

// Make makes a pipeline and the fallback behind it ready. Where the resolver is not lenient it answers unknown_policy,
// invalid_config, wrong_type, invalid_value or too_long for an entry that is wrong.
func (r *Resolver) Make(entries []project.PipelineStep) (*Ready, error) {
	out := &Ready{Encoding: r.settings.Encoding(), Policies: r.policies}
	out.Settings = r.settings
	var err error
	if out.Steps, err = r.pipeline(entries); err != nil {
		return nil, err
	}
	if out.Fallback, err = r.pipeline(fallback); err != nil {
		return nil, err
	}
	kept := out.Effective
	kept.Settings.Pipeline = nil
	out.Record, err = json.Marshal(kept)
	sum := sha256.Sum256(out.Record)
	out.Hash, out.Partial = [16]byte(sum[:16]), r.partial
	return out, err
}

// pipeline makes entries ready, or says which one is wrong.
func (r *Resolver) pipeline(entries []project.PipelineStep) ([]Step, error) {
	if len(entries) > project.MaxPipeline {
		return nil, fault.InvalidField("pipeline", "too_long", "must have at most %d steps", project.MaxPipeline)
	}
	steps, settings := make([]Step, 0, len(entries)), r.settings
	for i, entry := range entries {
		field := fmt.Sprintf("pipeline[%d]", i)
		if entry.OnError != "" && entry.OnError != "skip" && entry.OnError != "error" {
			return nil, fault.InvalidField(field+".on_error", "invalid_value", "must be skip or error")
		}
		s := Step{Config: json.RawMessage("{}"), OnError: entry.OnError}
		if wrong := r.step(&s, settings, field, entry); wrong != nil {
			if !r.Lenient {
				return nil, wrong
			}
			s.Broken = wrong.Detail
		}
		s.Hex = hexDigest(s.Digest)
		s.setDepth(&settings)
		steps = append(steps, s)
	}
	return steps, nil
}

// setDepth has the depth of a built-in step be that of the steps behind it, so that a window has one.
func (s *Step) setDepth(settings *project.Settings) {
	for _, e := range s.Entries {
		depth, ok := e.Value.(int64)
		switch {
		case s.Own || !ok:
		case e.Key == "depth":
			settings.SessionHistoryDepth = int(depth)
		case e.Key == "depth_step":
			settings.SessionHistoryDepthStep = int(depth)
		}
	}
}

// step makes one entry ready. A module that cannot be loaded now is no fault of the entry's: it breaks the step.
func (r *Resolver) step(s *Step, settings project.Settings, field string, entry project.PipelineStep) *fault.Error {
	if !r.find(s, entry) {
		return fault.InvalidField(field+".policy", "unknown_policy", "no policy %q", entry.Policy)
	}
	policy, err := r.svc.of(r.ctx, r.tenant, s.Digest)
	if err != nil {
		s.Broken, r.partial = r.svc.unloadable(r.tenant, s.Digest, err), true
		return nil
	}
	return s.Configure(settings, field+".config", entry.Config, policy)
}

// Find fills in what a pipeline names: name for the live version, or name@version. It is false where there is none.
func (r *Resolver) Find(s *Step, ref string) bool {
	return r.find(s, project.PipelineStep{Policy: ref})
}

func (r *Resolver) find(s *Step, entry project.PipelineStep) bool {
	name, pin, pinned := strings.Cut(entry.Policy, "@")
	s.Policy, s.pinned = name, pinned
	version := 0
	if pinned {
		n, err := strconv.Atoi(pin)
		if err != nil || strconv.Itoa(n) != pin { // there is one way to write a version
			return false
		}
		version = n
	}
	rec := r.policies.find(name)
	if r.svc.IsBuiltIn(name) && (entry.Standard || rec == nil) {
		if !pinned {
			version = r.svc.registry.shipped[name]
		}
		digest, err := r.svc.builtIn(r.ctx, name, version)
		if err != nil || digest == (plan.Digest{}) {
			r.partial = r.partial || err != nil
			return false
		}
		s.Version, s.Digest = version, digest
		return true
	}
	if rec == nil {
		return false
	}
	if !pinned {
		version = rec.Live
	}
	v := rec.version(version)
	if v == nil {
		return false
	}
	s.Version, s.Digest, s.Own = version, plan.Digest(v.Digest), true
	return true
}

// maxConfig bounds one pipeline entry's config, in bytes of JSON.
const maxConfig = 16 << 10

// Configure lays out a step's config over its policy's defaults. It answers too_long, wrong_type or invalid_config, of
// the field, where the given config is wrong.
func (s *Step) Configure(settings project.Settings, field string, given json.RawMessage, policy plan.Policy,
) *fault.Error {
	if len(given) > maxConfig {
		return fault.InvalidField(field, "too_long", "must be at most %d bytes", maxConfig)
	}
	config := map[string]any{}
	if !s.Own {
		maps.Copy(config, builtInDefaults(settings, s.Policy))
		maps.DeleteFunc(config, func(key string, _ any) bool { // an older version may not know all of them
			_, known := policy.Manifest.Schema[key]
			return !known
		})
	}
	if len(given) > 0 {
		var own map[string]any
		dec := json.NewDecoder(bytes.NewReader(given))
		dec.UseNumber()
		if err := dec.Decode(&own); err != nil {
			return fault.InvalidField(field, "wrong_type", "must be a JSON object")
		}
		_, steps := config["depth_step"]
		if _, ok := own["depth"]; ok && steps {
			config["depth_step"] = 1 // whoever names a depth gets it at each turn
		}
		maps.Copy(config, own)
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return fault.Errorf(fault.Internal, "internal", "%v", err)
	}
	if s.Entries, err = policy.Manifest.Config(raw); err != nil {
		return fault.InvalidField(field, "invalid_config", "%s", err)
	}
	s.Config = raw
	return nil
}

// CheckPipeline refuses settings whose pipeline cannot run, as Make does, or policy_unavailable where a module cannot
// be loaded now. Where the pipeline changed, the tenant's own policies that it names are written too, so that the
// commit of t and a deletion of one of them exclude each other.
func (svc *Service) CheckPipeline(t *records.Tx, s project.Settings, changed bool) error {
	own := Set{names: svc.projects.OwnPolicies(s.Pipeline)}
	for _, name := range own.names {
		rec, err := readTx(t, name)
		if err != nil {
			return err
		}
		own.records = append(own.records, rec)
	}
	steps, err := svc.Resolver(t.Ctx, t.Tenant, s, own).pipeline(s.Pipeline)
	if err != nil {
		return err
	}
	for i := range steps {
		if steps[i].Broken != "" {
			return fault.Errorf(fault.Unavailable, "policy_unavailable", "pipeline[%d]: %s", i, steps[i].Broken)
		}
	}
	if !changed {
		return nil
	}
	for _, rec := range own.records {
		if rec == nil { // the name is that of a built-in
			continue
		}
		rec.Pipelines++
		if err := t.PutJSON(records.Policy.Key(rec.Name), rec); err != nil {
			return err
		}
	}
	return nil
}

// Pinned makes a decision's own settings and steps ready again, or answers module_purged where a module is not kept any
// more, even if it is still in memory.
func (svc *Service) Pinned(ctx context.Context, tenant string, eff *Effective) (*Ready, error) {
	r := &Ready{Effective: *eff, Encoding: eff.Settings.Encoding()}
	r.Steps, r.Fallback = slices.Clone(eff.Steps), slices.Clone(eff.Fallback)
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
			if found, err := svc.find(ctx, tenant, s.Digest, true); err != nil {
				return nil, err
			} else if found == nil {
				return nil, modulePurged(VersionName(s.Policy, s.Version), s.Digest)
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
