package engine

import (
	"context"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// DefaultSpeaker is the preferred name of who bears a tenant's first key, and who speaks where nobody is named.
const DefaultSpeaker = "User"

// tenantRecord is stored in the system space. A deleted tenant keeps it, marked, until its space is swept.
type tenantRecord struct {
	Tenant
	Deleting bool `json:"deleting,omitempty"`
}

// HoldsSecret keeps the admin key out of stored answers, which are sealed.
func (TenantCreated) HoldsSecret() {}

// TenantExists tells whether a tenant can be worked in.
func (e *Engine) TenantExists(ctx context.Context, id string) (bool, error) {
	rec, err := get[tenantRecord](ctx, e, systemTenant, kindTenant.Key(id))
	return rec != nil && !rec.Deleting, err
}

// createTenant makes a tenant with an admin key. prepare makes what belongs into the space of every tenant; it may be
// called again after a crash or a lost race, and finds then what it made before.
func (e *Engine) createTenant(ctx context.Context, once Once, spec TenantSpec, prepare func(admin Caller) error) (
	TenantCreated, error) {
	if err := checkID("id", spec.ID); err != nil {
		return TenantCreated{}, err
	}
	system := Caller{Tenant: systemTenant, Role: RoleRoot}
	admin := Caller{Tenant: spec.ID, Role: RoleTenantAdmin}
	var key KeyCreated
	out, err := update(ctx, e, system, once, func(t *tx) (TenantCreated, error) {
		prior, err := getTx[tenantRecord](t, kindTenant.Key(spec.ID))
		if err != nil {
			return TenantCreated{}, err
		}
		if prior != nil {
			return TenantCreated{}, errorf(Conflict, "tenant_exists", "tenant %q exists or is still being deleted",
				spec.ID)
		}
		if admin.incarnation, err = e.enliven(ctx, spec.ID); err != nil {
			return TenantCreated{}, err
		}
		// The tenant's own space first: a crash before the record below leaves a key that nobody was told, and the
		// next attempt succeeds.
		if err := prepare(admin); err != nil {
			return TenantCreated{}, err
		}
		if key.ID == "" {
			key, err = e.CreateKey(ctx, admin, Once{}, KeySpec{Name: "admin", Role: RoleTenantAdmin.String(),
				PreferredName: DefaultSpeaker})
			if err != nil {
				return TenantCreated{}, err
			}
		}
		rec := tenantRecord{Tenant: Tenant{ID: spec.ID, Name: spec.Name, CreatedAt: t.now}}
		return TenantCreated{ID: spec.ID, AdminKey: key.Key}, t.putJSON(kindTenant.Key(spec.ID), rec)
	})
	if key.ID != "" && out.AdminKey != key.Key { // lost to another request for the same id
		if err := e.DeleteKey(ctx, admin, key.ID); err != nil {
			return out, err
		}
	}
	return out, err
}

// enliven marks a tenant's space as that of a living tenant. Two requests for one new tenant share the mark.
func (e *Engine) enliven(ctx context.Context, id string) (live incarnation, err error) {
	key := kindLive.Key()
	for {
		prior, err := e.readItem(ctx, id, key)
		if err != nil {
			return live, err
		}
		if len(prior.Value) == len(live) {
			return incarnation(prior.Value), nil
		}
		live = e.newIncarnation()
		err = e.commit(ctx, id, store.Batch{Expect: []store.Expect{{Key: key, Value: prior.Value}},
			Put: []store.Pair{{Key: key, Value: live[:]}}})
		if conflict := (*store.ConflictError)(nil); !errors.As(err, &conflict) {
			return live, err
		}
	}
}

// ListTenants pages through the tenants by id.
func (e *Engine) ListTenants(ctx context.Context, page Page) (List[Tenant], error) {
	return listPage(ctx, e, systemTenant, kindTenant.All(), page, func(_ []byte, rec *tenantRecord) (Tenant, bool) {
		return rec.Tenant, !rec.Deleting
	})
}

// deleteTenant shuts a tenant at once and leaves a job that sweeps its space.
func (e *Engine) deleteTenant(ctx context.Context, id string) error {
	system := Caller{Tenant: systemTenant, Role: RoleRoot}
	_, err := update(ctx, e, system, Once{}, func(t *tx) (struct{}, error) {
		rec, err := getTx[tenantRecord](t, kindTenant.Key(id))
		if err != nil {
			return struct{}{}, err
		}
		if rec == nil {
			return struct{}{}, errorf(NotFound, "not_found", "no tenant %q", id)
		}
		rec.Deleting = true
		t.put(kindTenantJob.Key(id), []byte{0})
		return struct{}{}, t.putJSON(kindTenant.Key(id), rec)
	})
	if err != nil {
		return err
	}
	// Its mark and its keys go before the answer: none works afterwards, and nothing that is under way is stored.
	if err := e.commit(ctx, id, store.Batch{Delete: [][]byte{kindLive.Key()}}); err != nil {
		return err
	}
	for more := true; more; {
		if more, err = e.deleteRange(ctx, id, kindKey.All()); err != nil {
			return err
		}
	}
	return nil
}
