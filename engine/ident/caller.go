package ident

// This file defines the caller: the identity that an API key stands for, and what it may reach. The server determines
// the caller, and passes it to every call of the engine.

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// Role orders what keys may do. Within its tenant, a higher role may do everything that a lower one may.
type Role uint8

const (
	RoleNone        Role = iota
	RoleReader           // reads
	RoleAgent            // reads and stores
	RoleTenantAdmin      // also changes settings, policies and keys of the tenant
	RoleRoot             // all tenants
)

var roleNames = [...]string{"", "reader", "agent", "tenant_admin", "root"}

func (r Role) String() string { return roleNames[r] }

// ParseRole parses a role that a key may have. No key may have the role root.
func ParseRole(s string) (Role, bool) {
	i := slices.Index(roleNames[:RoleRoot], s)
	return Role(max(i, 0)), i > 0
}

// Caller is the identity behind a key. It is an argument of every call, never a context value.
type Caller struct {
	Tenant        string
	Incarnation   Incarnation // of the tenant that the key was made in; zero means the current tenant of that name
	KeyID         string
	Name          string // of the key
	Role          Role
	Projects      []string // those that the key is restricted to; nil means the whole tenant
	Agent         string   // the agent that the key is for; empty if none
	PreferredName string   // how the agent wants to be called
	// Namespaces are those that the key is narrowed to, each with those below it; nil means it is not.
	Namespaces [][]string

	inside []string // the namespace that In has chosen; empty if none
}

// In returns the caller as it acts in one namespace, and that namespace: the one that a request names, or the only one
// of the caller if it names none. It guards everything that belongs to a namespace. What does not call it refuses keys
// that are narrowed to namespaces; see Confined. It returns not_found if the caller does not reach the namespace, and
// namespace_needed if the key has several and the request names none.
func (c Caller) In(namespace []string) (Caller, []string, error) {
	mine := c.Namespaces
	if len(c.inside) > 0 {
		mine = [][]string{c.inside}
	}
	if mine == nil {
		return c, namespace, nil
	}
	switch {
	case len(namespace) == 0 && len(mine) == 1:
		namespace = mine[0]
	case len(namespace) == 0:
		return c, nil, fault.InvalidField("namespace", "namespace_needed",
			"your key is limited to %d namespaces: name one of them, or one below", len(mine))
	case !slices.ContainsFunc(mine, func(n []string) bool { return Below(namespace, n) }):
		return c, nil, fault.Errorf(fault.NotFound, "not_found", "no namespace %q", NamespacePath(namespace))
	}
	c.inside = namespace
	return c, namespace, nil
}

// Reaches reports whether the caller reaches a namespace. A caller that is narrowed does not reach the namespace
// without parts.
func (c Caller) Reaches(namespace []string) bool {
	if len(namespace) == 0 {
		return c.Namespaces == nil
	}
	_, _, err := c.In(namespace)
	return err == nil
}

// Unconfined returns the caller without its key's limits to namespaces. It is for reading which namespace something
// belongs to, which Reaches must then allow.
func (c Caller) Unconfined() Caller {
	c.Namespaces, c.inside = nil, nil
	return c
}

// Confined returns key_narrowed if the caller's key is limited to namespaces and In has not chosen one. It must be
// called before access to a project, or to anything else that belongs to no namespace.
func (c Caller) Confined() error {
	if c.Namespaces != nil && len(c.inside) == 0 {
		return fault.Errorf(fault.Forbidden, "key_narrowed",
			"this belongs to no namespace, and your key is limited to some")
	}
	return nil
}

// MaySee reports whether the key reaches a project.
func (c Caller) MaySee(project string) bool {
	return c.Projects == nil || slices.Contains(c.Projects, project)
}

// Covers reports whether the key reaches everything that a key restricted to these projects reaches.
func (c Caller) Covers(projects []string) bool {
	beyond := func(p string) bool { return !c.MaySee(p) }
	return c.Projects == nil || projects != nil && !slices.ContainsFunc(projects, beyond)
}

// WholeTenant returns key_narrowed if the key is restricted to projects or namespaces. It guards operations on the
// whole tenant.
func (c Caller) WholeTenant() error {
	if c.Projects != nil {
		return fault.Errorf(fault.Forbidden, "key_narrowed",
			"this needs access to all projects of the tenant, and your key is limited to some")
	}
	return c.Confined()
}

// Once makes a storing request idempotent. The zero value does not.
type Once struct {
	Key  string   // the Idempotency-Key header
	Body [32]byte // SHA-256 over method, path, query and body
	// Scope is part of the request's identity: the same key with another scope is another request. Empty means
	// everything that the API key can access.
	Scope string
	// Seal is the caller's bearer token. A stored response that contains a secret is encrypted with it.
	Seal string
}

// Viewer is the agent that the window is for.
type Viewer struct {
	Agent        string  `json:"agent,omitempty"`
	DelegationID *string `json:"delegation_id,omitempty"`
	// Alone leaves out everything outside the viewer's own delegation or, if the viewer has none, everything in
	// delegations.
	Alone bool `json:"alone,omitempty"`
	// Whole shows the main agent all messages of delegations, and a viewer in a delegation all of the top level. By
	// default each sees only the results of the other.
	Whole bool `json:"whole,omitempty"`
	// ResultTokens, if not nil, limits the top level's results that a viewer in a delegation sees: the newest ones,
	// with their calls, up to that many tokens as stored.
	ResultTokens *int `json:"result_tokens,omitempty"`
}

// CheckScope validates what a viewer asks to see of other agents. most is the largest number of tokens.
func (v *Viewer) CheckScope(most int) error {
	delegated := v.DelegationID != nil && *v.DelegationID != ""
	switch {
	case v.Whole && v.Alone:
		return fault.InvalidField("viewer.whole", "invalid_value", "must be false where alone is true")
	case v.ResultTokens == nil:
		return nil
	case *v.ResultTokens < 0 || *v.ResultTokens > most:
		return fault.InvalidField("viewer.result_tokens", "out_of_range", "must be from 0 to %d", most)
	case !delegated || v.Whole || v.Alone:
		return fault.InvalidField("viewer.result_tokens", "invalid_value",
			"is for a viewer with a delegation_id, without alone or whole")
	}
	return nil
}
