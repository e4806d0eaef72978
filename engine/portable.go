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

// portable makes the parts of a tenant's file in their order: a thing comes before those that name it.
func (e *Engine) portable() []transfer.Part {
	policies := e.Policies.Part()
	usable := func(t *records.Tx, s project.Settings) error { return e.Policies.CheckPipeline(t, s, true) }
	projects := e.Projects.Part(policies.Knows, usable)
	return []transfer.Part{policies, projects, &session.Part{Sessions: e.Sessions}, e.Memories.Part(),
		&board.Part{Boards: e.Boards}}
}

// ExportTenant writes a tenant's file to w, in bounded memory. A session that is deleted meanwhile is left out. What is
// written meanwhile may be in the file or not, each turn whole. It answers key_narrowed.
func (e *Engine) ExportTenant(ctx context.Context, c ident.Caller, w io.Writer) error {
	return e.Transfer.ExportFile(ctx, c, w, e.portable())
}

// ImportTenant adds what a tenant's file holds to the caller's tenant. The file is first kept on disk and checked from
// its first line to its checksum: where there is a fault anywhere, or a name is taken, nothing is stored. Then each
// project, session, memory, board and policy is stored, whole or not at all. Where that is broken off, the same file,
// sent again, goes on there. It answers import_conflict where a name is taken, quota_exceeded where the file does not
// fit, and what transfer.Service.ImportFile answers.
func (e *Engine) ImportTenant(ctx context.Context, c ident.Caller, once ident.Once, spec transfer.ImportSpec,
	body io.Reader) (transfer.ImportReport, error) {
	done := func(t *records.Tx, r transfer.ImportReport) error {
		return tenant.Audit(t, c, "tenant.import", c.Tenant, fmt.Sprintf("imported %v", r.Imported))
	}
	return e.Transfer.ImportFile(ctx, c, once, spec, body, e.portable(), done)
}
