package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/window"
)

func (s *Server) decision(ctx context.Context, c *call[nothing]) (window.Explanation, error) {
	return s.engine.Windows.Decision(ctx, c.caller, c.path("project"), c.path("decision"))
}

func (s *Server) replay(ctx context.Context, c *call[nothing]) (spliced[window.Replayed], error) {
	return s.engine.Windows.Replay(ctx, c.caller, c.path("project"), c.path("decision"), c.buffer())
}
