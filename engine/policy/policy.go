package policy

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Quota bounds what one tenant may keep of policies.
type Quota struct {
	Versions int   // of all its policies; 0: 1,000
	Bytes    int64 // of their modules; 0: 256 MiB
}

func (q Quota) orDefault() Quota {
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

// Version is one version of a policy with all that its module says.
type Version struct {
	Name string `json:"name"`
	VersionState
	Facts
}

// Facts are what was found in a module when it was uploaded.
type Facts struct {
	ABI         string                  `json:"abi"`
	Hooks       []string                `json:"hooks"`
	Description string                  `json:"description"`
	Config      map[string]plan.Setting `json:"config"`
	Checks      []plan.Check            `json:"checks"`
}

func factsOf(p plan.Policy) Facts {
	f := Facts{ABI: p.Manifest.ABI, Hooks: p.Manifest.Hooks, Description: p.Manifest.Description,
		Config: p.Manifest.Schema, Checks: p.Checks}
	if f.Config == nil {
		f.Config = map[string]plan.Setting{}
	}
	return f
}

// record is a stored policy: what assembling needs of it. It never changes once decoded.
type record struct {
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

func (p *record) version(n int) *versionEntry {
	if i := slices.IndexFunc(p.Versions, func(v versionEntry) bool { return v.Version == n }); i >= 0 {
		return &p.Versions[i]
	}
	return nil
}

// makeLive lets the bare name mean another version and remembers which it meant before.
func (p *record) makeLive(version int) {
	const remembered = 16
	p.Before = slices.DeleteFunc(p.Before, func(n int) bool { return n == version || n == p.Live })
	p.Before = append(p.Before, p.Live)
	p.Before = p.Before[max(0, len(p.Before)-remembered):]
	p.Live = version
	p.version(version).SetBack = nil
}

// Read reads a policy to change it; nil where there is none. What is read is expected unchanged at commit.
func Read(t *records.Tx, name string) (*record, error) {
	if !ident.ValidID(name) {
		return nil, nil
	}
	got, err := t.Get(records.Policy.Key(name))
	if err != nil || got[0].Value == nil {
		return nil, err
	}
	rec := new(record)
	return rec, json.Unmarshal(got[0].Value, rec)
}

// changeable is policy for one that must exist and be the tenant's own.
func (svc *Service) changeable(t *records.Tx, name string) (*record, error) {
	if svc.IsBuiltIn(name) {
		return nil, errBuiltIn(name)
	}
	rec, err := Read(t, name)
	if err == nil && rec == nil {
		err = no(name)
	}
	return rec, err
}

func errBuiltIn(name string) *fault.Error {
	return fault.Errorf(fault.Conflict, "built_in_policy", "%q is a built-in policy and cannot be changed", name)
}

// CheckPipeline holds a pipeline that is about to be stored against the policies that it names. Where it is new, those
// that are the tenant's own are written too, so that none is deleted at the same time.
func (svc *Service) CheckPipeline(t *records.Tx, s project.Settings, changed bool) error {
	r := &Resolver{E: svc, Ctx: t.Ctx, Tenant: t.Tenant, Settings: s}
	r.Policies.names = svc.projects.OwnPolicies(s.Pipeline)
	for _, name := range r.Policies.names {
		rec, err := Read(t, name)
		if err != nil {
			return err
		}
		r.Policies.Records = append(r.Policies.Records, rec)
	}
	steps, err := r.pipeline(s.Pipeline)
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
	for _, rec := range r.Policies.Records {
		rec.Pipelines++
		if err := t.PutJSON(records.Policy.Key(rec.Name), rec); err != nil {
			return err
		}
	}
	return nil
}
