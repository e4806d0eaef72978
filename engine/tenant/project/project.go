// Package project manages projects. project.go defines a project's record, and settings.go its settings. Other packages
// read the project first in every request.
//
// Service.Read reads a project together with other records in one round trip. The keys of the other records contain the
// project's incarnation, which tells projects of the same name apart. Read guesses it from the last time it read the
// project, and checks the guess.
package project

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// Service manages projects and their settings. It is safe for concurrent use once Pipelines is set.
type Service struct {
	db       *records.DB
	memo     records.Memo[Record]
	defaults Settings

	// Operator is the operator's configuration of upstreams. engine.New sets it.
	Operator provider.Operator
	// HasStatic says that the operator configured a static embedding model. engine.New sets it.
	HasStatic bool
	// Pipelines checks pipelines. The package that knows policies imports this one, so engine.New sets it.
	Pipelines Pipelines
}

// New returns a Service. defaults are the settings of projects that set none; nil means the built-in ones.
func New(db *records.DB, defaults *Settings) *Service {
	if defaults == nil {
		own := BuiltIn()
		defaults = &own
	}
	return &Service{db: db, defaults: *defaults}
}

// Spec holds the fields of a project that clients can set.
type Spec struct {
	Name string `json:"name,omitempty"` // at most 256 bytes
}

func (s Spec) check() error {
	if len(s.Name) > 256 {
		return fault.InvalidField("name", "too_long", "must be at most 256 bytes")
	}
	return nil
}

// Project is one configured agent.
type Project struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// Record is a stored project.
type Record struct {
	Project
	Incarnation ident.Incarnation `json:"incarnation"`
	// Set holds only the settings that were set, as a JSON object; the others have their defaults.
	Set json.RawMessage `json:"settings,omitempty"`
	// Secrets are the providers' keys for the project's upstreams.
	Secrets map[string]secret `json:"secrets,omitempty"`
	// Recalls means that transcripts are searched, so each turn must be indexed.
	Recalls bool `json:"recalls,omitempty"`

	setup atomic.Pointer[Setup] // computed once per decoded record
}

// empty reports whether this is the project that every tenant begins with, and nothing was set in it yet.
func (p *Record) empty() bool {
	return p.ID == ident.DefaultProject && p.Name == "" && (len(p.Set) == 0 || string(p.Set) == "{}")
}

func notFound(id string) error { return fault.Errorf(fault.NotFound, "not_found", "no project %q", id) }

// reaches returns not_found if the caller's key does not reach the project with that id, as if it did not exist, and
// key_narrowed if the key is narrowed to namespaces and the operation has not chosen one.
func reaches(c ident.Caller, id string) error {
	if !ident.ValidID(id) || !c.MaySee(id) {
		return notFound(id)
	}
	return c.Confined()
}

// Read reads a project, and in the same round trip the records whose keys more returns for the project's incarnation;
// more may be nil. items are those records in the order of their keys, and raw is the project's stored record. The
// caller must not change the Record, which other requests share. It returns not_found if there is no such project or
// the caller's key does not reach it.
func (svc *Service) Read(ctx context.Context, c ident.Caller, id string, more func(ident.Incarnation) [][]byte,
) (p *Record, items []store.Item, raw []byte, err error) {
	if err := reaches(c, id); err != nil {
		return nil, nil, nil, err
	}
	keys := make([][]byte, 1, 4)
	keys[0] = records.Project.Key(id)
	guess := svc.Peek(c.Tenant, id)
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
			return nil, nil, nil, notFound(id)
		}
		p, err := svc.memo.Decode(ident.Join(c.Tenant, id), r.Keys[0].Value)
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

// Find reads only a project. It returns not_found like Read.
func (svc *Service) Find(ctx context.Context, c ident.Caller, id string) (*Record, error) {
	p, _, _, err := svc.Read(ctx, c, id, nil)
	return p, err
}

// Peek returns a project as this process last read it; nil if it never did. It may be stale, so use it only for a guess
// that is checked later.
func (svc *Service) Peek(tenant, id string) *Record { return svc.memo.Peek(ident.Join(tenant, id)) }

// Project reads a project and expects it unchanged at commit, so that nothing is written into a deleted project. It
// returns not_found like Read.
func (svc *Service) Project(t *records.Tx, c ident.Caller, id string) (*Record, error) {
	p, _, raw, err := svc.Read(t.Ctx, c, id, nil)
	if err == nil {
		t.Batch.Expect = append(t.Batch.Expect, store.Expect{Key: records.Project.Key(id), Value: raw})
	}
	return p, err
}

// change reads a project in order to change it. It returns not_found if there is none.
func change(t *records.Tx, id string) (*Record, error) {
	p, err := records.GetTx[Record](t, records.Project.Key(id))
	if err == nil && p == nil {
		err = notFound(id)
	}
	return p, err
}

// NewSpec is a project to create.
type NewSpec struct {
	ID string `json:"id"`
	Spec
}

