package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

func (s *Server) usage(ctx context.Context, c *call[nothing]) (tenant.Usage, error) {
	return s.engine.Tenants.Usage(ctx, c.caller)
}
