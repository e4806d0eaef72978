package engine

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// policyLine is a policy of the tenant's own; the modules of its versions follow, ascending.
type policyLine struct {
	fileLine
	Name     string    `json:"name"`
	Created  time.Time `json:"created_at"`
	Live     int       `json:"live"`
	Before   []int     `json:"before,omitempty"`
	Last     int       `json:"last"`
	Versions []int     `json:"versions"`
}

// moduleLine is one version of the policy that was begun last. Module is in base64.
type moduleLine struct {
	fileLine
	Version int       `json:"version"`
	Created time.Time `json:"created_at"`
	SetBack *SetBack  `json:"set_back,omitempty"`
	Module  []byte    `json:"module"`
}

func exportPolicies(x *exporting) error {
	r, err := x.e.store.Read(x.ctx, x.caller.Tenant, store.Query{Ranges: []store.Range{prefixRange(policyKey("")[:2])}})
	if err != nil {
		return err
	}
	for _, it := range r.Ranges[0] {
		var rec policyRecord
		if it.Damaged {
			return errDamaged
		}
		if err := json.Unmarshal(it.Value, &rec); err != nil {
			return err
		}
		if err := x.policy(&rec); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporting) policy(rec *policyRecord) error {
	line := policyLine{fileLine{"policy"}, rec.Name, rec.CreatedAt, rec.Live, rec.Before, rec.Last, []int{}}
	for _, v := range rec.Versions {
		line.Versions = append(line.Versions, v.Version)
	}
	if err := x.put("policy", line); err != nil {
		return err
	}
	for _, v := range rec.Versions {
		code, err := x.e.module(x.ctx, x.caller.Tenant, plan.Digest(v.Digest))
		if err != nil {
			return err // deleted meanwhile, where it is gone
		}
		err = x.put("policy_module", moduleLine{fileLine{"policy_module"}, v.Version, v.CreatedAt, v.SetBack, code})
		if err != nil {
			return err
		}
	}
	return nil
}

// policyImport is a policy on its way in.
type policyImport struct {
	line policyLine
	have *policyRecord // as stored before; nil where there is none
	seen int           // modules so far
	skip bool
}

// policy begins a policy, or takes the next module of the one at hand.
func (im *importing) policy(line *importLine) (m moduleLine, err error) {
	if line.kind == "policy_module" {
		p := im.underWay
		if p == nil || p.seen == len(p.line.Versions) {
			return m, errorf(Invalid, "invalid_export", "a module without a policy")
		}
		if err := line.into(&m); err != nil {
			return m, err
		}
		if m.Version != p.line.Versions[p.seen] {
			return m, invalidField("version", "invalid_value", "the next version of %q is %d", p.line.Name, p.line.Versions[p.seen])
		}
		p.seen++
		return m, nil
	}
	p := new(policyImport)
	if err := line.into(&p.line); err != nil {
		return m, err
	}
	if err := p.line.check(); err != nil {
		return m, err
	}
	if im.e.policies.isBuiltIn(p.line.Name) {
		return m, errBuiltIn(p.line.Name)
	}
	p.have, err = im.tx().policy(p.line.Name)
	im.underWay = p
	return m, err
}

func (p *policyLine) check() error {
	switch n := len(p.Versions); {
	case !validID(p.Name) || strings.Contains(p.Name, "@"):
		return invalidField("name", "invalid_id", "must be 1 to 128 characters of A-Z a-z 0-9 . _ : -")
	case n == 0 || !slices.IsSorted(p.Versions) || len(slices.Compact(slices.Clone(p.Versions))) < n || p.Versions[0] < 1 ||
		p.Versions[n-1] > p.Last:
		return invalidField("versions", "invalid_value", "must go up from 1 at least, to last at most")
	case !slices.Contains(p.Versions, p.Live):
		return invalidField("live", "invalid_value", "must be one of the versions")
	}
	for _, v := range p.Before {
		if !slices.Contains(p.Versions, v) {
			return invalidField("before", "invalid_value", "must be some of the versions")
		}
	}
	return nil
}

func checkPolicy(im *importing, line *importLine) error {
	m, err := im.policy(line)
	if err != nil {
		return err
	}
	p := im.underWay
	if line.kind == "policy" {
		im.policies[p.line.Name] = true
		return nil
	}
	digest := plan.Digest(sha256.Sum256(m.Module))
	if p.have != nil {
		switch v := p.have.version(m.Version); {
		case v == nil || p.have.Live != p.line.Live:
			im.conflict("policy %q exists with other versions", p.line.Name)
		case plan.Digest(v.Digest) != digest:
			im.clash("version %d of policy %q is another module here, and a version never changes", m.Version, p.line.Name)
		}
	}
	im.policyUsage.Versions++
	im.policyUsage.Bytes += int64(len(m.Module))
	if im.facts[digest] == nil {
		im.facts[digest], err = im.e.admit(im.ctx, im.caller.Tenant, m.Module)
	}
	return err
}

func storePolicy(im *importing, line *importLine) error {
	m, err := im.policy(line)
	if err != nil {
		return err
	}
	p := im.underWay
	if line.kind == "policy" {
		if p.skip = p.have != nil && im.mode != conflictReplace; p.skip {
			im.note("skipped", "policy")
		}
		return nil
	}
	if p.skip {
		return nil
	}
	_, err = update(im.ctx, im.e, im.caller, Once{}, func(t *tx) (struct{}, error) {
		return struct{}{}, p.store(t, im, &m)
	})
	if err == nil && p.seen == len(p.line.Versions) {
		how := "imported"
		if p.have != nil {
			how = "replaced"
		}
		im.note(how, "policy")
	}
	return err
}

// store collects the writes of one version, and with the last one of what the file says of the policy.
func (p *policyImport) store(t *tx, im *importing, m *moduleLine) error {
	rec, err := t.policy(p.line.Name)
	if err != nil {
		return err
	}
	if rec == nil {
		rec = &policyRecord{Name: p.line.Name, CreatedAt: p.line.Created.UTC(), Live: m.Version}
	}
	digest := plan.Digest(sha256.Sum256(m.Module))
	if v := rec.version(m.Version); v != nil && plan.Digest(v.Digest) != digest {
		return errorf(Conflict, "import_conflict", "version %d of policy %q was made meanwhile", m.Version, rec.Name)
	} else if v == nil {
		if err := p.addVersion(t, im, rec, m, digest); err != nil {
			return err
		}
	}
	if p.seen == len(p.line.Versions) {
		rec.Last = max(rec.Last, p.line.Last)
		rec.Live, rec.Before = p.line.Live, p.line.Before
		if err := t.audit(im.caller, "policy.import", rec.Name, versionName(rec.Name, rec.Live)+" is live"); err != nil {
			return err
		}
	}
	return t.putJSON(policyKey(rec.Name), rec)
}

func (p *policyImport) addVersion(t *tx, im *importing, rec *policyRecord, m *moduleLine, digest plan.Digest) error {
	usage, err := t.policyUsage()
	if err == nil {
		err = t.e.policyQuota.check(usage, len(m.Module))
	}
	if err != nil {
		return err
	}
	facts, err := json.Marshal(im.facts[digest])
	if err != nil {
		return err
	}
	rec.Versions = append(rec.Versions, versionEntry{Version: m.Version, Digest: digest[:], Size: len(m.Module),
		CreatedAt: m.Created.UTC(), SetBack: m.SetBack})
	slices.SortFunc(rec.Versions, func(a, b versionEntry) int { return a.Version - b.Version })
	rec.Last = max(rec.Last, m.Version)
	t.put(policyVersionKey(rec.Name, m.Version), facts)
	t.put(moduleKey(digest), m.Module)
	usage.Versions++
	usage.Bytes += int64(len(m.Module))
	return t.putJSON(policyUsageKey(), usage)
}
