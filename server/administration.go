package server

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine"
)

// administrationRoutes are those of living with the data: purge, retention, export and import.
func (s *Server) administrationRoutes() []*route {
	const (
		conversations = "/api/v1/admin/agent/conversations"
		admin         = engine.RoleTenantAdmin
	)
	return []*route{
		{method: "GET", path: conversations + "/stats", role: admin, status: 200, endpoint: handle(s.conversations)},
		{method: "DELETE", path: conversations + "/purge", role: admin, status: 200, endpoint: handle(s.purgeConversations)},
		{method: "POST", path: "/api/v1/admin/retention", role: admin, status: 200, endpoint: handle(s.runRetention)},
		{method: "GET", path: "/api/v1/export", role: admin, status: 200, endpoint: handle(s.exportTenant)},
		{method: "POST", path: "/api/v1/import", role: admin, status: 200, endpoint: handle(s.importTenant), stores: true,
			streams: true, media: ndjsonType},
	}
}

// required is a parameter of the URL's query that must be given.
func (x *exchange) required(name string) (string, error) {
	if v := x.query(name); v != "" {
		return v, nil
	}
	p := refuse(http.StatusBadRequest, "parameter_missing", "%s: say it in the query of the URL", name)
	p.Errors = []engine.FieldError{{Field: name, Code: "required", Detail: "must be given"}}
	return "", p
}

func (s *Server) conversations(ctx context.Context, c *call[nothing]) (engine.ConversationStats, error) {
	project, err := c.required("project_id")
	if err != nil {
		return engine.ConversationStats{}, err
	}
	return s.engine.Conversations(ctx, c.caller, project)
}

func (s *Server) purgeConversations(ctx context.Context, c *call[nothing]) (out engine.Purged, err error) {
	spec := engine.PurgeSpec{}
	if spec.ProjectID, err = c.required("project_id"); err != nil {
		return out, err
	}
	days, err := c.required("older_than_days")
	if err != nil {
		return out, err
	}
	if spec.OlderThanDays, err = strconv.Atoi(days); err != nil {
		return out, invalidQuery("older_than_days", "out_of_range", "must be a number of days; 0 means all")
	}
	switch dry := c.query("dry_run"); dry {
	case "", "false":
	case "true":
		spec.DryRun = true
	default:
		return out, invalidQuery("dry_run", "invalid_value", "must be true or false")
	}
	return s.engine.PurgeConversations(ctx, c.caller, spec)
}

func (s *Server) runRetention(ctx context.Context, c *call[nothing]) (engine.RetentionRun, error) {
	return s.engine.RunRetention(ctx, c.caller)
}

func (s *Server) exportTenant(_ context.Context, c *call[nothing]) (stream, error) {
	caller := c.caller
	return stream{ndjsonType, func(ctx context.Context, w io.Writer) error {
		return s.engine.ExportTenant(ctx, caller, w)
	}}, s.engine.MayExport(caller)
}

func (s *Server) importTenant(ctx context.Context, c *call[rawBody]) (engine.ImportReport, error) {
	spec := engine.ImportSpec{OnConflict: c.query("on_conflict")}
	return s.engine.ImportTenant(ctx, c.caller, c.once, spec, c.bodyStream())
}

func (s *Server) createTenant(ctx context.Context, c *call[engine.TenantSpec]) (engine.TenantCreated, error) {
	return s.engine.CreateTenant(ctx, c.once, c.body)
}

func (s *Server) listTenants(ctx context.Context, c *call[nothing]) (engine.List[engine.Tenant], error) {
	return s.engine.ListTenants(ctx, c.page)
}

func (s *Server) deleteTenant(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeleteTenant(ctx, c.path("tenant"))
}

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

func (s *Server) usage(ctx context.Context, c *call[nothing]) (engine.Usage, error) {
	return s.engine.Usage(ctx, c.caller)
}
