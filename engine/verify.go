package engine

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/insight/stats"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
	"github.com/seed-0906e6bc/mneme/engine/verify"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

// Verify reads a whole sealed store and checks every record against its kind and against the others. It changes
// nothing, and nothing else may write meanwhile. Its memory grows with the number of sessions and memories, of the
// documents of one index and of the entries of one board, but not with their content.
func Verify(ctx context.Context, s store.Store) (*verify.Report, error) {
	return verify.Store(ctx, s, verifiedRooms)
}

// verifiedRooms returns all packages' checks of one tenant. The checks of a package only use those of packages below
// it.
func verifiedRooms() []verify.Checker {
	projects, sessions, index := project.NewChecks(), session.NewChecks(), index.NewChecks()
	return []verify.Checker{
		tenant.NewChecks(),
		projects,
		sessions,
		summary.Checks(sessions),
		decision.NewChecks(sessions),
		policy.NewChecks(projects),
		index,
		recall.NewChecks(projects, sessions, index),
		memory.NewChecks(index),
		board.NewChecks(),
		verify.Checks(history.Checks()),
		stats.Checks(),
		// The checks of jobs and transfer are here, because these packages do not import verify. What the daily job
		// stores about packages depends on the version that wrote it.
		verify.Checks{
			{Kind: records.DailyJob, Record: verify.Decodes[jobs.RetentionState]},
			{Kind: records.Import, Record: importUnderWay},
			{Kind: records.StoreTime, Record: verify.Decodes[records.ClockRecord]},
		},
	}
}

// importUnderWay checks the record of an import of a tenant's export file.
func importUnderWay(s *verify.Space, it store.Item) {
	var rec transfer.ImportProgress
	if s.Decode(it, &rec) && rec.Lines < 2 {
		s.Malformed("it says %d lines, of which the first is not a record", rec.Lines)
	}
	s.Expires(it.Key)
}
