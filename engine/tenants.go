package engine

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// CreateTenant creates a tenant with project `default` and an admin key.
func (e *Engine) CreateTenant(ctx context.Context, once ident.Once, spec tenant.Spec) (tenant.Created, error) {
	return e.Tenants.Create(ctx, once, spec, func(admin ident.Caller) error {
		_, _, err := e.Projects.Put(ctx, admin, ident.DefaultProject, project.Spec{})
		return err
	})
}

// DeleteTenant disables a tenant at once and sweeps its data in the background. After that its id can be used again.
func (e *Engine) DeleteTenant(ctx context.Context, id string) error {
	defer e.Sessions.MessageUse.Forget(id)
	return e.Tenants.Delete(ctx, id)
}

// DeleteProject makes a project's sessions, settings and decisions unreachable at once; a sweep removes them. It
// fails with not_found if the key has no access to such a project.
func (e *Engine) DeleteProject(ctx context.Context, c ident.Caller, id string) error {
	err := e.Projects.Delete(ctx, c, id)
	e.Sessions.MessageUse.Forget(c.Tenant)
	return err
}
