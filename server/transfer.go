package server

import (
	"context"
	"io"

	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// exportTenant streams the tenant's export file. It checks the key's rights before the first byte, because a stream
// that has started cannot return a problem.
func (s *Server) exportTenant(_ context.Context, c *call[nothing]) (streamed, error) {
	caller := c.caller
	return c.written(ndjsonType, func(ctx context.Context, w io.Writer) error {
		return s.engine.ExportTenant(ctx, caller, w)
	}), s.engine.Transfer.MayExport(caller)
}

func (s *Server) importTenant(ctx context.Context, c *call[rawBody]) (transfer.ImportReport, error) {
	spooled := lease{of: s.spools, tenant: c.caller.Tenant}
	if !spooled.grow(1) {
		return transfer.ImportReport{}, busy("too many imports are running")
	}
	defer spooled.release()
	spec := transfer.ImportSpec{OnConflict: c.query("on_conflict")}
	return s.engine.ImportTenant(ctx, c.caller, c.once, spec, c.bodyStream())
}
