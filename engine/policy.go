package engine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// PolicyQuota bounds what one tenant may keep of policies.
type PolicyQuota struct {
	Versions int   // of all its policies; 0: 1,000
	Bytes    int64 // of their modules; 0: 256 MiB
}

func (q PolicyQuota) orDefault() PolicyQuota {
	if q.Versions == 0 {
		q.Versions = 1000
	}
	if q.Bytes == 0 {
		q.Bytes = 256 << 20
	}
	return q
}

// Policy is a policy as listed: its name, and the versions that were uploaded under it.
type Policy struct {
	Name      string         `json:"name"`
	BuiltIn   bool           `json:"built_in"`
	Live      int            `json:"live"` // the version that its bare name means
	Versions  []VersionState `json:"versions"`
	CreatedAt *time.Time     `json:"created_at"` // null where it is built in
}

// VersionState is how one version of a policy stands.
type VersionState struct {
	Version   int        `json:"version"`
	Digest    string     `json:"digest"`
	Size      int        `json:"size"`
	CreatedAt *time.Time `json:"created_at"`
	State     string     `json:"state"` // live, ready, or set_back where it was live and failed
	// Failures are those in a row, up to now, that this process saw.
	Failures int      `json:"failures"`
	SetBack  *SetBack `json:"set_back,omitempty"`
}

// States of versions.
const (
	stateLive    = "live"
	stateReady   = "ready"
	stateSetBack = "set_back"
)

// SetBack says why a version that was live is not any more.
type SetBack struct {
	At       time.Time   `json:"at"`
	To       int         `json:"to"` // the version that took its place
	Failures int         `json:"failures"`
	Outcome  plan.Status `json:"outcome"` // of the last one
	Detail   string      `json:"detail"`
}

// PolicyVersion is one version of a policy with all that its module says.
type PolicyVersion struct {
	Name string `json:"name"`
	VersionState
	PolicyFacts
}

// PolicyFacts are what was found in a module when it was uploaded.
type PolicyFacts struct {
	ABI         string                  `json:"abi"`
	Hooks       []string                `json:"hooks"`
	Description string                  `json:"description"`
	Config      map[string]plan.Setting `json:"config"`
	Checks      []plan.Check            `json:"checks"`
}

func factsOf(p plan.Policy) PolicyFacts {
	f := PolicyFacts{ABI: p.Manifest.ABI, Hooks: p.Manifest.Hooks, Description: p.Manifest.Description,
		Config: p.Manifest.Schema, Checks: p.Checks}
	if f.Config == nil {
		f.Config = map[string]plan.Setting{}
	}
	return f
}

// policyRecord is a stored policy: what assembling needs of it. It never changes once decoded.
type policyRecord struct {
	Name      string         `json:"name"`
	CreatedAt time.Time      `json:"created_at"`
	Live      int            `json:"live"`
	Before    []int          `json:"before,omitempty"` // versions that were live, oldest first
	Last      int            `json:"last"`             // number of the newest upload; numbers are not used again
	Versions  []versionEntry `json:"versions"`         // ascending
	// Pipelines counts the times that a pipeline was set to name it, so that a deletion at the same time loses.
	Pipelines uint64 `json:"pipelines,omitempty"`
}

type versionEntry struct {
	Version   int       `json:"version"`
	Digest    []byte    `json:"digest"`
	Size      int       `json:"size"`
	CreatedAt time.Time `json:"created_at"`
	SetBack   *SetBack  `json:"set_back,omitempty"`
}

func (p *policyRecord) version(n int) *versionEntry {
	if i := slices.IndexFunc(p.Versions, func(v versionEntry) bool { return v.Version == n }); i >= 0 {
		return &p.Versions[i]
	}
	return nil
}

// makeLive lets the bare name mean another version and remembers which it meant before.
func (p *policyRecord) makeLive(version int) {
	const remembered = 16
	p.Before = slices.DeleteFunc(p.Before, func(n int) bool { return n == version || n == p.Live })
	p.Before = append(p.Before, p.Live)
	p.Before = p.Before[max(0, len(p.Before)-remembered):]
	p.Live = version
	p.version(version).SetBack = nil
}

// policy reads a policy to change it; nil where there is none. What is read is expected unchanged at commit.
func (t *tx) policy(name string) (*policyRecord, error) {
	if !validID(name) {
		return nil, nil
	}
	got, err := t.get(kindPolicy.Key(name))
	if err != nil || got[0].Value == nil {
		return nil, err
	}
	rec := new(policyRecord)
	return rec, json.Unmarshal(got[0].Value, rec)
}

// changeable is policy for one that must exist and be the tenant's own.
func (t *tx) changeable(name string) (*policyRecord, error) {
	if t.e.isBuiltIn(name) {
		return nil, errBuiltIn(name)
	}
	rec, err := t.policy(name)
	if err == nil && rec == nil {
		err = noPolicy(name)
	}
	return rec, err
}

func errBuiltIn(name string) *Error {
	return errorf(Conflict, "built_in_policy", "%q is a built-in policy and cannot be changed", name)
}

// checkPipeline holds a pipeline that is about to be stored against the policies that it names. Where it is new, those
// that are the tenant's own are written too, so that none is deleted at the same time.
func (e *Engine) checkPipeline(t *tx, s Settings, changed bool) error {
	r := &resolver{e: e, ctx: t.ctx, tenant: t.tenant, settings: s}
	r.policies.names = e.ownPolicies(s.Pipeline)
	for _, name := range r.policies.names {
		rec, err := t.policy(name)
		if err != nil {
			return err
		}
		r.policies.records = append(r.policies.records, rec)
	}
	steps, err := r.pipeline(s.Pipeline)
	if err != nil {
		return err
	}
	for i := range steps {
		if steps[i].Broken != "" {
			return errorf(Unavailable, "policy_unavailable", "pipeline[%d]: %s", i, steps[i].Broken)
		}
	}
	if !changed {
		return nil
	}
	for _, rec := range r.policies.records {
		rec.Pipelines++
		if err := t.putJSON(kindPolicy.Key(rec.Name), rec); err != nil {
			return err
		}
	}
	return nil
}
