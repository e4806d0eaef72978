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

// part reads and writes the projects in a tenant's file.
type part struct {
	transfer.SimplePart
	svc    *Service
	knows  func(im *transfer.Importing, policy string) error
	usable func(t *records.Tx, s Settings) error
}

// Part returns the projects' part of a tenant's file. knows refuses the name of a policy that neither the file nor the
// tenant has; usable refuses settings that cannot be stored with t.
func (svc *Service) Part(knows func(im *transfer.Importing, policy string) error,
	usable func(t *records.Tx, s Settings) error) transfer.Part {
	return &part{svc: svc, knows: knows, usable: usable}
}

// Types returns the types of the part's lines.
func (*part) Types() []string { return []string{"project"} }

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

// Export writes a line for each project.
func (*part) Export(x *transfer.Exporting) error {
	return Each(x, func(p *Record) error {
		return x.Put(line{transfer.FileLine{Type: "project"}, p.ID, p.Name, p.CreatedAt, p.Set})
	})
}

// read reads a line and checks all of it that does not depend on the store.
func (p *part) read(from *transfer.ImportLine) (in line, s Settings, err error) {
	if err := from.Into(&in); err != nil {
		return in, s, err
	}
	if err := ident.CheckID("id", in.ID); err != nil {
		return in, s, err
	}
	if err := (Spec{Name: in.Name}).check(); err != nil {
		return in, s, err
	}
	if s, err = p.svc.WithDefaults(in.Settings); err != nil {
		return in, s, fault.InvalidField("settings", "invalid_value", "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return in, s, s.check()
}

// Check refuses an invalid project, and notes a project whose id is taken.
func (p *part) Check(im *transfer.Importing, from *transfer.ImportLine) error {
	in, s, err := p.read(from)
	if err != nil {
		return err
	}
	for _, step := range s.Steps() {
		name, _, _ := strings.Cut(step.Policy, "@")
		if err := p.knows(im, name); err != nil {
			return err
		}
	}
	if err := im.Claim("project", in.ID); err != nil {
		return err
	}
	have, err := p.svc.Find(im.Ctx, im.Caller, in.ID)
	if fault.IsNotFound(err) {
		return nil
	}
	if err == nil && !have.empty() {
		im.Conflict(from, "project %q exists", in.ID)
	}
	return err
}

// Store stores a project. It replaces the one that every tenant begins with if the ids are equal.
func (p *part) Store(im *transfer.Importing, from *transfer.ImportLine) error {
	in, s, err := p.read(from)
	if err != nil || from.Stored {
		return err
	}
	return im.Commit("project", from.Number, func(t *records.Tx) (int, error) {
		rec, err := records.GetTx[Record](t, records.Project.Key(in.ID))
		switch {
		case err != nil:
			return 0, err
		case rec == nil:
			rec = &Record{Project: Project{ID: in.ID, CreatedAt: in.Created.UTC()},
				Incarnation: p.svc.db.NewIncarnation()}
		case !rec.empty():
			return 0, fault.Errorf(fault.Conflict, "import_conflict", "project %q was made meanwhile", in.ID)
		}
		rec.Name, rec.Set = in.Name, in.Settings
		if err := p.usable(t, s); err != nil {
			return 0, err
		}
		return 1, t.PutJSON(records.Project.Key(in.ID), rec)
	})
}
