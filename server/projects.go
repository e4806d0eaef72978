package server

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/server/strictjson"
)

func (s *Server) createProject(ctx context.Context, c *call[project.NewSpec]) (project.Project, error) {
	return s.engine.Projects.Create(ctx, c.caller, c.once, c.body)
}

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

// settingsShown is a project's settings together with possible values.
type settingsShown struct {
	project.Settings
	// Calibration is the token counts that providers reported for the project's prompts, by model. A ratio that is
	// sure can be used as token_scale.
	Calibration []decision.Calibration `json:"calibration,omitempty"`
	// Profiles are the complete profiles of the upstreams that the project's model calls can go to: by the upstream's name
	// and the profile's member, the value and where it is from.
	Profiles map[string]map[string]provider.Origin `json:"profiles,omitempty"`
}

func (s *Server) settings(ctx context.Context, c *call[nothing]) (out settingsShown, err error) {
	p, err := s.engine.Projects.Find(ctx, c.caller, c.path("project"))
	if err != nil {
		return out, err
	}
	if out.Settings, err = s.engine.Projects.WithDefaults(p.Set); err != nil {
		return out, err
	}
	if out.Calibration, err = s.engine.Decisions.Calibrations(ctx, c.caller.Tenant, p.Incarnation); err != nil {
		return out, err
	}
	setup, err := s.engine.Projects.SetupOf(p)
	if err != nil {
		return out, err
	}
	for _, u := range setup.Upstreams() {
		if out.Profiles == nil {
			out.Profiles = map[string]map[string]provider.Origin{}
		}
		out.Profiles[u.Name] = u.Origins
	}
	return out, c.tagged(&out.Settings)
}

// patchSettings passes the patch on undecoded, because an absent field and a null field mean different things.
func (s *Server) patchSettings(ctx context.Context, c *call[json.RawMessage]) (project.Settings, error) {
	patch, err := settingsDecoder.Check(c.body)
	if err != nil {
		return project.Settings{}, err
	}
	out, err := s.engine.Projects.PatchSettingsIf(ctx, c.caller, c.path("project"), patch, c.ifMatch())
	if err != nil {
		return out, err
	}
	return out, c.tagged(&out)
}

func (s *Server) settingsHistory(ctx context.Context, c *call[nothing]) (records.List[project.SettingsChange], error) {
	return s.engine.Projects.SettingsHistory(ctx, c.caller, c.path("project"), c.page)
}

// tagged sets the ETag of the settings in the response.
func (x *exchange) tagged(s *project.Settings) error {
	tag, err := s.Tag()
	x.c.Response().Header.Set(fiber.HeaderETag, `"`+tag+`"`)
	return err
}

// ifMatch returns a function that reports whether the header If-Match has a tag, as defined in RFC 9110, or nil if
// the header is absent. A weak tag never matches.
func (x *exchange) ifMatch() func(tag string) bool {
	said := string(x.c.Request().Header.Peek(fiber.HeaderIfMatch))
	if said == "" {
		return nil
	}
	return func(tag string) bool {
		for one := range strings.SplitSeq(said, ",") {
			if one = strings.TrimSpace(one); one == "*" || one == `"`+tag+`"` {
				return true
			}
		}
		return false
	}
}

var settingsDecoder = strictjson.For[project.Settings]()

// settingsPatch describes the body of a patch: any subset of the settings.
type settingsPatch struct{ project.Settings }
