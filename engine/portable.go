package engine

import (
	"context"
	"fmt"
	"io"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// portable lists what a tenant's file holds, in its order: what others name comes before them.
func (e *Engine) portable() []transferPart {
	policies := &policyPart{e: e, facts: map[plan.Digest]*PolicyFacts{}}
	usable := func(t *tx, s Settings) error { return e.checkPipeline(t, s, true) }
	projects := &projectPart{e: e, knows: policies.knows, usable: usable}
	return []transferPart{policies, projects, &sessionPart{e: e}, &memoryPart{e: e}, &boardPart{e: e}}
}

// ExportTenant writes a tenant's file to w, in bounded memory. A session that is deleted meanwhile is left out; what is
// written meanwhile may be in it or not, each turn whole.
func (e *Engine) ExportTenant(ctx context.Context, c Caller, w io.Writer) error {
	return e.exportFile(ctx, c, w, e.portable())
}

// ImportTenant adds what a tenant's file holds to the caller's tenant. The file is first kept on disk and checked from
// its first line to its checksum: a fault anywhere, or a name that is taken, stores nothing. Then each project,
// session, memory, board and policy is stored, whole or not at all. Where that breaks off, the same file goes on there.
// It answers import_conflict where a name is taken, and quota_exceeded where the file does not fit.
func (e *Engine) ImportTenant(ctx context.Context, c Caller, once Once, spec ImportSpec, body io.Reader) (ImportReport,
	error) {
	return e.importFile(ctx, c, once, spec, body, e.portable(), func(t *tx, r ImportReport) error {
		return t.audit(c, "tenant.import", c.Tenant, fmt.Sprintf("imported %v", r.Imported))
	})
}
