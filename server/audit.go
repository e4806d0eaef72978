package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

func (s *Server) listAudit(ctx context.Context, c *call[nothing]) (records.List[tenant.AuditEntry], error) {
	return s.engine.Tenants.ListAudit(ctx, c.caller, c.page)
}
