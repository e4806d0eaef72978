package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// The policies that run when a pipeline's result breaks the law.
const (
	policyDelegationFilter = "delegation-filter"
	policySummarise        = "summarise"
	policyDepthCompress    = "depth-compress"
	policyToolPairTrim     = "tool-pair-trim"
)

// step is one pipeline entry made ready to run: a policy pinned to a digest, its config checked and laid out.
type step struct {
	Policy  string          `json:"policy"`
	Version int             `json:"version"`
	Digest  plan.Digest     `json:"-"`
	Hex     string          `json:"digest"`
	Config  json.RawMessage `json:"config"`
	OnError string          `json:"on_error,omitempty"`
	// Broken says why a step of stored settings cannot run as things stand; its outcome is unavailable.
	Broken string `json:"broken,omitempty"`

	entries []plan.ConfigEntry
	own     bool // the tenant's, not built in
	pinned  bool // named with its version
}

// maxConfig bounds one pipeline entry's config, in bytes of JSON.
const maxConfig = 16 << 10

// builtInDefaults are the settings that serve as defaults of built-in policies' configs.
func builtInDefaults(s Settings, policy string) map[string]any {
	switch policy {
	case policySummarise:
		return map[string]any{"enabled": s.SummaryEnabled, "threshold": s.SummaryThreshold, "keep_last": s.SummaryKeepLast}
	case policyDepthCompress:
		return map[string]any{"depth": s.SessionHistoryDepth}
	}
	return nil
}

// resolver makes pipelines of one tenant ready.
type resolver struct {
	e        *Engine
	ctx      context.Context
	tenant   string
	settings Settings
	policies policySet
	// lenient is how settings that were stored before are read: what has come to be wrong breaks its step alone.
	lenient bool
	partial bool // a module could not be loaded
}

// pipeline makes entries ready, or says which one is wrong.
func (r *resolver) pipeline(entries []PipelineStep) ([]step, error) {
	if len(entries) > maxPipeline {
		return nil, invalidField("pipeline", "too_long", "must have at most %d steps", maxPipeline)
	}
	steps := make([]step, 0, len(entries))
	for i, entry := range entries {
		field := fmt.Sprintf("pipeline[%d]", i)
		if entry.OnError != "" && entry.OnError != "skip" && entry.OnError != "error" {
			return nil, invalidField(field+".on_error", "invalid_value", "must be skip or error")
		}
		s := step{Config: json.RawMessage("{}"), OnError: entry.OnError}
		if wrong := r.step(&s, field, entry); wrong != nil {
			if !r.lenient {
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
func (r *resolver) step(s *step, field string, entry PipelineStep) *Error {
	if !r.find(s, entry.Policy) {
		return invalidField(field+".policy", "unknown_policy", "no policy %q", entry.Policy)
	}
	policy, err := r.e.policyOf(r.ctx, r.tenant, s.Digest)
	if err != nil {
		s.Broken, r.partial = r.e.unloadable(r.tenant, s.Digest, err), true
		return nil
	}
	return s.configure(r.settings, field+".config", entry.Config, policy)
}

// find fills in what a pipeline names: name for the live version, or name@version.
func (r *resolver) find(s *step, ref string) bool {
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
	if r.e.isBuiltIn(name) {
		if !pinned {
			version = r.e.policies.shipped[name]
		}
		digest, err := r.e.builtIn(r.ctx, name, version)
		if err != nil || digest == (plan.Digest{}) {
			r.partial = r.partial || err != nil
			return false
		}
		s.Version, s.Digest = version, digest
		return true
	}
	rec := r.policies.find(name)
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
	s.Version, s.Digest, s.own = version, plan.Digest(v.Digest), true
	return true
}

// configure lays out a step's config over its policy's defaults.
func (s *step) configure(settings Settings, field string, given json.RawMessage, policy plan.Policy) *Error {
	if len(given) > maxConfig {
		return invalidField(field, "too_long", "must be at most %d bytes", maxConfig)
	}
	var config map[string]any
	if !s.own {
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
			return invalidField(field, "wrong_type", "must be a JSON object")
		}
		maps.Copy(config, own)
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return errorf(Internal, "internal", "%v", err)
	}
	if s.entries, err = policy.Manifest.Config(raw); err != nil {
		return invalidField(field, "invalid_config", "%s", err)
	}
	s.Config = raw
	return nil
}

func hexDigest(d plan.Digest) string { return fmt.Sprintf("sha256:%x", d) }
