package project

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// The names in Settings.MemoryNamespace that stand for the id of the session and of its agent.
const (
	sessionName = "{session}"
	agentName   = "{agent}"
)

// Namespace returns the default namespace of a session's memories for a caller. nil means all of the project. A fork has
// the namespace of the session that it was made from. The agent is that of the request or the session; if it is empty, it
// is the key's. A key that is narrowed to namespaces and does not reach the default has its own instead, so the result is
// nil. Namespace returns namespace_needed if the setting names a session or an agent and there is none.
func (s *Settings) Namespace(c ident.Caller, session, agent string) ([]string, error) {
	if len(s.MemoryNamespace) == 0 {
		return nil, nil
	}
	if agent == "" {
		agent = c.Agent
	}
	session, _ = ident.Forked(session)
	namespace, missing := slices.Clone(s.MemoryNamespace), ""
	for i, name := range namespace {
		switch name {
		case sessionName:
			namespace[i] = session
		case agentName:
			namespace[i] = agent
		}
		if namespace[i] == "" {
			missing = name
		}
	}
	switch {
	case c.Namespaces != nil && (missing != "" || !c.Reaches(namespace)):
		return nil, nil
	case missing != "":
		return nil, fault.InvalidField("memory_namespace", "namespace_needed", "the project's setting memory_namespace has %s, "+
			"and neither the request nor its key names one: name it, or a namespace", missing)
	}
	return namespace, ident.CheckNamespace("memory_namespace", namespace)
}
