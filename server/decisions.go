package server

import "context"

func (s *Server) decision(ctx context.Context, c *call[nothing]) (spliced[decision], error) {
	return s.engine.Windows.Decision(ctx, c.caller, c.path("project"), c.path("decision"), c.buffer())
}

func (s *Server) replay(ctx context.Context, c *call[nothing]) (spliced[replay], error) {
	return s.engine.Windows.Replay(ctx, c.caller, c.path("project"), c.path("decision"), c.buffer())
}