// Create creates a project. It returns project_exists if there is one with this id, and the errors of Put.
func (svc *Service) Create(ctx context.Context, c ident.Caller, once ident.Once, spec NewSpec) (Project, error) {
	if err := cmp.Or(ident.CheckID("id", spec.ID), spec.check(), reaches(c, spec.ID)); err != nil {
		return Project{}, err
	}
	return records.Update(ctx, svc.db, c, once, func(t *records.Tx) (Project, error) {
		rec, err := records.GetTx[Record](t, records.Project.Key(spec.ID))
		if err != nil {
			return Project{}, err
		}
		if rec != nil {
			return Project{}, fault.Errorf(fault.Conflict, "project_exists", "project %q exists", spec.ID)
		}
		rec = &Record{Project: Project{ID: spec.ID, Name: spec.Name, CreatedAt: t.Now}, Incarnation: svc.db.NewIncarnation()}
		return rec.Project, t.PutJSON(records.Project.Key(spec.ID), rec)
	})
}

// Put creates a project or renames an existing one. It returns invalid_id or too_long if the id or the name is invalid,
// and not_found if the key does not reach the project.
func (svc *Service) Put(ctx context.Context, c ident.Caller, id string, spec Spec) (p Project, created bool,
	err error) {
	if err := ident.CheckID("project", id); err != nil {
		return p, false, err
	}
	if err := spec.check(); err != nil {
		return p, false, err
	}
	if err := reaches(c, id); err != nil {
		return p, false, err
	}
	p, err = records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (Project, error) {
		rec, err := records.GetTx[Record](t, records.Project.Key(id))
		if err != nil {
			return Project{}, err
		}
		if created = rec == nil; created {
			rec = &Record{Project: Project{ID: id, CreatedAt: t.Now}, Incarnation: svc.db.NewIncarnation()}
		}
		rec.Name = spec.Name
		return rec.Project, t.PutJSON(records.Project.Key(id), rec)
	})
	return p, created, err
}

// Get returns a project, or not_found.
func (svc *Service) Get(ctx context.Context, c ident.Caller, id string) (Project, error) {
	p, err := svc.Find(ctx, c, id)
	if err != nil {
		return Project{}, err
	}
	return p.Project, nil
}

// List pages through the projects that the key reaches, by id.
func (svc *Service) List(ctx context.Context, c ident.Caller, page records.Page) (records.List[Project], error) {
	return records.ListPage(ctx, svc.db, c.Tenant, records.Project.All(), page,
		func(_ []byte, p *Record) (Project, bool) { return p.Project, c.MaySee(p.ID) })
}

// Delete makes a project's sessions, settings and decisions unreachable at once, and leaves a job that sweeps them. It
// returns not_found if the key does not reach the project.
func (svc *Service) Delete(ctx context.Context, c ident.Caller, id string) error {
	if err := reaches(c, id); err != nil {
		return err
	}
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (struct{}, error) {
		rec, err := change(t, id)
		if err != nil {
			return struct{}{}, err
		}
		t.Delete(records.Project.Key(id))
		t.Put(records.ProjectJob.Key(rec.Incarnation), []byte{0})
		return struct{}{}, nil
	})
	return err
}

// Living returns the incarnations of all of a tenant's projects.
func (svc *Service) Living(ctx context.Context, tenant string) (map[ident.Incarnation]bool, error) {
	living := map[ident.Incarnation]bool{}
	for it, err := range records.Each[Record](ctx, svc.db, tenant, records.Project.All()) {
		if err != nil {
			return nil, err
		}
		living[it.Value.Incarnation] = true
	}
	return living, nil
}

// OfEach turns a function that works on one project into the piece of a daily job (see jobs.Daily) that works on all of
// them, in the order of their ids. A position in the job is the project's id, a zero byte, and the position that one
// returned for the project. Projects that are damaged or were deleted in the meantime are skipped.
func (svc *Service) OfEach(one func(ctx context.Context, tenant string, p *Record, s Settings, at []byte) (
	removed int, next []byte, err error)) func(context.Context, string, []byte) (int, []byte, error) {
	return func(ctx context.Context, tenant string, at []byte) (int, []byte, error) {
		id, within, _ := bytes.Cut(at, []byte{records.Sep})
		rng := records.Project.All()
		rng.From, rng.Limit = append(rng.From, id...), 2
		r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
		if err != nil || len(r.Ranges[0]) == 0 {
			return 0, nil, err
		}
		found := r.Ranges[0]
		place := func(it store.Item) []byte { return bytes.Clone(it.Key[2:]) } // the id and a zero byte
		here := place(found[0])
		if !bytes.Equal(here[:len(here)-1], id) || len(within) == 0 {
			within = nil // the position belongs to a deleted project, not to the next one
		}
		var following []byte
		if len(found) > 1 {
			following = place(found[1])
		}
		p := new(Record)
		if found[0].Damaged || json.Unmarshal(found[0].Value, p) != nil {
			svc.db.Log.Error("a project's record is damaged; its data is not held against its retention",
				"tenant", tenant)
			return 0, following, nil
		}
		s, err := svc.WithDefaults(p.Set)
		if err != nil {
			return 0, nil, err
		}
		removed, next, err := one(ctx, tenant, p, s, within)
		switch {
		case fault.IsNotFound(err): // deleted in the meantime
			return removed, following, nil
		case err == nil && next != nil:
			following = append(here, next...)
		}
		return removed, following, err
	}
}
