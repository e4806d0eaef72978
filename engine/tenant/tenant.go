package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Spec asks for a tenant.
type Spec struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// Tenant is the isolation boundary.
type Tenant struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// Created answers a TenantSpec. AdminKey is shown this once.
type Created struct {
	ID       string `json:"id"`
	AdminKey string `json:"admin_key"`
}

// DefaultSpeaker is the preferred name of who bears a tenant's first key, and who speaks where nobody is named.
const DefaultSpeaker = "User"

// tenantRecord is stored in the system space. A deleted tenant keeps it, marked, until its space is swept.
type tenantRecord struct {
	Tenant
	Deleting bool `json:"deleting,omitempty"`
}

// HoldsSecret keeps the admin key out of stored answers, which are sealed.
func (Created) HoldsSecret() {}

// Exists tells whether a tenant can be worked in.
func (svc *Service) Exists(ctx context.Context, id string) (bool, error) {
	rec, err := records.Get[tenantRecord](ctx, svc.db, records.SystemTenant, records.Tenant.Key(id))
	return rec != nil && !rec.Deleting, err
}

// Create makes a tenant with an admin key. prepare makes what belongs into the space of every tenant; it may be
// called again after a crash or a lost race, and finds then what it made before.
func (svc *Service) Create(ctx context.Context, once access.Once, spec Spec, prepare func(admin access.Caller) error) (
	Created, error) {
	if err := ident.CheckID("id", spec.ID); err != nil {
		return Created{}, err
	}
	system := access.Caller{Tenant: records.SystemTenant, Role: access.RoleRoot}
	admin := access.Caller{Tenant: spec.ID, Role: access.RoleTenantAdmin}
	var key KeyCreated
	out, err := records.Update(ctx, svc.db, system, once, func(t *records.Tx) (Created, error) {
		prior, err := records.GetTx[tenantRecord](t, records.Tenant.Key(spec.ID))
		if err != nil {
			return Created{}, err
		}
		if prior != nil {
			return Created{}, fault.Errorf(fault.Conflict, "tenant_exists", "tenant %q exists or is still being deleted",
				spec.ID)
		}
		if admin.Incarnation, err = svc.enliven(ctx, spec.ID); err != nil {
			return Created{}, err
		}
		// The tenant's own space first: a crash before the record below leaves a key that nobody was told, and the
		// next attempt succeeds.
		if err := prepare(admin); err != nil {
			return Created{}, err
		}
		if key.ID == "" {
			key, err = svc.CreateKey(ctx, admin, access.Once{}, KeySpec{Name: "admin", Role: access.RoleTenantAdmin.String(),
				PreferredName: DefaultSpeaker})
			if err != nil {
				return Created{}, err
			}
		}
		rec := tenantRecord{Tenant: Tenant{ID: spec.ID, Name: spec.Name, CreatedAt: t.Now}}
		return Created{ID: spec.ID, AdminKey: key.Key}, t.PutJSON(records.Tenant.Key(spec.ID), rec)
	})
	if key.ID != "" && out.AdminKey != key.Key { // lost to another request for the same id
		if err := svc.DeleteKey(ctx, admin, key.ID); err != nil {
			return out, err
		}
	}
	return out, err
}

// enliven marks a tenant's space as that of a living tenant. Two requests for one new tenant share the mark.
func (svc *Service) enliven(ctx context.Context, id string) (live ident.Incarnation, err error) {
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
		if conflict := (*store.ConflictError)(nil); !errors.As(err, &conflict) {
			return live, err
		}
	}
}

// List pages through the tenants by id.
func (svc *Service) List(ctx context.Context, page records.Page) (records.List[Tenant], error) {
	return records.ListPage(ctx, svc.db, records.SystemTenant, records.Tenant.All(), page, func(_ []byte, rec *tenantRecord) (Tenant, bool) {
		return rec.Tenant, !rec.Deleting
	})
}

// DeleteTenant shuts a tenant at once and leaves a job that sweeps its space.
func (svc *Service) DeleteTenant(ctx context.Context, id string) error {
	system := access.Caller{Tenant: records.SystemTenant, Role: access.RoleRoot}
	_, err := records.Update(ctx, svc.db, system, access.Once{}, func(t *records.Tx) (struct{}, error) {
		rec, err := records.GetTx[tenantRecord](t, records.Tenant.Key(id))
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
	// Its mark and its keys go before the answer: none works afterwards, and nothing that is under way is stored.
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

// Living reads a tenant's id out of its record; it is "" where the tenant is deleted.
func Living(record []byte) (id string, err error) {
	var rec tenantRecord
	if err := json.Unmarshal(record, &rec); err != nil || rec.Deleting {
		return "", err
	}
	return rec.ID, nil
}
