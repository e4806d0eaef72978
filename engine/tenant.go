package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// tenantRecord is stored in the system space. A deleted tenant keeps it, marked, until its space is swept.
type tenantRecord struct {
	Tenant
	Deleting bool `json:"deleting,omitempty"`
}

func (e *Engine) readTenant(ctx context.Context, id string) (*tenantRecord, error) {
	r, err := e.store.Read(ctx, systemTenant, store.Query{Keys: [][]byte{tenantKey(id)}})
	if err != nil || r.Keys[0].Value == nil {
		return nil, err
	}
	rec := new(tenantRecord)
	return rec, json.Unmarshal(r.Keys[0].Value, rec)
}

// TenantExists tells whether a tenant can be worked in.
func (e *Engine) TenantExists(ctx context.Context, id string) (bool, error) {
	rec, err := e.readTenant(ctx, id)
	return rec != nil && !rec.Deleting, err
}

// CreateTenant makes a tenant with project `default` and an admin key.
func (e *Engine) CreateTenant(ctx context.Context, once Once, spec TenantSpec) (TenantCreated, error) {
	if err := checkID("id", spec.ID); err != nil {
		return TenantCreated{}, err
	}
	system := Caller{Tenant: systemTenant, Role: RoleRoot}
	admin := Caller{Tenant: spec.ID, Role: RoleTenantAdmin}
	var key KeyCreated
	out, err := update(ctx, e, system, once, func(t *tx) (TenantCreated, error) {
		got, err := t.get(tenantKey(spec.ID))
		if err != nil {
			return TenantCreated{}, err
		}
		if got[0].Value != nil {
			return TenantCreated{}, errorf(Conflict, "tenant_exists", "tenant %q exists or is still being deleted", spec.ID)
		}
		if admin.incarnation, err = e.enliven(ctx, spec.ID); err != nil {
			return TenantCreated{}, err
		}
		// The tenant's own space first: a crash before the record below leaves a key that nobody was told, and the
		// next attempt succeeds.
		if _, _, err := e.PutProject(ctx, admin, DefaultProject, ProjectSpec{}); err != nil {
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
		return TenantCreated{ID: spec.ID, AdminKey: key.Key}, t.putJSON(tenantKey(spec.ID), rec)
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
	for {
		r, err := e.store.Read(ctx, id, store.Query{Keys: [][]byte{liveKey}})
		if err != nil {
			return live, err
		}
		if len(r.Keys[0].Value) == len(live) {
			return incarnation(r.Keys[0].Value), nil
		}
		live = e.newIncarnation()
		err = e.commit(ctx, id, store.Batch{Expect: []store.Expect{{Key: liveKey, Value: r.Keys[0].Value}},
			Put: []store.Pair{{Key: liveKey, Value: live[:]}}})
		if conflict := (*store.ConflictError)(nil); !errors.As(err, &conflict) {
			return live, err
		}
	}
}

// ListTenants pages through the tenants by id.
func (e *Engine) ListTenants(ctx context.Context, page Page) (List[Tenant], error) {
	return listRecords(ctx, e, systemTenant, tenantKey("")[:2], page, func(it store.Item) (Tenant, bool, error) {
		var rec tenantRecord
		err := json.Unmarshal(it.Value, &rec)
		return rec.Tenant, !rec.Deleting, err
	})
}

// DeleteTenant shuts a tenant at once and sweeps its data in the background. Its id is free again after that.
func (e *Engine) DeleteTenant(ctx context.Context, id string) error {
	system := Caller{Tenant: systemTenant, Role: RoleRoot}
	_, err := update(ctx, e, system, Once{}, func(t *tx) (struct{}, error) {
		got, err := t.get(tenantKey(id))
		if err != nil {
			return struct{}{}, err
		}
		var rec tenantRecord
		if got[0].Value != nil {
			err = json.Unmarshal(got[0].Value, &rec)
		}
		if err != nil {
			return struct{}{}, err
		}
		if got[0].Value == nil {
			return struct{}{}, errorf(NotFound, "not_found", "no tenant %q", id)
		}
		rec.Deleting = true
		t.put(sweepKey(sweepTenant, []byte(id)), []byte{0})
		return struct{}{}, t.putJSON(tenantKey(id), rec)
	})
	if err != nil {
		return err
	}
	e.messageUse.forget(id)
	// Its mark and its keys go before the answer: none works afterwards, and nothing that is under way is stored.
	if err := e.commit(ctx, id, store.Batch{Delete: [][]byte{liveKey}}); err != nil {
		return err
	}
	for more := true; more; {
		if more, err = e.deleteRange(ctx, id, prefixRange(apiKeyKey("")[:2])); err != nil {
			return err
		}
	}
	return nil
}
