package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// ProjectSpec is what a client may say of a project.
type ProjectSpec struct {
	Name string `json:"name,omitempty"`
}

// Project is one configured agent.
type Project struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// project reads a project and expects it unchanged at commit, so that nothing is written into one that was deleted.
func (t *tx) project(c Caller, id string) (*project, error) {
	p, _, raw, err := t.e.readProject(t.ctx, c, id, nil)
	if err == nil {
		t.batch.Expect = append(t.batch.Expect, store.Expect{Key: kindProject.Key(id), Value: raw})
	}
	return p, err
}

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
	keys[0] = kindProject.Key(id)
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

// PutProject makes a project or renames it. It answers invalid_id or too_long where the id or the name is wrong, and
// not_found where the key does not reach such a project.
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
		got, err := t.get(kindProject.Key(id))
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
		return rec.Project, t.putJSON(kindProject.Key(id), rec)
	})
	return p, created, err
}

// GetProject describes a project, or answers not_found.
func (e *Engine) GetProject(ctx context.Context, c Caller, id string) (Project, error) {
	p, _, _, err := e.readProject(ctx, c, id, nil)
	if err != nil {
		return Project{}, err
	}
	return p.Project, nil
}

// ListProjects pages through the projects that the key reaches, by id.
func (e *Engine) ListProjects(ctx context.Context, c Caller, page Page) (List[Project], error) {
	return listPage(ctx, e, c.Tenant, kindProject.All(), page, func(_ []byte, p *project) (Project, bool) {
		return p.Project, c.MaySee(p.ID)
	})
}

// ofEachProject makes a kind out of what is done project by project, in the order of their ids. A place is the
// project's id, a zero byte, and a place within the project.
func (e *Engine) ofEachProject(expire func(ctx context.Context, tenant string, p *project, s Settings, at []byte) (
	removed int, next []byte, err error)) func(context.Context, string, []byte) (int, []byte, error) {
	return func(ctx context.Context, tenant string, at []byte) (int, []byte, error) {
		id, within, _ := bytes.Cut(at, []byte{sep})
		all := kindProject.All()
		all.From, all.Limit = append(all.From, id...), 2
		r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{all}})
		if err != nil || len(r.Ranges[0]) == 0 {
			return 0, nil, err
		}
		found := r.Ranges[0]
		name := func(it store.Item) []byte { return it.Key[2 : len(it.Key)-1] }
		if !bytes.Equal(name(found[0]), id) || len(within) == 0 {
			within = nil // it was deleted meanwhile, and this is the next one
		}
		var following []byte
		if len(found) > 1 {
			following = append(bytes.Clone(name(found[1])), sep)
		}
		p := new(project)
		if found[0].Damaged || json.Unmarshal(found[0].Value, p) != nil {
			e.log.Error("a project's record is damaged; its data is not held against its retention", "tenant", tenant)
			return 0, following, nil
		}
		s, err := e.settings(p.Set)
		if err != nil {
			return 0, nil, err
		}
		removed, next, err := expire(ctx, tenant, p, s, within)
		if gone, ok := errors.AsType[*Error](err); ok && gone.Kind == NotFound {
			return removed, following, nil // deleted meanwhile
		}
		if err == nil && next != nil {
			following = append(append(bytes.Clone(name(found[0])), sep), next...)
		}
		return removed, following, err
	}
}

func (e *Engine) livingProjects(ctx context.Context, tenant string) (map[incarnation]bool, error) {
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{kindProject.All()}})
	if err != nil {
		return nil, err
	}
	living := map[incarnation]bool{}
	for _, it := range r.Ranges[0] {
		var p project
		if it.Damaged {
			return nil, errDamaged
		}
		if err := json.Unmarshal(it.Value, &p); err != nil {
			return nil, err
		}
		living[p.Incarnation] = true
	}
	return living, nil
}

// deleteProject makes a project's sessions, settings and decisions unreachable at once, and leaves a job that sweeps
// them.
func (e *Engine) deleteProject(ctx context.Context, c Caller, id string) error {
	if !validID(id) || !c.MaySee(id) {
		return errorf(NotFound, "not_found", "no project %q", id)
	}
	_, err := update(ctx, e, c, Once{}, func(t *tx) (struct{}, error) {
		got, err := t.get(kindProject.Key(id))
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
		t.delete(kindProject.Key(id))
		t.put(kindProjectJob.Key(rec.Incarnation), []byte{0})
		return struct{}{}, nil
	})
	return err
}
