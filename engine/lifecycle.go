package engine

import "context"

// DeleteProject makes a project's sessions, settings and decisions unreachable at once; a sweep removes them. It
// answers not_found where the key reaches no such project.
func (e *Engine) DeleteProject(ctx context.Context, c Caller, id string) error {
	err := e.deleteProject(ctx, c, id)
	e.tallies.forget(c.Tenant)
	return err
}
