package server

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) settings(ctx context.Context, c *call[nothing]) (engine.Settings, error) {
	return s.engine.Settings(ctx, c.caller, c.path("project"))
}

// patchSettings passes the patch on as it came: which fields it has, and which of them are null, is its meaning.
func (s *Server) patchSettings(ctx context.Context, c *call[json.RawMessage]) (engine.Settings, error) {
	return s.engine.PatchSettings(ctx, c.caller, c.path("project"), c.body)
}

// settingsPatch describes the body of a patch: any of the settings.
type settingsPatch struct{ engine.Settings }
