package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/window"
)

func (s *Server) assemble(ctx context.Context, c *call[window.Request]) (spliced[window.Answer], error) {
	return s.engine.Windows.Assemble(ctx, c.caller, c.path("project"), &c.body, c.raw, c.buffer())
}
