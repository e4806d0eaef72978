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

// Step is a pipeline entry that is ready to run: a policy pinned to a digest, and a checked config with defaults filled
// in. Decisions store its JSON.
type Step struct {
	Policy  string          `json:"policy"`
	Version int             `json:"version"`
	Digest  plan.Digest     `json:"-"`
	Hex     string          `json:"digest"` // Digest as sha256:HEX
	Config  json.RawMessage `json:"config"`
	OnError string          `json:"on_error,omitempty"`
	Guard   bool            `json:"guard,omitempty"` // see project.PipelineStep
	// Broken is the reason why a step of stored settings cannot run at present; its outcome is then unavailable.
	Broken string `json:"broken,omitempty"`

	Entries []plan.ConfigEntry `json:"-"`
	Own     bool               `json:"-"` // the tenant's, not built in
	pinned  bool               // the entry names the version
	hook    plan.Hook
}

// Ready holds a project's settings, its pipeline ready to run, and the fallback pipeline, which runs if the pipeline's
// result is invalid.
type Ready struct {
	Effective
	Encoding int             // as project.Settings.Encoding
	Record   json.RawMessage // the form that decisions store: the Effective, without the settings' pipeline
	Hash     [16]byte        // of Record

	Policies Set  // in the state used here
	Partial  bool // a module could not be loaded; the next attempt may succeed
}

// Effective is the stored form of a ready pipeline, once a day for all decisions made with it. The settings do not
// include the pipeline, because the steps have the same entries with pinned versions.
type Effective struct {
	Settings project.Settings `json:"settings"`
	Steps    []Step           `json:"steps"`
	Fallback []Step           `json:"fallback"`
}

// UnmarshalJSON reads a stored form. A setting that did not exist when it was stored has Mneme's own default.
func (e *Effective) UnmarshalJSON(raw []byte) error {
	type stored Effective
	s := stored{Settings: project.BuiltIn()}
	s.Settings.Pipeline = nil
	err := json.Unmarshal(raw, &s)
	*e = Effective(s)
	return err
}

