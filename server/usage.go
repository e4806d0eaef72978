package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) usage(ctx context.Context, c *call[nothing]) (engine.Usage, error) {
	return s.engine.Usage(ctx, c.caller)
}
