package engine

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// projectLine is a project with the settings that were set.
type projectLine struct {
	fileLine
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Created  time.Time       `json:"created_at"`
	Settings json.RawMessage `json:"settings,omitempty"`
}

// eachProject visits the tenant's projects by id, a page at a time.
func (x *exporting) eachProject(visit func(*project) error) error {
	rng := prefixRange(projectKey("")[:2])
	rng.Limit = 64
	for {
		r, err := x.e.store.Read(x.ctx, x.caller.Tenant, store.Query{Ranges: []store.Range{rng}})
		if err != nil {
			return err
		}
		for _, it := range r.Ranges[0] {
			if it.Damaged {
				return errDamaged
			}
			p := new(project)
			if err := json.Unmarshal(it.Value, p); err != nil {
				return err
			}
			if err := visit(p); err != nil {
				return err
			}
			rng.From = append(it.Key, 0)
		}
		if len(r.Ranges[0]) < rng.Limit {
			return nil
		}
	}
}

func exportProjects(x *exporting) error {
	return x.eachProject(func(p *project) error {
		return x.put("project", projectLine{fileLine{"project"}, p.ID, p.Name, p.CreatedAt, p.Set})
	})
}

// project reads a line and holds it against all that does not depend on the store.
func (im *importing) project(line *importLine) (in projectLine, s Settings, err error) {
	if err := line.into(&in); err != nil {
		return in, s, err
	}
	if err := checkID("id", in.ID); err != nil {
		return in, s, err
	}
	if len(in.Name) > 256 {
		return in, s, invalidField("name", "too_long", "must be at most 256 bytes")
	}
	if s, err = im.e.settings(in.Settings); err != nil {
		return in, s, invalidField("settings", "invalid_value", "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return in, s, s.check()
}

func checkProject(im *importing, line *importLine) error {
	in, s, err := im.project(line)
	if err != nil {
		return err
	}
	for _, step := range s.Pipeline {
		name, _, _ := strings.Cut(step.Policy, "@")
		if err := im.knowsPolicy(name); err != nil {
			return err
		}
	}
	im.projects[in.ID] = true
	p, _, _, err := im.e.readProject(im.ctx, im.caller, in.ID, nil)
	if isNotFound(err) {
		return nil
	}
	if err == nil && p.clashes(&in) {
		im.conflict("project %q exists with a name or settings of its own", in.ID)
	}
	return err
}

// knowsPolicy refuses a name that neither the file nor the tenant has a policy for.
func (im *importing) knowsPolicy(name string) error {
	if im.policies[name] || im.e.pipelines.builtIn(name) {
		return nil
	}
	rec, err := im.tx().policy(name)
	if err == nil && rec == nil {
		err = invalidField("settings.pipeline", "unknown_policy", "no policy %q", name)
	}
	return err
}

// clashes tells whether a project says other than the file. One that says nothing yet, as `default` of a new tenant
// does, takes what the file says.
func (p *project) clashes(in *projectLine) bool {
	said := p.Name != "" || len(p.Set) > 0 && string(p.Set) != "{}"
	return said && !(p.Name == in.Name && sameJSON(p.Set, in.Settings))
}

func sameJSON(a, b json.RawMessage) bool {
	var one, two bytes.Buffer
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return json.Compact(&one, a) == nil && json.Compact(&two, b) == nil && bytes.Equal(one.Bytes(), two.Bytes())
}

func storeProject(im *importing, line *importLine) error {
	in, s, err := im.project(line)
	if err != nil {
		return err
	}
	how, err := update(im.ctx, im.e, im.caller, Once{}, func(t *tx) (string, error) {
		got, err := t.get(projectKey(in.ID))
		if err != nil {
			return "", err
		}
		how := "imported"
		rec := &project{Project: Project{ID: in.ID, CreatedAt: in.Created.UTC()}, Incarnation: im.e.newIncarnation()}
		if got[0].Value != nil {
			if err := json.Unmarshal(got[0].Value, rec); err != nil {
				return "", err
			}
			if rec.clashes(&in) {
				if how = "replaced"; im.mode == conflictSkip {
					return "skipped", nil
				}
			}
		}
		rec.Name, rec.Set = in.Name, in.Settings
		if err := im.e.pipelines.check(t, s, true); err != nil {
			return "", err
		}
		return how, t.putJSON(projectKey(in.ID), rec)
	})
	if err == nil {
		im.note(how, "project")
	}
	return err
}
