package server

import (
	"context"
	"io"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) exportTenant(_ context.Context, c *call[nothing]) (streamed, error) {
	caller := c.caller
	return s.written(ndjsonType, func(ctx context.Context, w io.Writer) error {
		return s.engine.ExportTenant(ctx, caller, w)
	}), s.engine.MayExport(caller)
}

func (s *Server) importTenant(ctx context.Context, c *call[rawBody]) (engine.ImportReport, error) {
	spec := engine.ImportSpec{OnConflict: c.query("on_conflict")}
	return s.engine.ImportTenant(ctx, c.caller, c.once, spec, c.bodyStream())
}
