package engine

import (
	"context"
	"fmt"
	"io"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// portable lists what a tenant's file holds, in its order: what others name comes before them.
func (e *Engine) portable() []transfer.Part {
	policies := &policy.Part{E: e.Policies, Facts: map[plan.Digest]*policy.Facts{}}
	usable := func(t *records.Tx, s project.Settings) error { return e.Policies.CheckPipeline(t, s, true) }
	projects := &project.Part{E: e.Projects, Knows: policies.Knows, Usable: usable}
	return []transfer.Part{policies, projects, &session.Part{E: e.Sessions}, &memory.Part{E: e.Memories}, &board.Part{Boards: e.Boards}}
}

// ExportTenant writes a tenant's file to w, in bounded memory. A session that is deleted meanwhile is left out; what is
// written meanwhile may be in it or not, each turn whole.
func (e *Engine) ExportTenant(ctx context.Context, c access.Caller, w io.Writer) error {
	return e.Transfer.ExportFile(ctx, c, w, e.portable())
}

// ImportTenant adds what a tenant's file holds to the caller's tenant. The file is first kept on disk and checked from
// its first line to its checksum: a fault anywhere, or a name that is taken, stores nothing. Then each project,
// session, memory, board and policy is stored, whole or not at all. Where that breaks off, the same file goes on there.
// It answers import_conflict where a name is taken, and quota_exceeded where the file does not fit.
func (e *Engine) ImportTenant(ctx context.Context, c access.Caller, once access.Once, spec transfer.ImportSpec, body io.Reader) (transfer.ImportReport,
	error) {
	return e.Transfer.ImportFile(ctx, c, once, spec, body, e.portable(), func(t *records.Tx, r transfer.ImportReport) error {
		return tenant.Audit(t, c, "tenant.import", c.Tenant, fmt.Sprintf("imported %v", r.Imported))
	})
}
