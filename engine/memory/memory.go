// Package memory keeps long-term memories: facts, daily notes and context of conversations, each under a key, with what
// it was before. A reader finds here what clients do with one memory, in spec.go what a memory may say, in record.go
// how it is stored, and in list.go, filter.go and entry.go how many are found by time.
//
// The hard idea is that a memory is several records which must never disagree: the memory itself, its earlier versions,
// an entry in the index by time, one in the expiry index, and its documents in the index that recall searches. One
// commit writes all of them. The record of the memory is what that commit expects unchanged, so the others need no
// precondition.
package memory

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Service keeps the memories of all projects. Safe for concurrent use.
type Service struct {
	db       *records.DB
	projects *project.Service
	index    *index.Service
	quota    Quota
	tallies  *records.Tallies // nil: no quota
}

// New makes the room. The quota bounds what each tenant may keep.
func New(db *records.DB, projects *project.Service, documents *index.Service, q Quota) *Service {
	svc := &Service{db: db, projects: projects, index: documents, quota: q}
	svc.tallies = svc.newTallies()
	return svc
}

// Memory is one thing remembered, as of one version. KeyID and Agent say who wrote that version.
type Memory struct {
	Key string `json:"key"`
	// Namespace is a tuple of names, outermost first. A key means another memory in each namespace.
	Namespace  []string   `json:"namespace,omitempty"`
	Content    string     `json:"content"`
	Category   string     `json:"category"`
	Tags       []string   `json:"tags"`
	Source     string     `json:"source"`
	SessionID  *string    `json:"session_id"`
	Importance float64    `json:"importance"` // 0 to 1
	ExpiresAt  *time.Time `json:"expires_at"`
	OccurredAt *time.Time `json:"occurred_at,omitempty"` // when what the memory says happened; nil: not known
	// Metadata is what programs filter by: texts, numbers and truth values. Value is any JSON that they keep.
	Metadata  map[string]json.RawMessage `json:"metadata,omitempty"`
	Value     json.RawMessage            `json:"value,omitempty"`
	Version   int                        `json:"version"`    // counts from 1
	CreatedAt time.Time                  `json:"created_at"` // of the first version
	UpdatedAt time.Time                  `json:"updated_at"` // of this one
	KeyID     string                     `json:"key_id"`
	Agent     string                     `json:"agent"`
	// ETag names this version for If-Match and If-None-Match; empty for earlier versions and damaged memories. It is not
	// stored.
	ETag string `json:"etag,omitempty"`
	// Damaged says that the stored bytes fail their checksum: the content is lost.
	Damaged bool `json:"damaged,omitempty"`
}

// Damaged is the code of the error that a memory cannot be read.
const Damaged = "memory_damaged"

func errDamaged(key string) error {
	return fault.Errorf(fault.Conflict, Damaged,
		"what is stored of the memory %q fails its checksum; forget it, then store it again", key)
}

func isDamaged(err error) bool {
	known, ok := errors.AsType[*fault.Error](err)
	return ok && known.Code == Damaged
}

