package project

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// Part is what a tenant's file holds of projects. Whether a policy is known, and whether settings can be used,
// is told by those who know policies.
type Part struct {
	transfer.SimplePart
	E      *Service
	Knows  func(im *transfer.Importing, policy string) error
	Usable func(t *records.Tx, s Settings) error
}

func (*Part) Types() []string { return []string{"project"} }

// line is a project with the settings that were set.
type line struct {
	transfer.FileLine
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Created  time.Time       `json:"created_at"`
	Settings json.RawMessage `json:"settings,omitempty"`
}

// Each visits the tenant's projects by id.
func Each(x *transfer.Exporting, visit func(*Record) error) error {
	return transfer.EachExported(x, records.Project.All(), visit)
}

func (*Part) Export(x *transfer.Exporting) error {
	return Each(x, func(p *Record) error {
		return x.Put(line{transfer.FileLine{Type: "project"}, p.ID, p.Name, p.CreatedAt, p.Set})
	})
}

// read reads a line and holds it against all that does not depend on the store.
func (p *Part) read(line *transfer.ImportLine) (in line, s Settings, err error) {
	if err := line.Into(&in); err != nil {
		return in, s, err
	}
	if err := ident.CheckID("id", in.ID); err != nil {
		return in, s, err
	}
	if len(in.Name) > 256 {
		return in, s, fault.InvalidField("name", "too_long", "must be at most 256 bytes")
	}
	if s, err = p.E.WithDefaults(in.Settings); err != nil {
		return in, s, fault.InvalidField("settings", "invalid_value", "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return in, s, s.check()
}

func (p *Part) Check(im *transfer.Importing, line *transfer.ImportLine) error {
	in, s, err := p.read(line)
	if err != nil {
		return err
	}
	for _, step := range s.Pipeline {
		name, _, _ := strings.Cut(step.Policy, "@")
		if err := p.Knows(im, name); err != nil {
			return err
		}
	}
	if err := im.Claim("project", in.ID); err != nil {
		return err
	}
	have, _, _, err := p.E.Read(im.Ctx, im.Caller, in.ID, nil)
	if fault.IsNotFound(err) {
		return nil
	}
	if err == nil && !have.empty() {
		im.Conflict(line, "project %q exists", in.ID)
	}
	return err
}

// empty tells whether a project is the one that every tenant is born with, and says nothing yet.
func (p *Record) empty() bool {
	return p.ID == ident.DefaultProject && p.Name == "" && (len(p.Set) == 0 || string(p.Set) == "{}")
}

func (p *Part) Store(im *transfer.Importing, line *transfer.ImportLine) error {
	in, s, err := p.read(line)
	if err != nil || line.Stored {
		return err
	}
	return im.Commit("project", line.Number, func(t *records.Tx) (int, error) {
		got, err := t.Get(records.Project.Key(in.ID))
		if err != nil {
			return 0, err
		}
		rec := &Record{Project: Project{ID: in.ID, CreatedAt: in.Created.UTC()}, Incarnation: p.E.db.NewIncarnation()}
		if got[0].Value != nil {
			if err := json.Unmarshal(got[0].Value, rec); err != nil {
				return 0, err
			}
			if !rec.empty() {
				return 0, fault.Errorf(fault.Conflict, "import_conflict", "project %q was made meanwhile", in.ID)
			}
		}
		rec.Name, rec.Set = in.Name, in.Settings
		if err := p.Usable(t, s); err != nil {
			return 0, err
		}
		return 1, t.PutJSON(records.Project.Key(in.ID), rec)
	})
}
