package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) listAudit(ctx context.Context, c *call[nothing]) (engine.List[engine.AuditEntry], error) {
	return s.engine.ListAudit(ctx, c.caller, c.page)
}