// stored is the answer to Store as it is kept for an idempotent request. It holds nothing that the client said, because
// what is forgotten must be nowhere. The rest of the answer is taken from the request, which is the same, for as long
// as the memory is there.
type stored struct {
	Incarnation ident.Incarnation `json:"incarnation"`
	Made        string            `json:"made,omitempty"` // the key, where the client named none
	Created     bool              `json:"created,omitempty"`
	Version     int               `json:"version"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	ExpiresAt   *time.Time        `json:"expires_at,omitempty"`
	Changed     []string          `json:"changed,omitempty"` // names of fields
}

// Store keeps a memory. The same key overwrites all of it, and what was before goes to its history. It answers the
// codes of Spec, quota_exceeded where the tenant may keep no more, memory_damaged where what is stored under the key
// cannot be read, not_found where the key does not reach the project, and memory_forgotten where the same request
// stored a memory before that is gone now.
func (svc *Service) Store(ctx context.Context, c ident.Caller, once ident.Once, projectID string, spec Spec) (
	m Memory, created bool, err error,
) {
	return svc.StoreIf(ctx, c, once, projectID, spec, Precondition{})
}

// StoreIf is Store with a precondition. It answers version_mismatch where the memory is not as expected, and required
// where a memory without a key is to match something.
func (svc *Service) StoreIf(ctx context.Context, c ident.Caller, once ident.Once, projectID string, spec Spec,
	expected Precondition) (m Memory, created bool, err error) {
	if spec.Key == "" && len(expected.Match) > 0 {
		return m, false, fault.InvalidField("key", "required", "If-Match needs the key of a memory")
	}
	if err := spec.complete(); err != nil {
		return Memory{}, false, err
	}
	room := svc.tallies.Reserve(c.Tenant)
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (stored, error) {
		return svc.store(t, c, projectID, &spec, &expected, room)
	})
	room.End(err == nil)
	if err != nil {
		return Memory{}, false, err
	}
	m = spec.memory(c)
	if m.Key == "" {
		m.Key = out.Made
	}
	if once.Key != "" {
		if err := svc.stillThere(ctx, c, projectID, m.ID(), out); err != nil {
			return Memory{}, false, err
		}
	}
	m.Version, m.CreatedAt, m.UpdatedAt, m.ExpiresAt = out.Version, out.CreatedAt, out.UpdatedAt, out.ExpiresAt
	m.ETag = etag(out.Version, out.Incarnation)
	return m, out.Created, nil
}

// stillThere answers memory_forgotten where the memory that an idempotent request stored was forgotten or has expired
// since. Answering that it is stored would be wrong, and would show its text after it was forgotten.
func (svc *Service) stillThere(ctx context.Context, c ident.Caller, projectID, key string, out stored) error {
	_, rec, err := svc.live(ctx, c, projectID, key)
	switch {
	case isDamaged(err):
		return nil
	case err != nil && !fault.IsNotFound(err):
		return err
	case err == nil && rec.Incarnation == out.Incarnation:
		return nil
	}
	return fault.Errorf(fault.Gone, "memory_forgotten",
		"this request stored the memory %q, which is gone since; it is not stored again. To store it anew, "+
			"use another Idempotency-Key", key)
}

// store collects the writes that make the spec its key's next version.
func (svc *Service) store(t *records.Tx, c ident.Caller, projectID string, spec *Spec, expected *Precondition,
	room *records.Reservation) (out stored, err error) {
	p, err := svc.projects.Project(t, c, projectID)
	if err != nil {
		return out, err
	}
	rec := &Record{Memory: spec.memory(c)}
	if rec.Key == "" {
		rec.Key = svc.db.NewID("mem_", 10)
	}
	old, err := svc.expect(t, p.Incarnation, rec.ID())
	if err == nil {
		err = expected.check(rec.ID(), old.live(t.Now))
	}
	if err != nil {
		return out, err
	}
	out, err = svc.storeOver(t, p, spec, rec, old, nil, room)
	if spec.Key == "" {
		out.Made = rec.Key
	}
	return out, err
}

// storeOver collects the writes that put a record over old, which is nil where its name is free. Goes, where it is not
// nil, is a memory that the same commit removes.
func (svc *Service) storeOver(t *records.Tx, p *project.Record, spec *Spec, rec, old, goes *Record,
	room *records.Reservation) (out stored, err error) {
	rec.Version, rec.CreatedAt, rec.UpdatedAt = 1, t.Now, t.Now
	if rec.ExpiresAt, err = svc.expiry(p, spec, t.Now); err != nil {
		return out, err
	}
	if out.Created = old == nil || old.expired(t.Now); out.Created {
		rec.Incarnation = svc.db.NewIncarnation()
		old.deleteHistory(t, p.Incarnation)
	} else if err := rec.succeed(t, p.Incarnation, old); err != nil {
		return out, err
	}
	change := replacing(old, rec)
	change.Add(replacing(goes, nil))
	if err := svc.hold(t.Ctx, room, change); err != nil {
		return out, err
	}
	out.Incarnation = rec.Incarnation
	out.Version, out.CreatedAt, out.UpdatedAt, out.ExpiresAt = rec.Version, rec.CreatedAt, rec.UpdatedAt, rec.ExpiresAt
	return out, svc.put(t, p.Incarnation, rec, old)
}

// expiry is when a memory that is stored now expires; nil for never. A later change of the project's setting moves no
// memory that is stored already.
func (svc *Service) expiry(p *project.Record, spec *Spec, now time.Time) (*time.Time, error) {
	if spec.ExpiresAt != nil {
		at := records.ToTheMillisecond(*spec.ExpiresAt)
		if !at.After(now) || at.After(now.Add(maxFuture)) {
			return nil, fault.InvalidField("expires_at", "out_of_range", "must lie in the future, at most 100 years; "+
				"now is %s", now.Format(time.RFC3339))
		}
		return &at, nil
	}
	if spec.Category != Daily {
		return nil, nil
	}
	settings, err := svc.projects.WithDefaults(p.Set)
	if err != nil {
		return nil, err
	}
	at := now.AddDate(0, 0, settings.DailyMemoryDays)
	return &at, nil
}

// ID is the full name of a memory, by which it is found: the key itself where there is no namespace.
func ID(namespace []string, key string) string { return ident.FullName(namespace, key) }

// Get answers a memory by its full name. It answers not_found where there is none, and memory_damaged where it cannot be read.
func (svc *Service) Get(ctx context.Context, c ident.Caller, projectID, key string) (Memory, error) {
	_, rec, err := svc.live(ctx, c, projectID, key)
	if err != nil {
		return Memory{}, err
	}
	return rec.Memory, nil
}

// live reads a memory that must be there, with its project.
func (svc *Service) live(ctx context.Context, c ident.Caller, projectID, id string) (
	*project.Record, *Record, error,
) {
	p, _, _, err := svc.projects.Read(ctx, c, projectID, nil)
	if err != nil {
		return nil, nil, err
	}
	if !ident.ValidFullName(id) {
		return nil, nil, fault.Errorf(fault.NotFound, "not_found", "no such memory")
	}
	found, err := svc.readAll(ctx, c.Tenant, p, []string{id})
	switch {
	case err != nil:
	case found[0] == nil:
		err = noMemory(id)
	case found[0].Damaged:
		err = errDamaged(id)
	default:
		return p, found[0], nil
	}
	return nil, nil, err
}

// settle removes the words of memories that are gone from a project's index, also of those that were overwritten before.
func (svc *Service) settle(ctx context.Context, tenant string, pinc ident.Incarnation) {
	if _, err := svc.index.Settle(ctx, tenant, index.Memories(pinc)); err != nil {
		svc.db.Log.Warn("words of a memory that is gone are still indexed; the index's job removes them", "tenant", tenant,
			"error", err)
	}
}

// Expire removes a memory that is past its time, whole and in one commit, with the entry of the expiry index that named
// it. Due is the key of that entry.
func (svc *Service) Expire(ctx context.Context, tenant string, due []byte) error {
	pinc, key, _ := records.Memory.Split(records.SplitExpiry(due))
	expire := func(t *records.Tx) (struct{}, error) {
		rec, err := svc.expect(t, pinc, key)
		switch {
		case isDamaged(err):
			t.Delete(due)
			_, err = svc.deleteDamaged(t, pinc, key, nil)
		case err != nil:
		case rec == nil || !rec.expired(t.Now):
			t.Delete(due)
		default:
			err = svc.delete(t, pinc, rec)
		}
		return struct{}{}, err
	}
	_, err := records.Update(ctx, svc.db, ident.Caller{Tenant: tenant}, ident.Once{}, expire)
	if err == nil {
		svc.settle(ctx, tenant, pinc)
	}
	return err
}
