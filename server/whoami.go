package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

// identity describes the caller as the server knows it from the request's key.
type identity struct {
	Tenant        *string        `json:"tenant"` // null: the operator, without a tenant
	Role          string         `json:"role"`
	KeyID         string         `json:"key_id"`
	Name          string         `json:"name"` // of the key
	Agent         string         `json:"agent"`
	PreferredName string         `json:"preferred_name"`
	Projects      *[]string      `json:"projects"` // null: all of the tenant
	Namespaces    [][]string     `json:"namespaces,omitempty"`
	Limits        identityLimits `json:"limits"`
}

// identityLimits holds the limits that the operator sets; null and 0 mean no limit.
type identityLimits struct {
	BodyBytes         int      `json:"body_bytes"` // for most requests
	RequestsPerSecond *float64 `json:"requests_per_second"`
	RequestsBurst     *int     `json:"requests_burst"`
	engine.Quotas
}

// whoAmI describes the key, so that a client can offer only what the key allows.
func (s *Server) whoAmI(_ context.Context, c *call[nothing]) (identity, error) {
	k := &c.caller
	out := identity{Role: k.Role.String(), KeyID: k.KeyID, Name: k.Name, Agent: k.Agent, PreferredName: k.PreferredName,
		Namespaces: k.Namespaces,
		Limits:     identityLimits{BodyBytes: s.limits.body, Quotas: s.engine.Quotas()}}
	if k.Tenant != "" {
		out.Tenant = &k.Tenant
	}
	if k.Projects != nil {
		out.Projects = &k.Projects
	}
	if l := s.rates.limit; l.PerSecond > 0 {
		out.Limits.RequestsPerSecond, out.Limits.RequestsBurst = &l.PerSecond, new(l.burst())
	}
	return out, nil
}
