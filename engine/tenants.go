package engine

import "context"

// CreateTenant makes a tenant with project `default` and an admin key.
func (e *Engine) CreateTenant(ctx context.Context, once Once, spec TenantSpec) (TenantCreated, error) {
	return e.createTenant(ctx, once, spec, func(admin Caller) error {
		_, _, err := e.PutProject(ctx, admin, DefaultProject, ProjectSpec{})
		return err
	})
}

// DeleteTenant shuts a tenant at once and sweeps its data in the background. Its id is free again after that.
func (e *Engine) DeleteTenant(ctx context.Context, id string) error {
	defer e.messageUse.forget(id)
	return e.deleteTenant(ctx, id)
}

// DeleteProject makes a project's sessions, settings and decisions unreachable at once; a sweep removes them. It
// answers not_found where the key reaches no such project.
func (e *Engine) DeleteProject(ctx context.Context, c Caller, id string) error {
	err := e.deleteProject(ctx, c, id)
	e.messageUse.forget(c.Tenant)
	return err
}
