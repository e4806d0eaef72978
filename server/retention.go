package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) runRetention(ctx context.Context, c *call[nothing]) (engine.RetentionRun, error) {
	return s.engine.RunRetention(ctx, c.caller)
}
