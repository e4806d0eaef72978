package session

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// CheckReach returns not_found if a caller does not reach the session's namespace, as if there were no such session. A nil
// head is a session that does not exist, which everybody may ask for.
func (h *Head) CheckReach(c ident.Caller, id string) error {
	if h != nil && !c.Reaches(h.Namespace) {
		return noSession(id)
	}
	return nil
}

// CheckNamespace returns namespace_fixed if the session cannot be in a namespace that is named for it, because it has turns
// in another. None is named if it is empty. A nil head is a session that does not exist.
func (h *Head) CheckNamespace(id string, named []string) error {
	if h == nil || len(named) == 0 || slices.Equal(named, h.Namespace) || h.Turns == 0 && len(h.Namespace) == 0 {
		return nil
	}
	return fault.Errorf(fault.Conflict, "namespace_fixed",
		"session %q has the namespace %q since its first turn, and cannot be in %q", id, ident.NamespacePath(h.Namespace),
		ident.NamespacePath(named))
}

// bind gives the session the namespace that its first turn names; the default is the caller's, if that is narrowed to
// one. It returns namespace_fixed, and the errors of ident.Caller.In.
func (h *Head) bind(c ident.Caller, id string, named []string) error {
	if len(named) == 0 && len(h.Namespace) > 0 {
		named = h.Namespace
	}
	if !slices.Equal(named, h.Namespace) {
		if err := ident.CheckNamespace("memory_namespace", named); err != nil {
			return err
		}
	}
	_, namespace, err := c.In(named)
	if err == nil {
		err = h.CheckNamespace(id, namespace)
	}
	if err == nil && len(namespace) > 0 {
		h.Namespace = namespace
	}
	return err
}
