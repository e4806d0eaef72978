package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) createKey(ctx context.Context, c *call[engine.KeySpec]) (engine.KeyCreated, error) {
	return s.engine.CreateKey(ctx, c.caller, c.once, c.body)
}

func (s *Server) listKeys(ctx context.Context, c *call[nothing]) (engine.List[engine.Key], error) {
	return s.engine.ListKeys(ctx, c.caller, c.page)
}

func (s *Server) deleteKey(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeleteKey(ctx, c.caller, c.path("key"))
}

func (s *Server) rotateKey(ctx context.Context, c *call[nothing]) (engine.KeyCreated, error) {
	return s.engine.RotateKey(ctx, c.caller, c.once, c.path("key"))
}
