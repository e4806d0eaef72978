package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The policies that run when a pipeline's result breaks the law.
const (
	policyDelegationFilter = "delegation-filter"
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

	entries []plan.ConfigEntry
}

// resolved is what assembling needs of a project, made once per state of its record. record is the JSON of the
// rest as decisions keep it.
type resolved struct {
	settings Settings
	steps    []step
	fallback []step
	encoding int
	record   json.RawMessage
	hash     [16]byte // of record
}

// maxConfig bounds one pipeline entry's config, in bytes of JSON.
const maxConfig = 16 << 10

// registry holds the loaded policies. Names and versions are fixed at start as long as only built-ins exist.
type registry struct {
	versions map[string][]plan.Digest // version n is at n-1
	policies map[plan.Digest]plan.Policy
}

// builtInRecord lists a built-in's versions, oldest first. Old modules stay in the store for replays.
type builtInRecord struct {
	Digests [][]byte `json:"digests"`
}

// installBuiltIns loads the built-in modules and keeps their bytes in the store, each new digest as a new version.
func (e *Engine) installBuiltIns(ctx context.Context, builtIns []BuiltIn) (*registry, error) {
	reg := &registry{versions: map[string][]plan.Digest{}, policies: map[plan.Digest]plan.Policy{}}
	system := Caller{Tenant: systemTenant, Role: RoleRoot}
	for _, b := range builtIns {
		policy, err := e.host.Load(ctx, b.Wasm)
		if err != nil {
			return nil, fmt.Errorf("loading built-in policy %s: %w", b.Name, err)
		}
		rec, err := update(ctx, e, system, Once{}, func(t *tx) (builtInRecord, error) {
			var rec builtInRecord
			got, err := t.get(builtInKey(b.Name))
			if err != nil {
				return rec, err
			}
			if got[0].Value != nil {
				if err := json.Unmarshal(got[0].Value, &rec); err != nil {
					return rec, err
				}
			}
			if n := len(rec.Digests); n > 0 && bytes.Equal(rec.Digests[n-1], policy.Digest[:]) {
				return rec, nil
			}
			rec.Digests = append(rec.Digests, policy.Digest[:])
			t.put(moduleKey(policy.Digest), b.Wasm)
			return rec, t.putJSON(builtInKey(b.Name), rec)
		})
		if err != nil {
			return nil, err
		}
		reg.policies[policy.Digest] = policy
		for _, d := range rec.Digests {
			reg.versions[b.Name] = append(reg.versions[b.Name], plan.Digest(d))
		}
	}
	return reg, nil
}

// policy finds what a pipeline entry names: name for the live version, or name@version.
func (e *Engine) policy(ref string) (name string, version int, p plan.Policy, err error) {
	name, pin, pinned := strings.Cut(ref, "@")
	versions := e.policies.versions[name]
	unknown := invalidField("pipeline", "unknown_policy", "no policy %q", ref)
	if len(versions) == 0 {
		return name, 0, p, unknown
	}
	version = len(versions)
	if pinned {
		if version, err = strconv.Atoi(pin); err != nil || version < 1 || version > len(versions) {
			return name, 0, p, unknown
		}
	}
	p, err = e.loaded(context.Background(), versions[version-1])
	return name, version, p, err
}

// loaded gives a policy by digest, from memory or from the module kept in the store.
func (e *Engine) loaded(ctx context.Context, digest plan.Digest) (plan.Policy, error) {
	if p, ok := e.policies.policies[digest]; ok {
		return p, nil
	}
	r, err := e.store.Read(ctx, systemTenant, store.Query{Keys: [][]byte{moduleKey(digest)}})
	if err != nil {
		return plan.Policy{}, err
	}
	if r.Keys[0].Value == nil {
		return plan.Policy{}, errorf(Gone, "module_purged", "policy module sha256:%x is no longer stored", digest)
	}
	return e.host.Load(ctx, r.Keys[0].Value)
}

