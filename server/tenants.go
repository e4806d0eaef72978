package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

func (s *Server) createTenant(ctx context.Context, c *call[tenant.Spec]) (tenant.Created, error) {
	return s.engine.CreateTenant(ctx, c.once, c.body)
}

func (s *Server) listTenants(ctx context.Context, c *call[nothing]) (records.List[tenant.Tenant], error) {
	return s.engine.Tenants.List(ctx, c.page)
}

func (s *Server) deleteTenant(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeleteTenant(ctx, c.path("tenant"))
}

func (s *Server) usage(ctx context.Context, c *call[nothing]) (tenant.Usage, error) {
	return s.engine.Tenants.Usage(ctx, c.caller)
}

func (s *Server) listAudit(ctx context.Context, c *call[nothing]) (records.List[tenant.AuditEntry], error) {
	return s.engine.Tenants.ListAudit(ctx, c.caller, c.page)
}
