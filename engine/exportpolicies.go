package engine

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// policyPart is what a tenant's file holds of policies.
type policyPart struct {
	simplePart
	e     *Engine
	facts map[plan.Digest]*PolicyFacts
	usage policyUsage   // that the file adds
	at    *policyImport // the policy at hand
}

func (*policyPart) types() []string { return []string{"policy", "policy_module"} }

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

func (p *policyPart) export(x *exporting) error {
	return eachExported(x, kindPolicy.Key("")[:2], func(rec *policyRecord) error {
		line := policyLine{fileLine{"policy"}, rec.Name, rec.CreatedAt, rec.Live, rec.Before, rec.Last, []int{}}
		for _, v := range rec.Versions {
			line.Versions = append(line.Versions, v.Version)
		}
		if err := x.put(line); err != nil {
			return err
		}
		for _, v := range rec.Versions {
			code, err := p.e.module(x.ctx, x.caller.Tenant, plan.Digest(v.Digest))
			if err != nil {
				return err // deleted meanwhile, where it is gone
			}
			err = x.put(moduleLine{fileLine{"policy_module"}, v.Version, v.CreatedAt, v.SetBack, code})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// policyImport is a policy on its way in.
type policyImport struct {
	line policyLine
	seen int // modules so far
}

// last tells whether the module at hand is the policy's last.
func (p *policyImport) last() bool { return p.seen == len(p.line.Versions) }

// read begins a policy, or takes the next module of the one at hand.
func (p *policyPart) read(line *importLine) (m moduleLine, err error) {
	if line.kind == "policy_module" {
		at := p.at
		if at == nil || at.last() {
			return m, errorf(Invalid, "invalid_export", "a module without a policy")
		}
		if err := line.into(&m); err != nil {
			return m, err
		}
		if m.Version != at.line.Versions[at.seen] {
			return m, invalidField("version", "invalid_value", "the next version of %q is %d", at.line.Name,
				at.line.Versions[at.seen])
		}
		at.seen++
		return m, nil
	}
	p.at = new(policyImport)
	if err := line.into(&p.at.line); err != nil {
		return m, err
	}
	if err := p.at.line.check(); err != nil {
		return m, err
	}
	if p.e.isBuiltIn(p.at.line.Name) {
		return m, errBuiltIn(p.at.line.Name)
	}
	return m, nil
}

func (p *policyLine) check() error {
	switch n := len(p.Versions); {
	case !validID(p.Name) || strings.Contains(p.Name, "@"):
		return invalidField("name", "invalid_id", "must be 1 to 128 characters of A-Z a-z 0-9 . _ : -")
	case n == 0 || !slices.IsSorted(p.Versions) || len(slices.Compact(slices.Clone(p.Versions))) < n ||
		p.Versions[0] < 1 || p.Versions[n-1] > p.Last:
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

// knows refuses a name that neither the file nor the tenant has a policy for.
func (p *policyPart) knows(im *importing, name string) error {
	if im.names.has(name, "policy") || p.e.isBuiltIn(name) {
		return nil
	}
	rec, err := im.tx().policy(name)
	if err == nil && rec == nil {
		err = invalidField("settings.pipeline", "unknown_policy", "no policy %q", name)
	}
	return err
}

func (p *policyPart) check(im *importing, line *importLine) error {
	m, err := p.read(line)
	if err != nil {
		return err
	}
	if name := p.at.line.Name; line.kind == "policy" {
		rec, err := im.tx().policy(name)
		if rec != nil {
			im.conflict(line, "policy %q exists", name)
		}
		return errors.Join(err, im.claim("policy", name))
	}
	if line.stored {
		return nil
	}
	p.usage.Versions++
	p.usage.Bytes += int64(len(m.Module))
	digest := plan.Digest(sha256.Sum256(m.Module))
	if p.facts[digest] == nil {
		p.facts[digest], err = p.e.admit(im.ctx, im.caller.Tenant, m.Module)
	}
	return err
}

func (p *policyPart) fits(im *importing) error {
	usage, err := im.tx().policyUsage()
	if err != nil || p.usage.Versions == 0 {
		return err
	}
	usage.Versions += p.usage.Versions - 1 // the quota is asked for one more
	return p.e.policyQuota.check(usage, int(p.usage.Bytes))
}

func (p *policyPart) end(*importing) error {
	if !p.at.last() {
		return errorf(Invalid, "invalid_export", "policy %q lacks modules", p.at.line.Name)
	}
	return nil
}

func (p *policyPart) store(im *importing, line *importLine) error {
	m, err := p.read(line)
	if err != nil || line.kind == "policy" || line.stored {
		return err
	}
	return im.commit("policy", line.number, func(t *tx) (int, error) {
		rec, err := t.policy(p.at.line.Name)
		switch {
		case err != nil:
			return 0, err
		case (rec == nil) != (p.at.seen == 1) || rec != nil && rec.version(m.Version) != nil:
			return 0, errorf(Conflict, "import_conflict", "policy %q was changed meanwhile", p.at.line.Name)
		case rec == nil:
			rec = &policyRecord{Name: p.at.line.Name, CreatedAt: p.at.line.Created.UTC(), Live: m.Version}
		}
		if err := p.addVersion(t, rec, &m); err != nil || !p.at.last() {
			return 0, errors.Join(err, t.putJSON(kindPolicy.Key(rec.Name), rec))
		}
		rec.Last, rec.Live, rec.Before = p.at.line.Last, p.at.line.Live, p.at.line.Before
		live := versionName(rec.Name, rec.Live) + " is live"
		if err := t.audit(im.caller, "policy.import", rec.Name, live); err != nil {
			return 0, err
		}
		return 1, t.putJSON(kindPolicy.Key(rec.Name), rec)
	})
}

func (p *policyPart) addVersion(t *tx, rec *policyRecord, m *moduleLine) error {
	usage, err := t.policyUsage()
	if err == nil {
		err = p.e.policyQuota.check(usage, len(m.Module))
	}
	if err != nil {
		return err
	}
	digest := plan.Digest(sha256.Sum256(m.Module))
	facts, err := json.Marshal(p.facts[digest])
	if err != nil {
		return err
	}
	rec.Versions = append(rec.Versions, versionEntry{Version: m.Version, Digest: digest[:], Size: len(m.Module),
		CreatedAt: m.Created.UTC(), SetBack: m.SetBack})
	rec.Last = m.Version
	t.put(kindPolicyVersion.Key(rec.Name, uint32(m.Version)), facts)
	t.put(kindModule.Key(digest), m.Module)
	usage.Versions++
	usage.Bytes += int64(len(m.Module))
	return t.putJSON(kindPolicyUsage.Key(), usage)
}
