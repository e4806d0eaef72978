package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) assemble(ctx context.Context, c *call[engine.ContextRequest]) (spliced[window], error) {
	return s.engine.Assemble(ctx, c.caller, c.path("project"), &c.body, c.raw, c.buffer())
}
