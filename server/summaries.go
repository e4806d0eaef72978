package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/summary"
)

func (s *Server) actOnSummary(ctx context.Context, c *call[summary.Action]) (summary.Answer, error) {
	return s.engine.Summaries.ActOn(ctx, c.caller, c.once, c.path("project"), c.path("session"), c.body)
}
