package policy

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// Part is what a tenant's file holds of policies.
type Part struct {
	transfer.SimplePart
	E     *Service
	Facts map[plan.Digest]*Facts
	usage usage         // that the file adds
	at    *policyImport // the policy at hand
}

func (*Part) Types() []string { return []string{"policy", "policy_module"} }

// line is a policy of the tenant's own; the modules of its versions follow, ascending.
type line struct {
	transfer.FileLine
	Name     string    `json:"name"`
	Created  time.Time `json:"created_at"`
	Live     int       `json:"live"`
	Before   []int     `json:"before,omitempty"`
	Last     int       `json:"last"`
	Versions []int     `json:"versions"`
}

// moduleLine is one version of the policy that was begun last. Module is in base64.
type moduleLine struct {
	transfer.FileLine
	Version int       `json:"version"`
	Created time.Time `json:"created_at"`
	SetBack *SetBack  `json:"set_back,omitempty"`
	Module  []byte    `json:"module"`
}

func (p *Part) Export(x *transfer.Exporting) error {
	return transfer.EachExported(x, records.Policy.All(), func(rec *record) error {
		line := line{transfer.FileLine{Type: "policy"}, rec.Name, rec.CreatedAt, rec.Live, rec.Before, rec.Last, []int{}}
		for _, v := range rec.Versions {
			line.Versions = append(line.Versions, v.Version)
		}
		if err := x.Put(line); err != nil {
			return err
		}
		for _, v := range rec.Versions {
			code, err := p.E.module(x.Ctx, x.Caller.Tenant, plan.Digest(v.Digest))
			if err != nil {
				return err // deleted meanwhile, where it is gone
			}
			err = x.Put(moduleLine{transfer.FileLine{Type: "policy_module"}, v.Version, v.CreatedAt, v.SetBack, code})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// policyImport is a policy on its way in.
type policyImport struct {
	line line
	seen int // modules so far
}

// last tells whether the module at hand is the policy's last.
func (p *policyImport) last() bool { return p.seen == len(p.line.Versions) }

// read begins a policy, or takes the next module of the one at hand.
func (p *Part) read(line *transfer.ImportLine) (m moduleLine, err error) {
	if line.Kind == "policy_module" {
		at := p.at
		if at == nil || at.last() {
			return m, fault.Errorf(fault.Invalid, "invalid_export", "a module without a policy")
		}
		if err := line.Into(&m); err != nil {
			return m, err
		}
		if m.Version != at.line.Versions[at.seen] {
			return m, fault.InvalidField("version", "invalid_value", "the next version of %q is %d", at.line.Name,
				at.line.Versions[at.seen])
		}
		at.seen++
		return m, nil
	}
	p.at = new(policyImport)
	if err := line.Into(&p.at.line); err != nil {
		return m, err
	}
	if err := p.at.line.check(); err != nil {
		return m, err
	}
	if p.E.IsBuiltIn(p.at.line.Name) {
		return m, errBuiltIn(p.at.line.Name)
	}
	return m, nil
}

func (p *line) check() error {
	switch n := len(p.Versions); {
	case !ident.ValidID(p.Name) || strings.Contains(p.Name, "@"):
		return fault.InvalidField("name", "invalid_id", "must be 1 to 128 characters of A-Z a-z 0-9 . _ : -")
	case n == 0 || !slices.IsSorted(p.Versions) || len(slices.Compact(slices.Clone(p.Versions))) < n ||
		p.Versions[0] < 1 || p.Versions[n-1] > p.Last:
		return fault.InvalidField("versions", "invalid_value", "must go up from 1 at least, to last at most")
	case !slices.Contains(p.Versions, p.Live):
		return fault.InvalidField("live", "invalid_value", "must be one of the versions")
	}
	for _, v := range p.Before {
		if !slices.Contains(p.Versions, v) {
			return fault.InvalidField("before", "invalid_value", "must be some of the versions")
		}
	}
	return nil
}

// Knows refuses a name that neither the file nor the tenant has a policy for.
func (p *Part) Knows(im *transfer.Importing, name string) error {
	if im.Names.Has(name, "policy") || p.E.IsBuiltIn(name) {
		return nil
	}
	rec, err := Read(im.Tx(), name)
	if err == nil && rec == nil {
		err = fault.InvalidField("settings.pipeline", "unknown_policy", "no policy %q", name)
	}
	return err
}

func (p *Part) Check(im *transfer.Importing, line *transfer.ImportLine) error {
	m, err := p.read(line)
	if err != nil {
		return err
	}
	if name := p.at.line.Name; line.Kind == "policy" {
		rec, err := Read(im.Tx(), name)
		if rec != nil {
			im.Conflict(line, "policy %q exists", name)
		}
		return errors.Join(err, im.Claim("policy", name))
	}
	if line.Stored {
		return nil
	}
	p.usage.Versions++
	p.usage.Bytes += int64(len(m.Module))
	digest := plan.Digest(sha256.Sum256(m.Module))
	if p.Facts[digest] == nil {
		p.Facts[digest], err = p.E.admit(im.Ctx, im.Caller.Tenant, m.Module)
	}
	return err
}

func (p *Part) Fits(im *transfer.Importing) error {
	usage, err := ReadUsage(im.Tx())
	if err != nil || p.usage.Versions == 0 {
		return err
	}
	usage.Versions += p.usage.Versions - 1 // the quota is asked for one more
	return p.E.policyQuota.check(usage, int(p.usage.Bytes))
}

func (p *Part) End(*transfer.Importing) error {
	if !p.at.last() {
		return fault.Errorf(fault.Invalid, "invalid_export", "policy %q lacks modules", p.at.line.Name)
	}
	return nil
}

func (p *Part) Store(im *transfer.Importing, line *transfer.ImportLine) error {
	m, err := p.read(line)
	if err != nil || line.Kind == "policy" || line.Stored {
		return err
	}
	return im.Commit("policy", line.Number, func(t *records.Tx) (int, error) {
		rec, err := Read(t, p.at.line.Name)
		switch {
		case err != nil:
			return 0, err
		case (rec == nil) != (p.at.seen == 1) || rec != nil && rec.version(m.Version) != nil:
			return 0, fault.Errorf(fault.Conflict, "import_conflict", "policy %q was changed meanwhile", p.at.line.Name)
		case rec == nil:
			rec = &record{Name: p.at.line.Name, CreatedAt: p.at.line.Created.UTC(), Live: m.Version}
		}
		if err := p.addVersion(t, rec, &m); err != nil || !p.at.last() {
			return 0, errors.Join(err, t.PutJSON(records.Policy.Key(rec.Name), rec))
		}
		rec.Last, rec.Live, rec.Before = p.at.line.Last, p.at.line.Live, p.at.line.Before
		live := VersionName(rec.Name, rec.Live) + " is live"
		if err := tenant.Audit(t, im.Caller, "policy.import", rec.Name, live); err != nil {
			return 0, err
		}
		return 1, t.PutJSON(records.Policy.Key(rec.Name), rec)
	})
}

func (p *Part) addVersion(t *records.Tx, rec *record, m *moduleLine) error {
	usage, err := ReadUsage(t)
	if err == nil {
		err = p.E.policyQuota.check(usage, len(m.Module))
	}
	if err != nil {
		return err
	}
	digest := plan.Digest(sha256.Sum256(m.Module))
	facts, err := json.Marshal(p.Facts[digest])
	if err != nil {
		return err
	}
	rec.Versions = append(rec.Versions, versionEntry{Version: m.Version, Digest: digest[:], Size: len(m.Module),
		CreatedAt: m.Created.UTC(), SetBack: m.SetBack})
	rec.Last = m.Version
	t.Put(records.PolicyVersion.Key(rec.Name, uint32(m.Version)), facts)
	t.Put(records.Module.Key(digest), m.Module)
	usage.Versions++
	usage.Bytes += int64(len(m.Module))
	return t.PutJSON(records.PolicyUsage.Key(), usage)
}
