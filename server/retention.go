package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/jobs"
)

func (s *Server) runRetention(ctx context.Context, c *call[nothing]) (jobs.RetentionRun, error) {
	return s.engine.Jobs.RunRetention(ctx, c.caller)
}
