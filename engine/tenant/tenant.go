// Package tenant manages tenants: their records in the system space and, in each tenant's own space, its keys, audit
// log and usage. tenant.go manages tenants, and key.go the API keys.
//
// Each tenant's space contains a mark, which is the tenant's incarnation. Every change in a tenant expects the mark
// that the caller's key was made under (see records.Update). Deleting the mark therefore stops the tenant at once, and
// a later tenant of the same name is a different one.
package tenant

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Service manages tenants, their keys, audit logs and usage. It is safe for concurrent use.
type Service struct {
	db *records.DB

	rootKey [sha256.Size]byte // the digest of the operator's key
	hasRoot bool
	keys    records.Memo[keyRecord]
	keyUses keyUses
}

// New returns a Service. rootKey is the operator's key, whose bearer has the role root; if it is empty, nobody has.
func New(db *records.DB, rootKey string) *Service {
	return &Service{db: db, rootKey: sha256.Sum256([]byte(rootKey)), hasRoot: rootKey != ""}
}

// Spec describes a tenant to create.
type Spec struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// Tenant is the isolation boundary: nothing in one tenant can be seen from another.
type Tenant struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// Created is the result of creating a tenant. AdminKey is shown only once.
type Created struct {
	ID       string `json:"id"`
	AdminKey string `json:"admin_key"`
}

// HoldsSecret marks the response as one that must be encrypted if it is stored.
func (Created) HoldsSecret() {}

// DefaultSpeaker is the preferred name of the bearer of a tenant's first key, and the name of speakers who have none.
const DefaultSpeaker = "User"

// record is stored in the system space. A deleted tenant keeps it, marked as deleted, until its space is swept.
type record struct {
	Tenant
	Deleting bool `json:"deleting,omitempty"`
}

// system is the caller that changes the system space.
var system = ident.Caller{Tenant: records.SystemTenant, Role: ident.RoleRoot}

// Exists reports whether a tenant exists and is not being deleted.
func (svc *Service) Exists(ctx context.Context, id string) (bool, error) {
	rec, err := records.Get[record](ctx, svc.db, records.SystemTenant, records.Tenant.Key(id))
	return rec != nil && !rec.Deleting, err
}

// Create creates a tenant with an admin key. prepare creates what every tenant's space begins with. It may be called
// again after a crash or a lost race, and then finds what it created before. Create returns invalid_id if the id is
// invalid, and tenant_exists if a tenant with that id exists or is still being deleted.
func (svc *Service) Create(ctx context.Context, once ident.Once, spec Spec, prepare func(admin ident.Caller) error) (
	Created, error) {
	if err := ident.CheckID("id", spec.ID); err != nil {
		return Created{}, err
	}
	if spec.ID == records.SystemTenant {
		return Created{}, fault.InvalidField("id", "invalid_id", "%q is reserved", spec.ID)
	}
	admin := ident.Caller{Tenant: spec.ID, Role: ident.RoleTenantAdmin}
	var key KeyCreated
	out, err := records.Update(ctx, svc.db, system, once, func(t *records.Tx) (Created, error) {
		prior, err := records.GetTx[record](t, records.Tenant.Key(spec.ID))
		if err != nil {
			return Created{}, err
		}
		if prior != nil {
			return Created{}, fault.Errorf(fault.Conflict, "tenant_exists",
				"tenant %q exists or is still being deleted", spec.ID)
		}
		if admin.Incarnation, err = svc.mark(ctx, spec.ID); err != nil {
			return Created{}, err
		}
		// The tenant's own space is written first: a crash before the record below leaves only a key that nobody knows,
		// and the next attempt succeeds.
		if err := prepare(admin); err != nil {
			return Created{}, err
		}
		if key.ID == "" {
			key, err = svc.CreateKey(ctx, admin, ident.Once{}, KeySpec{Name: "admin",
				Role: ident.RoleTenantAdmin.String(), PreferredName: DefaultSpeaker})
			if err != nil {
				return Created{}, err
			}
		}
		rec := record{Tenant: Tenant{ID: spec.ID, Name: spec.Name, CreatedAt: t.Now}}
		return Created{ID: spec.ID, AdminKey: key.Key}, t.PutJSON(records.Tenant.Key(spec.ID), rec)
	})
	if key.ID != "" && out.AdminKey != key.Key { // lost to another request for the same id
		if err := svc.DeleteKey(ctx, admin, key.ID); err != nil {
			return out, err
		}
	}
	return out, err
}

// mark marks a tenant's space as that of an existing tenant. Concurrent requests for one new tenant share the mark.
func (svc *Service) mark(ctx context.Context, id string) (live ident.Incarnation, err error) {
	key := records.Live.Key()
	for {
		prior, err := svc.db.ReadItem(ctx, id, key)
		if err != nil {
			return live, err
		}
		if len(prior.Value) == len(live) {
			return ident.Incarnation(prior.Value), nil
		}
		live = svc.db.NewIncarnation()
		err = svc.db.Commit(ctx, id, store.Batch{Expect: []store.Expect{{Key: key, Value: prior.Value}},
			Put: []store.Pair{{Key: key, Value: live[:]}}})
		if _, conflict := errors.AsType[*store.ConflictError](err); !conflict {
			return live, err
		}
	}
}

// List pages through the tenants by id.
func (svc *Service) List(ctx context.Context, page records.Page) (records.List[Tenant], error) {
	return records.ListPage(ctx, svc.db, records.SystemTenant, records.Tenant.All(), page,
		func(_ []byte, rec *record) (Tenant, bool) { return rec.Tenant, !rec.Deleting })
}

// Delete disables a tenant at once and leaves a job that sweeps its space. It returns not_found if there is none.
func (svc *Service) Delete(ctx context.Context, id string) error {
	_, err := records.Update(ctx, svc.db, system, ident.Once{}, func(t *records.Tx) (struct{}, error) {
		rec, err := records.GetTx[record](t, records.Tenant.Key(id))
		if err != nil {
			return struct{}{}, err
		}
		if rec == nil {
			return struct{}{}, fault.Errorf(fault.NotFound, "not_found", "no tenant %q", id)
		}
		rec.Deleting = true
		t.Put(records.TenantJob.Key(id), []byte{0})
		return struct{}{}, t.PutJSON(records.Tenant.Key(id), rec)
	})
	if err != nil {
		return err
	}
	// The tenant's mark and its keys are deleted before the response: afterwards no key works, and no request that is
	// under way stores anything.
	if err := svc.db.Commit(ctx, id, store.Batch{Delete: [][]byte{records.Live.Key()}}); err != nil {
		return err
	}
	for more := true; more; {
		if more, err = svc.db.DeleteRange(ctx, id, records.APIKey.All()); err != nil {
			return err
		}
	}
	return nil
}

// Living returns the tenant's id in a stored record; "" if the tenant is deleted.
func Living(stored []byte) (id string, err error) {
	var rec record
	if err := json.Unmarshal(stored, &rec); err != nil || rec.Deleting {
		return "", err
	}
	return rec.ID, nil
}
