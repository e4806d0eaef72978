// Package memory keeps long-term memories: facts, daily notes and context of conversations, each under a key, with its
// earlier versions. This file has the operations on one memory, spec.go its fields and limits, record.go how it is
// stored, and list.go, filter.go and entry.go how memories are listed and found by time.
//
// A memory is several records which must always agree: the memory itself, its earlier versions, an entry in the index
// by time, one in the expiry index, and its documents in the index that recall searches. One commit writes all of them.
// The commit expects the record of the memory unchanged, so the others need no precondition.
package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Service keeps the memories of all projects. It is safe for concurrent use.
type Service struct {
	db       *records.DB
	projects *project.Service
	index    *index.Service
	// transcripts are the messages that memories name as their sources.
	transcripts *session.Service
	quota       Quota
	tallies     *records.Tallies // nil if there is no quota
	lines       *admission.Lines // of writers that policies decide about

	Admission Admission // nil: all are admitted
}

// New returns a Service. The quota limits what each tenant may store.
func New(db *records.DB, projects *project.Service, transcripts *session.Service, documents *index.Service, q Quota) *Service {
	svc := &Service{db: db, projects: projects, transcripts: transcripts, index: documents, quota: q,
		lines: admission.NewLines(longestOf)}
	svc.tallies = svc.newTallies()
	return svc
}

// Memory is one version of a memory. KeyID and Agent say who wrote that version.
type Memory struct {
	Key string `json:"key"`
	// Namespace is a tuple of names, outermost first. The same key names different memories in different namespaces.
	Namespace  []string   `json:"namespace,omitempty"`
	Content    string     `json:"content"`
	Category   string     `json:"category"`
	Tags       []string   `json:"tags"`
	Source     string     `json:"source"`
	SessionID  *string    `json:"session_id"`
	Importance float64    `json:"importance"` // 0 to 1
	ExpiresAt  *time.Time `json:"expires_at"`
	OccurredAt *time.Time `json:"occurred_at,omitempty"` // when the content happened; nil if unknown
	// Metadata are strings, numbers and booleans that programs filter by. Value is any JSON that they store.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	Value    json.RawMessage            `json:"value,omitempty"`
	Trust    Trust                      `json:"trust,omitempty"` // empty only if the memory is damaged
	// Provenance is nil for versions that earlier builds stored.
	Provenance *Provenance `json:"provenance,omitempty"`
	Pinned     bool        `json:"pinned,omitempty"`   // policies leave the memory alone
	Standing   bool        `json:"standing,omitempty"` // an instruction or a preference for all that comes
	Version    int         `json:"version"`            // counts from 1
	CreatedAt  time.Time   `json:"created_at"`         // of the first version
	UpdatedAt  time.Time   `json:"updated_at"`         // of this version
	KeyID      string      `json:"key_id"`
	Agent      string      `json:"agent"`
	// Merged says, in the answer to a request that stores, that the memory is another one that says the same.
	Merged bool `json:"merged,omitempty"`
	// ETag identifies this version for If-Match and If-None-Match. It is empty for earlier versions and damaged memories,
	// and not stored.
	ETag string `json:"etag,omitempty"`
	// Damaged says that the checksum of the stored bytes is wrong: the content is lost.
	Damaged bool `json:"damaged,omitempty"`
}

// Damaged is the error code for a memory that cannot be read.
const Damaged = "memory_damaged"

func errDamaged(key string) error {
	return fault.Errorf(fault.Conflict, Damaged,
		"the stored memory %q fails its checksum; forget it, then store it again", key)
}

func isDamaged(err error) bool {
	known, ok := errors.AsType[*fault.Error](err)
	return ok && known.Code == Damaged
}

