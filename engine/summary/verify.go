package summary

import (
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// Checks are of summaries that are still to be made. Those that are made are checked with their sessions.
func Checks(sessions *session.Checks) verify.Checks {
	return verify.Checks{{Kind: records.SummaryJob, Record: func(s *verify.Space, it store.Item) {
		s.Decode(it, new(summaryJob))
		if sessions.Heads[ident.Incarnation(it.Key[3:])] == nil && !it.Damaged {
			s.Orphan("a summary of a session that does not exist is to be made").Harmless = true
		}
	}}}
}
