package engine

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Verify reads a sealed store whole and holds every record against its kind and against the others. It changes nothing,
// and nothing else may write meanwhile. What it keeps in memory grows with the number of sessions and memories, and of
// the documents of one index and the entries of one board, not with what they hold.
func Verify(ctx context.Context, s store.Store) (*Report, error) {
	return verifyStore(ctx, s, verifiedRooms)
}

// verifiedRooms makes all rooms' checks of one tenant. A room's checks look into those of rooms below it only.
func verifiedRooms() []roomChecks {
	projects, sessions, index := newProjectChecks(), newSessionChecks(), newIndexChecks()
	return []roomChecks{
		newTenantChecks(),
		projects,
		sessions,
		summaryChecks(sessions),
		newDecisionChecks(sessions),
		newPolicyChecks(projects),
		index,
		newRecallChecks(projects, sessions, index),
		newMemoryChecks(index),
		newBoardChecks(),
		// The daily job is of several rooms. What it says of their parts depends on the version that wrote it.
		checkList{{kind: "retention", record: decodes[retentionState]}},
	}
}