// stored is the response to Store as kept for an idempotent request. It contains nothing that the client sent, because
// forgotten content must not remain anywhere. The rest of the response is read from the version that was stored, as long
// as the memory exists.
type stored struct {
	Incarnation ident.Incarnation `json:"incarnation"`
	Made        string            `json:"made,omitempty"` // the generated key, if the client gave none
	Created     bool              `json:"created,omitempty"`
	Version     int               `json:"version"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	ExpiresAt   *time.Time        `json:"expires_at,omitempty"`
	Changed     []string          `json:"changed,omitempty"` // names of fields
	Merged      string            `json:"merged,omitempty"`  // the full name of the memory that the candidate was merged into
}

// Store stores a memory. It replaces the memory with the same key, and moves that to the history. It returns the errors
// of Spec, quota_exceeded if the tenant may store no more, memory_damaged if the memory stored under the key cannot be
// read, not_found if the caller may not use the project, and memory_forgotten if the same request earlier stored a
// memory that no longer exists.
func (svc *Service) Store(ctx context.Context, c ident.Caller, once ident.Once, projectID string, spec Spec) (
	m Memory, created bool, err error,
) {
	return svc.StoreIf(ctx, c, once, projectID, spec, Precondition{})
}

// StoreIf is like Store with a precondition. It returns version_mismatch if the memory is not as expected, and required
// if a memory without a key is to match something.
func (svc *Service) StoreIf(ctx context.Context, c ident.Caller, once ident.Once, projectID string, spec Spec,
	expected Precondition) (m Memory, created bool, err error) {
	if spec.Key == "" && len(expected.Match) > 0 {
		return m, false, fault.InvalidField("key", "required", "If-Match needs the key of a memory")
	}
	if c, spec.Namespace, err = c.In(spec.Namespace); err != nil {
		return m, false, err
	}
	if err := spec.complete(); err != nil {
		return Memory{}, false, err
	}
	var put *Record // by the last attempt
	var a admitting
	defer a.out()
	room := svc.tallies.Reserve(c.Tenant)
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (out stored, err error) {
		out, put, err = svc.store(t, &a, c, projectID, spec, &expected, room)
		return out, err
	})
	room.End(err == nil)
	id := out.writtenTo(&spec)
	a.end(id, err)
	if err != nil {
		return Memory{}, false, err
	}
	m, err = svc.asStored(ctx, c, projectID, id, put, out)
	return m, out.Created, err
}

// asStored returns the memory as a request stored it. put is the record that the request stored; nil or another version
// if out is the response to an earlier request. It returns the errors of version.
func (svc *Service) asStored(ctx context.Context, c ident.Caller, projectID, id string, put *Record, out stored) (Memory, error) {
	if put != nil && put.Incarnation == out.Incarnation && put.Version == out.Version {
		put.ETag = etag(out.Version, out.Incarnation)
		m := put.Memory
		m.Merged = out.Merged != ""
		return m, nil
	}
	m, err := svc.version(ctx, c, projectID, id, out)
	m.Merged = out.Merged != ""
	return m, err
}

// stillThere returns memory_forgotten if the memory that an idempotent request stored has been forgotten or has expired
// since. Reporting it as stored would be wrong, and would show its text after it was forgotten.
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
		"this request stored the memory %q earlier, which was forgotten since. To store it again, "+
			"use another Idempotency-Key", key)
}

// store adds the writes that make the spec the next version of its key.
func (svc *Service) store(t *records.Tx, a *admitting, c ident.Caller, projectID string, spec Spec,
	expected *Precondition, room *records.Reservation) (out stored, rec *Record, err error) {
	p, err := svc.projects.Project(t, c, projectID)
	if err != nil {
		return out, nil, err
	}
	rec = &Record{Memory: spec.memory(c)}
	if rec.Key == "" {
		rec.Key = svc.db.NewID("mem_", 10)
	}
	old, err := svc.expect(t, p.Incarnation, rec.ID())
	if err == nil {
		err = expected.check(rec.ID(), old.live(t.Now))
	}
	if err == nil {
		err = svc.ground(t, c, p, &spec, rec, old, true)
	}
	if err != nil {
		return out, nil, err
	}
	made := ""
	if spec.Key == "" {
		made = rec.Key
	}
	out, rec, err = svc.admit(t, a, &Candidate{Caller: c, Project: p, Spec: spec, Record: rec, Stored: old.live(t.Now),
		Chosen: spec.Key != ""}, old, room)
	out.Made = made
	return out, rec, err
}

// storeOver adds the writes that replace old by a record. old is nil if there is no memory with its name. goes, if not
// nil, is a memory that the same commit deletes.
func (svc *Service) storeOver(t *records.Tx, p *project.Record, spec *Spec, rec, old, goes *Record,
	room *records.Reservation) (out stored, err error) {
	rec.Version = 1
	rec.CreatedAt, rec.UpdatedAt = spec.written(t.Now, old.live(t.Now))
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

// written returns the times of a memory's first version and of the one that is stored now, after old.
func (s *Spec) written(now time.Time, old *Record) (created, updated time.Time) {
	past := func(at time.Time) time.Time {
		if at = records.ToTheMillisecond(at); at.UnixMilli() <= 0 || at.After(now) {
			return now
		}
		return at
	}
	created, updated = past(cmp.Or(s.Created, s.Updated)), past(cmp.Or(s.Updated, s.Created))
	if old != nil && updated.Before(old.UpdatedAt) {
		updated = old.UpdatedAt
	}
	if updated.Before(created) {
		updated = created
	}
	return created, updated
}

// expiry returns when a memory that is stored now expires, or nil for never. A later change of the project's setting
// does not affect stored memories.
func (svc *Service) expiry(p *project.Record, spec *Spec, now time.Time) (*time.Time, error) {
	if spec.ExpiresAt != nil {
		at := records.ToTheMillisecond(*spec.ExpiresAt)
		if !at.After(now) || at.After(now.Add(maxFuture)) {
			return nil, fault.InvalidField("expires_at", "out_of_range", "must be in the future, by at most 100 years; "+
				"the current time is %s", now.Format(time.RFC3339))
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

// ID returns the full name of a memory, which identifies it. Without a namespace it is the key.
func ID(namespace []string, key string) string { return ident.FullName(namespace, key) }

// Get returns a memory by its full name. It returns not_found if there is none, and memory_damaged if it cannot be
// read.
func (svc *Service) Get(ctx context.Context, c ident.Caller, projectID, key string) (Memory, error) {
	_, rec, err := svc.live(ctx, c, projectID, key)
	if err != nil {
		return Memory{}, err
	}
	return rec.Memory, nil
}

// live reads a memory that must exist, with its project.
func (svc *Service) live(ctx context.Context, c ident.Caller, projectID, id string) (
	*project.Record, *Record, error,
) {
	c, err := reach(c, id)
	if err != nil {
		return nil, nil, err
	}
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

// settle removes the words of deleted memories from a project's index, including those of overwritten versions.
func (svc *Service) settle(ctx context.Context, tenant string, pinc ident.Incarnation) {
	if _, err := svc.index.Settle(ctx, tenant, index.Memories(pinc)); err != nil {
		svc.db.Log.Warn("words of a deleted memory are still in the index; a job will remove them", "tenant", tenant,
			"error", err)
	}
}

// Expire deletes an expired memory, completely and in one commit, with its entry in the expiry index. due is the key of
// that entry.
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
