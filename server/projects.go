package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) putProject(ctx context.Context, c *call[engine.ProjectSpec]) (stored[engine.Project], error) {
	p, created, err := s.engine.PutProject(ctx, c.caller, c.path("project"), c.body)
	return stored[engine.Project]{p, created}, err
}

func (s *Server) getProject(ctx context.Context, c *call[nothing]) (engine.Project, error) {
	return s.engine.GetProject(ctx, c.caller, c.path("project"))
}

func (s *Server) listProjects(ctx context.Context, c *call[nothing]) (engine.List[engine.Project], error) {
	return s.engine.ListProjects(ctx, c.caller, c.page)
}

func (s *Server) deleteProject(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeleteProject(ctx, c.caller, c.path("project"))
}
