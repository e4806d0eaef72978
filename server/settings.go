package server

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/project"
)

func (s *Server) settings(ctx context.Context, c *call[nothing]) (project.Settings, error) {
	return s.engine.Projects.Settings(ctx, c.caller, c.path("project"))
}

// patchSettings passes the patch on as it came: which fields it has, and which of them are null, is its meaning.
func (s *Server) patchSettings(ctx context.Context, c *call[json.RawMessage]) (project.Settings, error) {
	return s.engine.Projects.PatchSettings(ctx, c.caller, c.path("project"), c.body)
}

// settingsPatch describes the body of a patch: any of the settings.
type settingsPatch struct{ project.Settings }
