package engine

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// project is a stored project. Settings holds only what was set; the rest follows the defaults.
type project struct {
	Project
	Incarnation incarnation     `json:"incarnation"`
	Set         json.RawMessage `json:"settings,omitempty"`
	// Recalls says that transcripts are searched, so that turns leave word of what is to be indexed.
	Recalls bool `json:"recalls,omitempty"`

	setup atomic.Pointer[setup] // what the settings say, once per decoded record
}

// readProject reads a project, and in the same round trip the keys that more names for its incarnation.
// A project that is absent or outside the caller's key is not_found either way.
func (e *Engine) readProject(ctx context.Context, c Caller, id string, more func(incarnation) [][]byte,
) (*project, []store.Item, []byte, error) {
	if !validID(id) || !c.MaySee(id) {
		return nil, nil, nil, errorf(NotFound, "not_found", "no project %q", id)
	}
	name := c.Tenant + "/" + id
	keys := make([][]byte, 1, 4)
	keys[0] = projectKey(id)
	guess := e.projects.peek(name)
	if guess != nil && more != nil {
		keys = append(keys, more(guess.Incarnation)...)
	}
	for {
		r, err := e.store.Read(ctx, c.Tenant, store.Query{Keys: keys})
		if err != nil {
			return nil, nil, nil, err
		}
		if r.Keys[0].Damaged {
			return nil, nil, nil, errDamaged
		}
		if r.Keys[0].Value == nil {
			return nil, nil, nil, errorf(NotFound, "not_found", "no project %q", id)
		}
		p, err := e.projects.decode(name, r.Keys[0].Value)
		if err != nil {
			return nil, nil, nil, err
		}
		if more == nil || guess != nil && guess.Incarnation == p.Incarnation {
			return p, r.Keys[1:], r.Keys[0].Value, nil
		}
		guess = p
		keys = append(keys[:1], more(p.Incarnation)...)
	}
}

// PutProject makes a project or renames it.
func (e *Engine) PutProject(ctx context.Context, c Caller, id string, spec ProjectSpec) (p Project, created bool,
	err error) {
	if err := checkID("project", id); err != nil {
		return p, false, err
	}
	if len(spec.Name) > 256 {
		return p, false, invalidField("name", "too_long", "must be at most 256 bytes")
	}
	if !c.MaySee(id) {
		return p, false, errorf(NotFound, "not_found", "no project %q", id)
	}
	p, err = update(ctx, e, c, Once{}, func(t *tx) (Project, error) {
		got, err := t.get(projectKey(id))
		if err != nil {
			return Project{}, err
		}
		rec := &project{Project: Project{ID: id, CreatedAt: t.now}, Incarnation: e.newIncarnation()}
		if created = got[0].Value == nil; !created {
			if err := json.Unmarshal(got[0].Value, rec); err != nil {
				return Project{}, err
			}
		}
		rec.Name = spec.Name
		return rec.Project, t.putJSON(projectKey(id), rec)
	})
	return p, created, err
}

// GetProject describes a project.
func (e *Engine) GetProject(ctx context.Context, c Caller, id string) (Project, error) {
	p, _, _, err := e.readProject(ctx, c, id, nil)
	if err != nil {
		return Project{}, err
	}
	return p.Project, nil
}

// ListProjects pages through the projects that the key reaches, by id.
func (e *Engine) ListProjects(ctx context.Context, c Caller, page Page) (List[Project], error) {
	return listRecords(ctx, e, c.Tenant, projectKey("")[:2], page, func(it store.Item) (Project, bool, error) {
		var p project
		err := json.Unmarshal(it.Value, &p)
		return p.Project, c.MaySee(p.ID), err
	})
}

// DeleteProject makes a project's sessions, settings and decisions unreachable at once; a sweep removes them.
func (e *Engine) DeleteProject(ctx context.Context, c Caller, id string) error {
	if !validID(id) || !c.MaySee(id) {
		return errorf(NotFound, "not_found", "no project %q", id)
	}
	_, err := update(ctx, e, c, Once{}, func(t *tx) (struct{}, error) {
		got, err := t.get(projectKey(id))
		if err != nil {
			return struct{}{}, err
		}
		if got[0].Value == nil {
			return struct{}{}, errorf(NotFound, "not_found", "no project %q", id)
		}
		var rec project
		if err := json.Unmarshal(got[0].Value, &rec); err != nil {
			return struct{}{}, err
		}
		t.delete(projectKey(id))
		t.put(sweepKey(sweepProject, rec.Incarnation[:]), []byte{0})
		return struct{}{}, nil
	})
	e.messageUse.forget(c.Tenant)
	return err
}
