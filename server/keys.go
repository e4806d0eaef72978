package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

func (s *Server) createKey(ctx context.Context, c *call[tenant.KeySpec]) (tenant.KeyCreated, error) {
	return s.engine.Tenants.CreateKey(ctx, c.caller, c.once, c.body)
}

func (s *Server) listKeys(ctx context.Context, c *call[nothing]) (records.List[tenant.Key], error) {
	return s.engine.Tenants.ListKeys(ctx, c.caller, c.page)
}

func (s *Server) deleteKey(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.Tenants.DeleteKey(ctx, c.caller, c.path("key"))
}

func (s *Server) rotateKey(ctx context.Context, c *call[nothing]) (tenant.KeyCreated, error) {
	return s.engine.Tenants.RotateKey(ctx, c.caller, c.once, c.path("key"))
}
