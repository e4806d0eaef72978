package server

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/server/strictjson"
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

func (s *Server) settings(ctx context.Context, c *call[nothing]) (project.Settings, error) {
	return s.engine.Projects.Settings(ctx, c.caller, c.path("project"))
}

// patchSettings hands the patch on undecoded, because a field that is left out and a field that is null mean different
// things.
func (s *Server) patchSettings(ctx context.Context, c *call[json.RawMessage]) (project.Settings, error) {
	patch, err := settingsDecoder.Check(c.body)
	if err != nil {
		return project.Settings{}, err
	}
	return s.engine.Projects.PatchSettings(ctx, c.caller, c.path("project"), patch)
}

var settingsDecoder = strictjson.For[project.Settings]()

// settingsPatch describes the body of a patch: any of the settings.
type settingsPatch struct{ project.Settings }
