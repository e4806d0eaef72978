package engine

import (
	"context"
	"encoding/json"
)

// DeleteProject makes a project's sessions, settings and decisions unreachable at once; a sweep removes them.
func (e *Engine) DeleteProject(ctx context.Context, c Caller, id string) error {
	if !validID(id) || !c.MaySee(id) {
		return errorf(NotFound, "not_found", "no project %q", id)
	}
	_, err := update(ctx, e, c, Once{}, func(t *tx) (struct{}, error) {
		got, err := t.get(projectKey(id))
		if err != nil {
			return struct{}{}, err
		}
		if got[0].Value == nil {
			return struct{}{}, errorf(NotFound, "not_found", "no project %q", id)
		}
		var rec project
		if err := json.Unmarshal(got[0].Value, &rec); err != nil {
			return struct{}{}, err
		}
		t.delete(projectKey(id))
		t.put(kindProjectJob.Key(rec.Incarnation), []byte{0})
		return struct{}{}, nil
	})
	e.tallies.forget(c.Tenant)
	return err
}
