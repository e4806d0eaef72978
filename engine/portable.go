package engine

import (
	"context"
	"fmt"
	"io"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// portable returns the parts of a tenant's export file in their order: a record comes before those that refer to it.
func (e *Engine) portable() []transfer.Part {
	policies := e.Policies.Part()
	usable := func(t *records.Tx, s project.Settings) error { return e.Policies.CheckPipeline(t, s, true) }
	projects := e.Projects.Part(policies.Knows, usable)
	return []transfer.Part{policies, projects, &session.Part{Sessions: e.Sessions}, e.Memories.Part(),
		&board.Part{Boards: e.Boards}}
}

// ExportTenant writes a tenant's export file to w, in bounded memory. It omits sessions that are deleted meanwhile.
// Data that is written meanwhile may or may not be included, each turn completely. It fails with key_narrowed.
func (e *Engine) ExportTenant(ctx context.Context, c ident.Caller, w io.Writer) error {
	return e.Transfer.ExportFile(ctx, c, w, e.portable())
}

// ImportTenant adds the content of a tenant's export file to the caller's tenant. It first saves the file on disk and
// checks it from its first line to its checksum; if there is any fault, or a name is taken, nothing is stored. Then
// it stores each project, session, memory, board and policy, each completely or not at all. An interrupted import
// continues when the same file is sent again. It fails with import_conflict if a name is taken, with quota_exceeded
// if the file does not fit, and with the errors of transfer.Service.ImportFile.
func (e *Engine) ImportTenant(ctx context.Context, c ident.Caller, once ident.Once, spec transfer.ImportSpec,
	body io.Reader) (transfer.ImportReport, error) {
	done := func(t *records.Tx, r transfer.ImportReport) error {
		return tenant.Audit(t, c, "tenant.import", c.Tenant, fmt.Sprintf("imported %v", r.Imported))
	}
	return e.Transfer.ImportFile(ctx, c, once, spec, body, e.portable(), done)
}
