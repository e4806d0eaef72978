package ident

// This part of the package is who asks: the identity behind an API key and what it may reach. The edge finds out who it is, and
// every call of the engine gets it as an argument.

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// Role orders what keys may do; a higher role may all that a lower one may, within its tenant.
type Role uint8

const (
	RoleNone        Role = iota
	RoleReader           // reads
	RoleAgent            // reads and stores
	RoleTenantAdmin      // also settings, policies and keys of the tenant
	RoleRoot             // all tenants
)

var roleNames = [...]string{"", "reader", "agent", "tenant_admin", "root"}

func (r Role) String() string { return roleNames[r] }

// ParseRole reads a role that a key may be given; root is never given.
func ParseRole(s string) (Role, bool) {
	i := slices.Index(roleNames[:RoleRoot], s)
	return Role(max(i, 0)), i > 0
}

// Caller is who asks: the identity behind a key. It is an argument of every call, never a context value.
type Caller struct {
	Tenant        string
	Incarnation   Incarnation // of the tenant that the key was made in; zero: whichever tenant has the name now
	KeyID         string
	Name          string // of the key
	Role          Role
	Projects      []string // those that the key is narrowed to; nil: all of the tenant
	Agent         string   // the agent that the key is for; empty: none
	PreferredName string   // what the agent likes to be called
}

// MaySee tells whether the key reaches a project.
func (c Caller) MaySee(project string) bool {
	return c.Projects == nil || slices.Contains(c.Projects, project)
}

// Covers tells whether the key reaches all that a key narrowed to these projects reaches.
func (c Caller) Covers(projects []string) bool {
	beyond := func(p string) bool { return !c.MaySee(p) }
	return c.Projects == nil || projects != nil && !slices.ContainsFunc(projects, beyond)
}

// WholeTenant answers key_narrowed where the key is narrowed to projects, for what reaches all of them.
func (c Caller) WholeTenant() error {
	if c.Projects != nil {
		return fault.Errorf(fault.Forbidden, "key_narrowed",
			"this reaches all projects of the tenant; your key is narrowed to some")
	}
	return nil
}

// Once makes a storing request idempotent. The zero value asks for nothing.
type Once struct {
	Key  string   // the Idempotency-Key header
	Body [32]byte // SHA-256 over method, path, query and body
	// Scope is what the key is for: the same key with another scope is another request. Empty: all that the API key
	// reaches.
	Scope string
	// Seal is the caller's bearer token. A stored answer that holds a secret is encrypted with it.
	Seal string
}

// Viewer is the agent that the window is for.
type Viewer struct {
	Agent        string  `json:"agent,omitempty"`
	DelegationID *string `json:"delegation_id,omitempty"`
	// Alone leaves out whatever is not of the viewer's own delegation, or, without one, what is of any.
	Alone bool `json:"alone,omitempty"`
}