// builtInDefaults are the settings that serve as defaults of built-in policies' configs.
func builtInDefaults(s Settings, policy string) map[string]any {
	if policy == policyDepthCompress {
		return map[string]any{"depth": s.SessionHistoryDepth}
	}
	return nil
}

// resolvePipeline makes pipeline entries ready, or says which one is wrong.
func (e *Engine) resolvePipeline(s Settings, entries []PipelineStep) ([]step, error) {
	if len(entries) > maxPipeline {
		return nil, invalidField("pipeline", "too_long", "must have at most %d steps", maxPipeline)
	}
	steps := make([]step, 0, len(entries))
	for i, entry := range entries {
		field := fmt.Sprintf("pipeline[%d]", i)
		if entry.OnError != "" && entry.OnError != "skip" && entry.OnError != "error" {
			return nil, invalidField(field+".on_error", "invalid_value", "must be skip or error")
		}
		name, version, policy, err := e.policy(entry.Policy)
		if known := (*Error)(nil); errors.As(err, &known) && known.Kind == Invalid {
			return nil, invalidField(field+".policy", known.Code, "%s", known.Fields[0].Detail)
		}
		if err != nil {
			return nil, err
		}
		if len(entry.Config) > maxConfig {
			return nil, invalidField(field+".config", "too_long", "must be at most %d bytes", maxConfig)
		}
		config := builtInDefaults(s, name)
		if config == nil {
			config = map[string]any{}
		}
		if len(entry.Config) > 0 {
			var own map[string]any
			dec := json.NewDecoder(bytes.NewReader(entry.Config))
			dec.UseNumber()
			if err := dec.Decode(&own); err != nil {
				return nil, invalidField(field+".config", "wrong_type", "must be a JSON object")
			}
			maps.Copy(config, own)
		}
		raw, err := json.Marshal(config)
		if err != nil {
			return nil, err
		}
		flat, err := policy.Manifest.Config(raw)
		if err != nil {
			return nil, invalidField(field+".config", "invalid_config", "%s", err)
		}
		steps = append(steps, step{Policy: name, Version: version, Digest: policy.Digest,
			Hex: fmt.Sprintf("sha256:%x", policy.Digest), Config: raw, OnError: entry.OnError, entries: flat})
	}
	return steps, nil
}

// resolve makes a project's settings and pipeline ready, once per state of its record.
func (e *Engine) resolve(p *project) (*resolved, error) {
	if r := p.resolved.Load(); r != nil {
		return r, nil
	}
	s, err := e.settings(p.Set)
	if err != nil {
		return nil, err
	}
	r, err := e.resolveSettings(s, s.Pipeline)
	if err == nil {
		p.resolved.Store(r)
	}
	return r, err
}

func (e *Engine) resolveSettings(s Settings, entries []PipelineStep) (*resolved, error) {
	r := &resolved{settings: s, encoding: s.encoding()}
	var err error
	if r.steps, err = e.resolvePipeline(s, entries); err != nil {
		return nil, err
	}
	r.fallback, err = e.resolvePipeline(s, []PipelineStep{{Policy: policyDelegationFilter}, {Policy: policyToolPairTrim}})
	if err != nil {
		return nil, err
	}
	s.Pipeline = nil // the steps say it, pinned
	r.record, err = json.Marshal(effective{Settings: s, Steps: r.steps, Fallback: r.fallback})
	sum := sha256.Sum256(r.record)
	r.hash = [16]byte(sum[:16])
	return r, err
}

// effective is how a resolved is kept, once a day for all decisions made with it.
type effective struct {
	Settings Settings `json:"settings"`
	Steps    []step   `json:"steps"`
	Fallback []step   `json:"fallback"`
}

// jsonType names a Go type as JSON users know it.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	case reflect.Pointer:
		return jsonType(t.Elem())
	}
	return "an object"
}
