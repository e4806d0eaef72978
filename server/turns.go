package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) appendTurn(ctx context.Context, c *call[engine.TurnRequest]) (engine.TurnResponse, error) {
	return s.engine.AppendTurn(ctx, c.caller, c.once, c.path("project"), c.body)
}
