package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Spec is what a client may say of a project.
type Spec struct {
	Name string `json:"name,omitempty"`
}

// Project is one configured agent.
type Project struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// Project reads a project and expects it unchanged at commit, so that nothing is written into one that was deleted.
func (svc *Service) Project(t *records.Tx, c access.Caller, id string) (*Record, error) {
	p, _, raw, err := svc.Read(t.Ctx, c, id, nil)
	if err == nil {
		t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: records.Project.Key(id), Value: raw})
	}
	return p, err
}

// Record is a stored project. Settings holds only what was set; the rest follows the defaults.
type Record struct {
	Project
	Incarnation ident.Incarnation `json:"incarnation"`
	Set         json.RawMessage   `json:"settings,omitempty"`
	// Recalls says that transcripts are searched, so that turns leave word of what is to be indexed.
	Recalls bool `json:"recalls,omitempty"`

	setup atomic.Pointer[Setup] // what the settings say, once per decoded record
}

// Read reads a project, and in the same round trip the keys that more names for its incarnation.
// A project that is absent or outside the caller's key is not_found either way.
func (svc *Service) Read(ctx context.Context, c access.Caller, id string, more func(ident.Incarnation) [][]byte,
) (*Record, []store.Item, []byte, error) {
	if !ident.ValidID(id) || !c.MaySee(id) {
		return nil, nil, nil, fault.Errorf(fault.NotFound, "not_found", "no project %q", id)
	}
	name := c.Tenant + "/" + id
	keys := make([][]byte, 1, 4)
	keys[0] = records.Project.Key(id)
	guess := svc.Memo.Peek(name)
	if guess != nil && more != nil {
		keys = append(keys, more(guess.Incarnation)...)
	}
	for {
		r, err := svc.db.Store.Read(ctx, c.Tenant, store.Query{Keys: keys})
		if err != nil {
			return nil, nil, nil, err
		}
		if r.Keys[0].Damaged {
			return nil, nil, nil, records.ErrDamaged
		}
		if r.Keys[0].Value == nil {
			return nil, nil, nil, fault.Errorf(fault.NotFound, "not_found", "no project %q", id)
		}
		p, err := svc.Memo.Decode(name, r.Keys[0].Value)
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

// Put makes a project or renames it. It answers invalid_id or too_long where the id or the name is wrong, and
// not_found where the key does not reach such a project.
func (svc *Service) Put(ctx context.Context, c access.Caller, id string, spec Spec) (p Project, created bool,
	err error) {
	if err := ident.CheckID("project", id); err != nil {
		return p, false, err
	}
	if len(spec.Name) > 256 {
		return p, false, fault.InvalidField("name", "too_long", "must be at most 256 bytes")
	}
	if !c.MaySee(id) {
		return p, false, fault.Errorf(fault.NotFound, "not_found", "no project %q", id)
	}
	p, err = records.Update(ctx, svc.db, c, access.Once{}, func(t *records.Tx) (Project, error) {
		got, err := t.Get(records.Project.Key(id))
		if err != nil {
			return Project{}, err
		}
		rec := &Record{Project: Project{ID: id, CreatedAt: t.Now}, Incarnation: svc.db.NewIncarnation()}
		if created = got[0].Value == nil; !created {
			if err := json.Unmarshal(got[0].Value, rec); err != nil {
				return Project{}, err
			}
		}
		rec.Name = spec.Name
		return rec.Project, t.PutJSON(records.Project.Key(id), rec)
	})
	return p, created, err
}

// Get describes a project, or answers not_found.
func (svc *Service) Get(ctx context.Context, c access.Caller, id string) (Project, error) {
	p, _, _, err := svc.Read(ctx, c, id, nil)
	if err != nil {
		return Project{}, err
	}
	return p.Project, nil
}

// List pages through the projects that the key reaches, by id.
func (svc *Service) List(ctx context.Context, c access.Caller, page records.Page) (records.List[Project], error) {
	return records.ListPage(ctx, svc.db, c.Tenant, records.Project.All(), page, func(_ []byte, p *Record) (Project, bool) {
		return p.Project, c.MaySee(p.ID)
	})
}

// OfEach makes a kind out of what is done project by project, in the order of their ids. A place is the
// project's id, a zero byte, and a place within the project.
func (svc *Service) OfEach(expire func(ctx context.Context, tenant string, p *Record, s Settings, at []byte) (
	removed int, next []byte, err error)) func(context.Context, string, []byte) (int, []byte, error) {
	return func(ctx context.Context, tenant string, at []byte) (int, []byte, error) {
		id, within, _ := bytes.Cut(at, []byte{records.Sep})
		all := records.Project.All()
		all.From, all.Limit = append(all.From, id...), 2
		r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{all}})
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
			following = append(bytes.Clone(name(found[1])), records.Sep)
		}
		p := new(Record)
		if found[0].Damaged || json.Unmarshal(found[0].Value, p) != nil {
			svc.db.Log.Error("a project's record is damaged; its data is not held against its retention", "tenant", tenant)
			return 0, following, nil
		}
		s, err := svc.WithDefaults(p.Set)
		if err != nil {
			return 0, nil, err
		}
		removed, next, err := expire(ctx, tenant, p, s, within)
		if gone, ok := errors.AsType[*fault.Error](err); ok && gone.Kind == fault.NotFound {
			return removed, following, nil // deleted meanwhile
		}
		if err == nil && next != nil {
			following = append(append(bytes.Clone(name(found[0])), records.Sep), next...)
		}
		return removed, following, err
	}
}

func (svc *Service) Living(ctx context.Context, tenant string) (map[ident.Incarnation]bool, error) {
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{records.Project.All()}})
	if err != nil {
		return nil, err
	}
	living := map[ident.Incarnation]bool{}
	for _, it := range r.Ranges[0] {
		var p Record
		if it.Damaged {
			return nil, records.ErrDamaged
		}
		if err := json.Unmarshal(it.Value, &p); err != nil {
			return nil, err
		}
		living[p.Incarnation] = true
	}
	return living, nil
}

// DeleteProject makes a project's sessions, settings and decisions unreachable at once, and leaves a job that sweeps
// them.
func (svc *Service) DeleteProject(ctx context.Context, c access.Caller, id string) error {
	if !ident.ValidID(id) || !c.MaySee(id) {
		return fault.Errorf(fault.NotFound, "not_found", "no project %q", id)
	}
	_, err := records.Update(ctx, svc.db, c, access.Once{}, func(t *records.Tx) (struct{}, error) {
		got, err := t.Get(records.Project.Key(id))
		if err != nil {
			return struct{}{}, err
		}
		if got[0].Value == nil {
			return struct{}{}, fault.Errorf(fault.NotFound, "not_found", "no project %q", id)
		}
		var rec Record
		if err := json.Unmarshal(got[0].Value, &rec); err != nil {
			return struct{}{}, err
		}
		t.Delete(records.Project.Key(id))
		t.Put(records.ProjectJob.Key(rec.Incarnation), []byte{0})
		return struct{}{}, nil
	})
	return err
}
