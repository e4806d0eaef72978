package engine

import (
	"encoding/json"
	"strings"
	"time"
)

// projectPart is what a tenant's file holds of projects. Whether a policy is known, and whether settings can be used,
// is told by those who know policies.
type projectPart struct {
	simplePart
	e      *Engine
	knows  func(im *importing, policy string) error
	usable func(t *tx, s Settings) error
}

func (*projectPart) types() []string { return []string{"project"} }

// projectLine is a project with the settings that were set.
type projectLine struct {
	fileLine
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Created  time.Time       `json:"created_at"`
	Settings json.RawMessage `json:"settings,omitempty"`
}

// eachProject visits the tenant's projects by id.
func eachProject(x *exporting, visit func(*project) error) error {
	return eachExported(x, kindProject.Key("")[:2], visit)
}

func (*projectPart) export(x *exporting) error {
	return eachProject(x, func(p *project) error {
		return x.put(projectLine{fileLine{"project"}, p.ID, p.Name, p.CreatedAt, p.Set})
	})
}

// read reads a line and holds it against all that does not depend on the store.
func (p *projectPart) read(line *importLine) (in projectLine, s Settings, err error) {
	if err := line.into(&in); err != nil {
		return in, s, err
	}
	if err := checkID("id", in.ID); err != nil {
		return in, s, err
	}
	if len(in.Name) > 256 {
		return in, s, invalidField("name", "too_long", "must be at most 256 bytes")
	}
	if s, err = p.e.settings(in.Settings); err != nil {
		return in, s, invalidField("settings", "invalid_value", "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return in, s, s.check()
}

func (p *projectPart) check(im *importing, line *importLine) error {
	in, s, err := p.read(line)
	if err != nil {
		return err
	}
	for _, step := range s.Pipeline {
		name, _, _ := strings.Cut(step.Policy, "@")
		if err := p.knows(im, name); err != nil {
			return err
		}
	}
	if err := im.claim("project", in.ID); err != nil {
		return err
	}
	have, _, _, err := p.e.readProject(im.ctx, im.caller, in.ID, nil)
	if isNotFound(err) {
		return nil
	}
	if err == nil && !have.empty() {
		im.conflict(line, "project %q exists", in.ID)
	}
	return err
}

// empty tells whether a project is the one that every tenant is born with, and says nothing yet.
func (p *project) empty() bool {
	return p.ID == DefaultProject && p.Name == "" && (len(p.Set) == 0 || string(p.Set) == "{}")
}

func (p *projectPart) store(im *importing, line *importLine) error {
	in, s, err := p.read(line)
	if err != nil || line.stored {
		return err
	}
	return im.commit("project", line.number, func(t *tx) (int, error) {
		got, err := t.get(kindProject.Key(in.ID))
		if err != nil {
			return 0, err
		}
		rec := &project{Project: Project{ID: in.ID, CreatedAt: in.Created.UTC()}, Incarnation: p.e.newIncarnation()}
		if got[0].Value != nil {
			if err := json.Unmarshal(got[0].Value, rec); err != nil {
				return 0, err
			}
			if !rec.empty() {
				return 0, errorf(Conflict, "import_conflict", "project %q was made meanwhile", in.ID)
			}
		}
		rec.Name, rec.Set = in.Name, in.Settings
		if err := p.usable(t, s); err != nil {
			return 0, err
		}
		return 1, t.putJSON(kindProject.Key(in.ID), rec)
	})
}
