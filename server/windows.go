package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/window"
)

// assemble makes the window for the next model call. The engine gets the body as it was received too, because the
// decision stores it.
func (s *Server) assemble(ctx context.Context, c *call[window.Request]) (spliced[window.Answer], error) {
	return s.engine.Windows.Assemble(ctx, c.caller, c.path("project"), &c.body, c.raw, c.buffer())
}

// decision explains a window that was made earlier.
func (s *Server) decision(ctx context.Context, c *call[nothing]) (window.Explanation, error) {
	return s.engine.Windows.Decision(ctx, c.caller, c.path("project"), c.path("decision"))
}

// replay makes the window of a decision again and says whether it is the same.
func (s *Server) replay(ctx context.Context, c *call[nothing]) (spliced[window.Replayed], error) {
	return s.engine.Windows.Replay(ctx, c.caller, c.path("project"), c.path("decision"), c.buffer())
}
