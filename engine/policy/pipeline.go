package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/project"
)

// The policies that run when a pipeline's result breaks the law.
const (
	delegationFilter = "delegation-filter"
	summarise        = "summarise"
	depthCompress    = "depth-compress"
	toolPairTrim     = "tool-pair-trim"
)

// Step is one pipeline entry made ready to run: a policy pinned to a digest, its config checked and laid out.
type Step struct {
	Policy  string          `json:"policy"`
	Version int             `json:"version"`
	Digest  plan.Digest     `json:"-"`
	Hex     string          `json:"digest"`
	Config  json.RawMessage `json:"config"`
	OnError string          `json:"on_error,omitempty"`
	// Broken says why a step of stored settings cannot run as things stand; its outcome is unavailable.
	Broken string `json:"broken,omitempty"`

	Entries []plan.ConfigEntry `json:"-"`
	Own     bool               `json:"-"` // the tenant's, not built in
	pinned  bool               // named with its version
}

// maxConfig bounds one pipeline entry's config, in bytes of JSON.
const maxConfig = 16 << 10

// builtInDefaults are the settings that serve as defaults of built-in policies' configs.
func builtInDefaults(s project.Settings, policy string) map[string]any {
	switch policy {
	case summarise:
		return map[string]any{"enabled": s.SummaryEnabled, "threshold": s.SummaryThreshold, "keep_last": s.SummaryKeepLast}
	case depthCompress:
		return map[string]any{"depth": s.SessionHistoryDepth}
	}
	return nil
}

// Resolver makes pipelines of one tenant ready.
type Resolver struct {
	E        *Service
	Ctx      context.Context
	Tenant   string
	Settings project.Settings
	Policies Set
	// lenient is how settings that were stored before are read: what has come to be wrong breaks its step alone.
	Lenient bool
	partial bool // a module could not be loaded
}

// pipeline makes entries ready, or says which one is wrong.
func (r *Resolver) pipeline(entries []project.PipelineStep) ([]Step, error) {
	if len(entries) > project.MaxPipeline {
		return nil, fault.InvalidField("pipeline", "too_long", "must have at most %d steps", project.MaxPipeline)
	}
	steps := make([]Step, 0, len(entries))
	for i, entry := range entries {
		field := fmt.Sprintf("pipeline[%d]", i)
		if entry.OnError != "" && entry.OnError != "skip" && entry.OnError != "error" {
			return nil, fault.InvalidField(field+".on_error", "invalid_value", "must be skip or error")
		}
		s := Step{Config: json.RawMessage("{}"), OnError: entry.OnError}
		if wrong := r.step(&s, field, entry); wrong != nil {
			if !r.Lenient {
				return nil, wrong
			}
			s.Broken = wrong.Detail
		}
		s.Hex = hexDigest(s.Digest)
		steps = append(steps, s)
	}
	return steps, nil
}

// step makes one entry ready. A module that cannot be loaded now is no fault of the entry's: it breaks the step.
func (r *Resolver) step(s *Step, field string, entry project.PipelineStep) *fault.Error {
	if !r.Find(s, entry.Policy) {
		return fault.InvalidField(field+".policy", "unknown_policy", "no policy %q", entry.Policy)
	}
	policy, err := r.E.of(r.Ctx, r.Tenant, s.Digest)
	if err != nil {
		s.Broken, r.partial = r.E.unloadable(r.Tenant, s.Digest, err), true
		return nil
	}
	return s.Configure(r.Settings, field+".config", entry.Config, policy)
}

// Find fills in what a pipeline names: name for the live version, or name@version.
func (r *Resolver) Find(s *Step, ref string) bool {
	name, pin, pinned := strings.Cut(ref, "@")
	s.Policy, s.pinned = name, pinned
	version := 0
	if pinned {
		n, err := strconv.Atoi(pin)
		if err != nil || strconv.Itoa(n) != pin { // one way to name a version
			return false
		}
		version = n
	}
	if r.E.IsBuiltIn(name) {
		if !pinned {
			version = r.E.registry.shipped[name]
		}
		digest, err := r.E.builtIn(r.Ctx, name, version)
		if err != nil || digest == (plan.Digest{}) {
			r.partial = r.partial || err != nil
			return false
		}
		s.Version, s.Digest = version, digest
		return true
	}
	rec := r.Policies.find(name)
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

// Configure lays out a step's config over its policy's defaults.
func (s *Step) Configure(settings project.Settings, field string, given json.RawMessage, policy plan.Policy) *fault.Error {
	if len(given) > maxConfig {
		return fault.InvalidField(field, "too_long", "must be at most %d bytes", maxConfig)
	}
	var config map[string]any
	if !s.Own {
		config = builtInDefaults(settings, s.Policy)
	}
	if config == nil {
		config = map[string]any{}
	}
	if len(given) > 0 {
		var own map[string]any
		dec := json.NewDecoder(bytes.NewReader(given))
		dec.UseNumber()
		if err := dec.Decode(&own); err != nil {
			return fault.InvalidField(field, "wrong_type", "must be a JSON object")
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

func hexDigest(d plan.Digest) string { return fmt.Sprintf("sha256:%x", d) }
