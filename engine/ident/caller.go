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

// Caller is the identity that a key stands for. It is an argument of every call, never a context value.
type Caller struct {
	Tenant        string
	Incarnation   Incarnation // of the tenant that the key was made in; zero means the current tenant of that name
	KeyID         string
	Name          string // of the key
	Role          Role
	Projects      []string // those that the key is restricted to; nil means the whole tenant
	Agent         string   // the agent that the key is for; empty if none
	PreferredName string   // how the agent wants to be called
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

// WholeTenant returns key_narrowed if the key is restricted to projects. It guards operations on the whole tenant.
func (c Caller) WholeTenant() error {
	if c.Projects != nil {
		return fault.Errorf(fault.Forbidden, "key_narrowed",
			"this reaches all projects of the tenant; your key is narrowed to some")
	}
	return nil
}

// Once makes a storing request idempotent. The zero value does not.
type Once struct {
	Key  string   // the Idempotency-Key header
	Body [32]byte // SHA-256 over method, path, query and body
	// Scope is what the key applies to: the same key with another scope is another request. Empty means everything that
	// the API key reaches.
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
}
