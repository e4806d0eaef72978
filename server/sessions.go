package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) createSession(ctx context.Context, c *call[engine.SessionSpec]) (engine.Session, error) {
	return s.engine.CreateSession(ctx, c.caller, c.once, c.path("project"), c.body)
}

func (s *Server) listSessions(ctx context.Context, c *call[nothing]) (engine.List[engine.Session], error) {
	return s.engine.ListSessions(ctx, c.caller, c.path("project"), c.page)
}

func (s *Server) getSession(ctx context.Context, c *call[nothing]) (engine.Session, error) {
	return s.engine.GetSession(ctx, c.caller, c.path("project"), c.path("session"))
}

func (s *Server) deleteSession(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeleteSession(ctx, c.caller, c.path("project"), c.path("session"))
}

func (s *Server) exportSession(ctx context.Context, c *call[nothing]) (engine.SessionFile, error) {
	return s.engine.ExportSession(ctx, c.caller, c.path("project"), c.path("session"))
}

func (s *Server) importSession(ctx context.Context, c *call[engine.SessionFile]) (engine.Session, error) {
	return s.engine.ImportSession(ctx, c.caller, c.once, c.path("project"), c.body)
}
