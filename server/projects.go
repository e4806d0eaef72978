package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

func (s *Server) putProject(ctx context.Context, c *call[project.Spec]) (stored[project.Project], error) {
	p, created, err := s.engine.Projects.Put(ctx, c.caller, c.path("project"), c.body)
	return stored[project.Project]{p, created}, err
}

func (s *Server) getProject(ctx context.Context, c *call[nothing]) (project.Project, error) {
	return s.engine.Projects.Get(ctx, c.caller, c.path("project"))
}

func (s *Server) listProjects(ctx context.Context, c *call[nothing]) (records.List[project.Project], error) {
	return s.engine.Projects.List(ctx, c.caller, c.page)
}

func (s *Server) deleteProject(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeleteProject(ctx, c.caller, c.path("project"))
}
