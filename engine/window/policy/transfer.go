package policy

import (
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// Part is the part of a tenant's file with policies. Each policy is followed by the modules of its versions.
type Part struct {
	transfer.SimplePart
	svc   *Service
	facts map[plan.Digest]*Facts // of modules that passed the checks
	adds  usage                  // what the file adds
	at    line                   // the current policy
	seen  int                    // number of its modules so far
}

// Part returns the part of a tenant's file with policies.
func (svc *Service) Part() *Part { return &Part{svc: svc, facts: map[plan.Digest]*Facts{}} }

// Types returns the types of the part's lines.
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

// check returns an error for a line that cannot be a policy.
func (l *line) check() error {
	switch n := len(l.Versions); {
	case !validName(l.Name):
		return badName()
	case n == 0 || !slices.IsSorted(l.Versions) || len(slices.Compact(slices.Clone(l.Versions))) < n ||
		l.Versions[0] < 1 || l.Versions[n-1] > l.Last:
		return fault.InvalidField("versions", "invalid_value", "must go up from 1 at least, to last at most")
	case !slices.Contains(l.Versions, l.Live):
		return fault.InvalidField("live", "invalid_value", "must be one of the versions")
	}
	for _, v := range l.Before {
		if !slices.Contains(l.Versions, v) {
			return fault.InvalidField("before", "invalid_value", "must be some of the versions")
		}
	}
	return nil
}

// moduleLine is a version of the preceding policy. Module is in base64.
type moduleLine struct {
	transfer.FileLine
	Version int       `json:"version"`
	Created time.Time `json:"created_at"`
	SetBack *SetBack  `json:"set_back,omitempty"`
	Module  []byte    `json:"module"`
}

// Export writes a line for each policy and each of its modules.
func (p *Part) Export(x *transfer.Exporting) error {
	return transfer.EachExported(x, records.Policy.All(), func(rec *record) error {
		line := line{transfer.FileLine{Type: "policy"}, rec.Name, rec.CreatedAt, rec.Live, rec.Before, rec.Last,
			[]int{}}
		for _, v := range rec.Versions {
			line.Versions = append(line.Versions, v.Version)
		}
		if err := x.Put(line); err != nil {
			return err
		}
		for _, v := range rec.Versions {
			code, err := p.svc.module(x.Ctx, x.Caller.Tenant, plan.Digest(v.Digest))
			if err != nil {
				return err // a missing module was deleted in the meantime
			}
			err = x.Put(moduleLine{transfer.FileLine{Type: "policy_module"}, v.Version, v.CreatedAt, v.SetBack, code})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// last reports whether all modules of the current policy have been read.
func (p *Part) last() bool { return p.seen == len(p.at.Versions) }

// read reads a policy, or the next module of the current one.
func (p *Part) read(from *transfer.ImportLine) (m moduleLine, err error) {
	if from.Kind == "policy" {
		p.at, p.seen = line{}, 0
		err := from.Into(&p.at)
		if err == nil {
			err = p.at.check()
		}
		if err == nil && p.svc.Reserved(p.at.Name) {
			err = errBuiltIn(p.at.Name)
		}
		return m, err
	}
	if p.last() {
		return m, fault.Errorf(fault.Invalid, "invalid_export", "a module without a policy")
	}
	if err := from.Into(&m); err != nil {
		return m, err
	}
	if next := p.at.Versions[p.seen]; m.Version != next {
		return m, fault.InvalidField("version", "invalid_value", "the next version of %q is %d", p.at.Name, next)
	}
	p.seen++
	return m, nil
}

// Knows returns unknown_policy for a name that belongs to no policy of the tenant or of the file so far.
func (p *Part) Knows(im *transfer.Importing, name string) error {
	if im.Names.Has(name, "policy") || p.svc.IsBuiltIn(name) {
		return nil
	}
	rec, err := readTx(im.Tx(), name)
	if err == nil && rec == nil {
		err = fault.InvalidField("settings.pipeline", "unknown_policy", "no policy %q", name)
	}
	return err
}

// Check reports policies whose name is taken, and checks each module as an upload does.
func (p *Part) Check(im *transfer.Importing, from *transfer.ImportLine) error {
	m, err := p.read(from)
	if err != nil {
		return err
	}
	if from.Kind == "policy" {
		rec, err := readTx(im.Tx(), p.at.Name)
		if rec != nil {
			im.Conflict(from, "policy %q exists", p.at.Name)
		}
		return errors.Join(err, im.Claim("policy", p.at.Name))
	}
	if from.Stored {
		return nil
	}
	p.adds.Versions++
	p.adds.Bytes += int64(len(m.Module))
	digest := plan.Digest(sha256.Sum256(m.Module))
	if p.facts[digest] == nil {
		p.facts[digest], err = p.svc.admit(im.Ctx, im.Caller.Tenant, m.Module)
	}
	return err
}

// Fits checks all modules of the file against the quota.
func (p *Part) Fits(im *transfer.Importing) error {
	usage, err := readUsage(im.Tx())
	if err != nil || p.adds.Versions == 0 {
		return err
	}
	usage.Versions += p.adds.Versions - 1 // because check adds one
	return p.svc.quota.check(usage, int(p.adds.Bytes))
}

// End returns an error if the last policy lacks modules.
func (p *Part) End(*transfer.Importing) error {
	if !p.last() {
		return fault.Errorf(fault.Invalid, "invalid_export", "policy %q lacks modules", p.at.Name)
	}
	return nil
}

// Store stores a policy module by module, each in a commit of its own, because all of them may be more than one commit
// can hold.
func (p *Part) Store(im *transfer.Importing, from *transfer.ImportLine) error {
	m, err := p.read(from)
	if err != nil || from.Kind == "policy" || from.Stored {
		return err
	}
	return im.Commit("policy", from.Number, func(t *records.Tx) (int, error) {
		rec, err := readTx(t, p.at.Name)
		switch {
		case err != nil:
			return 0, err
		case (rec == nil) != (p.seen == 1) || rec != nil && rec.version(m.Version) != nil:
			return 0, fault.Errorf(fault.Conflict, "import_conflict", "policy %q was changed meanwhile", p.at.Name)
		case rec == nil:
			rec = &record{Name: p.at.Name, CreatedAt: p.at.Created.UTC(), Live: m.Version}
		}
		digest := plan.Digest(sha256.Sum256(m.Module))
		entry := versionEntry{Version: m.Version, Digest: digest[:], Size: len(m.Module), CreatedAt: m.Created.UTC(),
			SetBack: m.SetBack}
		if err := p.svc.addVersion(t, rec, entry, p.facts[digest], m.Module); err != nil {
			return 0, err
		}
		stored := 0
		if p.last() {
			stored = 1
			rec.Last, rec.Live, rec.Before = p.at.Last, p.at.Live, p.at.Before
			live := VersionName(rec.Name, rec.Live) + " is live"
			if err := tenant.Audit(t, im.Caller, "policy.import", rec.Name, live); err != nil {
				return 0, err
			}
		}
		return stored, t.PutJSON(records.Policy.Key(rec.Name), rec)
	})
}
