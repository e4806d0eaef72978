package session

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
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

// NamespaceFor returns the namespace in which a session's windows and tools look for memories if a request names none: the
// session's own or, if it has none, the project's default. A nil head is a session that does not exist. It returns the
// errors of project.Settings.Namespace.
func (h *Head) NamespaceFor(s *project.Settings, c ident.Caller, id, agent string) ([]string, error) {
	if h == nil {
		return s.Namespace(c, id, agent)
	}
	if len(h.Namespace) > 0 {
		return h.Namespace, nil
	}
	return s.Namespace(c, id, cmp.Or(agent, h.Agent))
}

// DefaultNamespace is NamespaceFor the session with an id, which need not exist. An empty id stands for no session. It
// returns not_found, too, if there is no such project, or if the caller does not reach the session.
func (svc *Service) DefaultNamespace(ctx context.Context, c ident.Caller, projectID, id string) ([]string, error) {
	var h *Head
	var p *project.Record
	var err error
	if id != "" {
		p, h, _, err = svc.ReadHead(ctx, c, projectID, id)
	} else {
		p, err = svc.projects.Find(ctx, c.Unconfined(), projectID)
	}
	if err != nil {
		return nil, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return nil, err
	}
	return h.NamespaceFor(&set.Settings, c, id, "")
}

// bind gives the session the namespace that its first turn names. The default is that of NamespaceFor, then the caller's
// if that is narrowed to one. A session that has turns and no namespace remains without. bind returns namespace_fixed, and
// the errors of NamespaceFor and of ident.Caller.In.
func (h *Head) bind(s *project.Settings, c ident.Caller, id string, named []string, agent string) error {
	if len(named) == 0 && (h.Turns == 0 || len(h.Namespace) > 0) {
		var err error
		if named, err = h.NamespaceFor(s, c, id, agent); err != nil {
			return err
		}
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