// Entries returns the pipeline's entries, each with its version. Values in the config of a built-in policy that come
// from the settings are left out, so that they can be taken from other settings.
func (e *Effective) Entries() []project.PipelineStep {
	entries := make([]project.PipelineStep, len(e.Steps))
	for i := range e.Steps {
		s := &e.Steps[i]
		entries[i] = project.PipelineStep{Policy: VersionName(s.Policy, s.Version), Config: s.Config, OnError: s.OnError,
			Guard: s.Guard}
		var config map[string]any
		defaults := historyDefaults(e.Settings, s.Policy)
		maps.Copy(defaults, builtInDefaults(e.Settings, s.Policy))
		if len(defaults) == 0 || json.Unmarshal(s.Config, &config) != nil {
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

// fallback runs if a pipeline's result is invalid.
var fallback = []project.PipelineStep{{Policy: "delegation-filter"}, {Policy: "tool-pair-trim"}}

// builtInDefaults returns the settings that are defaults for a built-in policy's config.
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

// historyDefaults returns the settings that are defaults for the config of each policy that has such keys.
func historyDefaults(s project.Settings, policy string) map[string]any {
	values := map[string]any{}
	if s.HistoryLedgerTokens != project.PolicyDefault {
		values["ledger_tokens"] = s.HistoryLedgerTokens
	}
	if s.HistoryLowWater != project.PolicyDefault && policy != "depth-compress" { // which warns that the key has no effect
		values["low_water"] = s.HistoryLowWater
	}
	return values
}

// accepts reports whether a policy's config may have a value.
func accepts(p plan.Policy, key string, value any) bool {
	raw, err := json.Marshal(map[string]any{key: value})
	if err == nil {
		_, err = p.Manifest.Config(raw)
	}
	return err == nil
}

// Resolver prepares pipelines of one tenant to run.
type Resolver struct {
	// Lenient is for settings that are stored already: an entry that has become invalid makes only its own step fail.
	Lenient bool

	svc      *Service
	ctx      context.Context
	tenant   string
	settings project.Settings
	policies Set  // the tenant's own policies
	partial  bool // a module could not be loaded
}

// Resolver returns a resolver for pipelines with the given settings, which may name built-in policies and those of the
// set.
func (svc *Service) Resolver(ctx context.Context, tenant string, settings project.Settings, policies Set) *Resolver {
	return &Resolver{svc: svc, ctx: ctx, tenant: tenant, settings: settings, policies: policies}
}

// ResolverFor returns a resolver with default settings for pipelines that name a version of a policy, built-in or the
// tenant's own. It returns not_found if there is no such version.
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

// Make prepares a pipeline and the fallback. Unless the resolver is lenient, it returns unknown_policy, hook_missing,
// invalid_config, wrong_type, invalid_value or too_long for an invalid entry.
func (r *Resolver) Make(entries []project.PipelineStep) (*Ready, error) {
	return r.MakeGuarded(nil, entries)
}

// MakeGuarded is Make for entries that come after guards, which stored settings have. Errors count entries without the
// guards; if a guard has become invalid, only its own step fails.
func (r *Resolver) MakeGuarded(guards, entries []project.PipelineStep) (*Ready, error) {
	out := &Ready{Encoding: r.settings.Encoding(), Policies: r.policies}
	out.Settings = r.settings
	stored := *r
	stored.Lenient = true
	var err error
	if out.Steps, err = stored.pipeline(plan.HookAssemble, guards); err != nil {
		return nil, err
	}
	r.partial = r.partial || stored.partial
	steps, err := r.pipeline(plan.HookAssemble, entries)
	if err != nil {
		return nil, err
	}
	out.Steps = append(out.Steps, steps...)
	if out.Fallback, err = r.pipeline(plan.HookAssemble, fallback); err != nil {
		return nil, err
	}
	kept := out.Effective
	kept.Settings.Pipeline = nil
	out.Record, err = json.Marshal(kept)
	sum := sha256.Sum256(out.Record)
	out.Hash, out.Partial = [16]byte(sum[:16]), r.partial
	return out, err
}

// pipeline prepares the entries of a hook's pipeline, or returns an error that names the invalid one.
func (r *Resolver) pipeline(hook plan.Hook, entries []project.PipelineStep) ([]Step, error) {
	name := project.PipelineName(hook)
	if len(entries) > project.MaxPipeline {
		return nil, fault.InvalidField(name, "too_long", "must have at most %d steps", project.MaxPipeline)
	}
	steps, settings := make([]Step, 0, len(entries)), r.settings
	for i, entry := range entries {
		field := fmt.Sprintf("%s[%d]", name, i)
		if entry.OnError != "" && entry.OnError != "skip" && entry.OnError != "error" {
			return nil, fault.InvalidField(field+".on_error", "invalid_value", "must be skip or error")
		}
		if entry.OnError == "error" && !hook.Assembles() && hook != plan.HookAdmit {
			return nil, fault.InvalidField(field+".on_error", "invalid_value", "must be skip: nobody waits for %s", hook)
		}
		if wrong := checkGuard(hook, field, entries[:i], entry); wrong != nil {
			return nil, wrong
		}
		s := Step{Config: json.RawMessage("{}"), OnError: entry.OnError, Guard: entry.Guard, hook: hook}
		if wrong := r.step(&s, hook, settings, field, entry); wrong != nil {
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

// checkGuard checks that guards come before all other steps, and that they have no on_error, because a request is always
// refused if one fails. Only pipelines of windows have guards.
func checkGuard(hook plan.Hook, field string, before []project.PipelineStep, entry project.PipelineStep) *fault.Error {
	if !entry.Guard {
		return nil
	}
	if !hook.Assembles() {
		return fault.InvalidField(field+".guard", "invalid_value", "must be left out: only a pipeline of windows has guards; use on_error")
	}
	if entry.OnError != "" {
		return fault.InvalidField(field+".on_error", "invalid_value", "must be left out of a guard, whose failure always refuses the request")
	}
	if slices.ContainsFunc(before, func(e project.PipelineStep) bool { return !e.Guard }) {
		return fault.InvalidField(field+".guard", "guard_not_first", "must come before all steps that are no guards")
	}
	return nil
}

// Guards returns the number of guards, which are the first steps.
func (e *Effective) Guards() int {
	n := slices.IndexFunc(e.Steps, func(s Step) bool { return !s.Guard })
	if n < 0 {
		return len(e.Steps)
	}
	return n
}

// setDepth copies the depth of a built-in step to the settings of later steps, so that the whole window has one depth.
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

// step prepares one entry. If its module cannot be loaded at present, the entry is still valid, but its step is Broken.
func (r *Resolver) step(s *Step, hook plan.Hook, settings project.Settings, field string, entry project.PipelineStep,
) *fault.Error {
	if !r.find(s, entry) {
		return fault.InvalidField(field+".policy", "unknown_policy", "no policy %q", entry.Policy)
	}
	policy, err := r.svc.of(r.ctx, r.tenant, s.Digest)
	if err != nil {
		s.Broken, r.partial = r.svc.unloadable(r.tenant, s.Digest, err), true
		return nil
	}
	if !policy.Has(hook) {
		return fault.InvalidField(field+".policy", "hook_missing", "%s does not have the hook %s, only %s",
			VersionName(s.Policy, s.Version), hook, strings.Join(policy.Manifest.Hooks, ", "))
	}
	return s.Configure(settings, field+".config", entry.Config, policy)
}

// Find fills in the policy that a pipeline names: name means the live version, name@version a given one. It reports
// whether there is such a version.
func (r *Resolver) Find(s *Step, ref string) bool {
	return r.find(s, project.PipelineStep{Policy: ref})
}

func (r *Resolver) find(s *Step, entry project.PipelineStep) bool {
	name, pin, pinned := strings.Cut(entry.Policy, "@")
	s.Policy, s.pinned = name, pinned
	version := 0
	if pinned {
		n, err := strconv.Atoi(pin)
		if err != nil || strconv.Itoa(n) != pin { // a version has only one spelling
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

// maxConfig limits the config of a pipeline entry, in bytes of JSON.
const maxConfig = 16 << 10

// Configure sets a step's config and fills in its policy's defaults. It returns too_long, wrong_type or invalid_config
// for the field if the given config is invalid.
func (s *Step) Configure(settings project.Settings, field string, given json.RawMessage, policy plan.Policy,
) *fault.Error {
	if len(given) > maxConfig {
		return fault.InvalidField(field, "too_long", "must be at most %d bytes", maxConfig)
	}
	config := historyDefaults(settings, s.Policy)
	maps.DeleteFunc(config, func(key string, value any) bool { return !accepts(policy, key, value) })
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
			config["depth_step"] = 1 // an explicit depth applies exactly to each turn
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

// CheckPipeline returns an error for settings whose pipeline cannot run: those of Make, or policy_unavailable if a
// module cannot be loaded at present. If the pipeline has changed, it also writes the records of the tenant's own
// policies in it, so that the commit of t and a concurrent deletion of one of them exclude each other.
func (svc *Service) CheckPipeline(t *records.Tx, s project.Settings, changed bool) error {
	own := Set{names: svc.projects.OwnPolicies(s.Steps())}
	for _, name := range own.names {
		rec, err := readTx(t, name)
		if err != nil {
			return err
		}
		own.records = append(own.records, rec)
	}
	for _, hook := range []plan.Hook{plan.HookAssemble, plan.HookAdmit} {
		steps, err := svc.Resolver(t.Ctx, t.Tenant, s, own).pipeline(hook, s.HookPipeline(hook))
		if err != nil {
			return err
		}
		for i := range steps {
			if steps[i].Broken != "" {
				return fault.Errorf(fault.Unavailable, "policy_unavailable", "%s[%d]: %s", project.PipelineName(hook), i,
					steps[i].Broken)
			}
		}
	}
	if !changed {
		return nil
	}
	for _, rec := range own.records {
		if rec == nil { // a built-in
			continue
		}
		rec.Pipelines++
		if err := t.PutJSON(records.Policy.Key(rec.Name), rec); err != nil {
			return err
		}
	}
	return nil
}

// Pinned prepares the settings and steps of a decision. It returns module_purged if a module is no longer stored, even
// if it is still in memory.
func (svc *Service) Pinned(ctx context.Context, tenant string, eff *Effective) (*Ready, error) {
	r := &Ready{Effective: *eff, Encoding: eff.Settings.Encoding()}
	r.Steps, r.Fallback = slices.Clone(eff.Steps), slices.Clone(eff.Fallback)
	for _, steps := range [][]Step{r.Steps, r.Fallback} {
		for i := range steps {
			s := &steps[i]
			if s.Broken != "" {
				continue // it did not run in the original window
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
