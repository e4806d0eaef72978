package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) createTenant(ctx context.Context, c *call[engine.TenantSpec]) (engine.TenantCreated, error) {
	return s.engine.CreateTenant(ctx, c.once, c.body)
}

func (s *Server) listTenants(ctx context.Context, c *call[nothing]) (engine.List[engine.Tenant], error) {
	return s.engine.ListTenants(ctx, c.page)
}

func (s *Server) deleteTenant(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeleteTenant(ctx, c.path("tenant"))
}
