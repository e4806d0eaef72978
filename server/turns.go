package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/session"
)

func (s *Server) appendTurn(ctx context.Context, c *call[session.TurnRequest]) (session.TurnResponse, error) {
	return s.engine.Sessions.AppendTurn(ctx, c.caller, c.once, c.path("project"), c.body)
}
