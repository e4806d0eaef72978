package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) actOnSummary(ctx context.Context, c *call[engine.SummaryAction]) (engine.SummaryAnswer, error) {
	return s.engine.ActOnSummary(ctx, c.caller, c.once, c.path("project"), c.path("session"), c.body)
}
