package engine

import "github.com/seed-0906e6bc/mneme/engine/store"

// summaryChecks are of summaries that are still to be made. Those that are made are checked with their sessions.
func summaryChecks(sessions *sessionChecks) checkList {
	return checkList{{kind: "job_summary", record: func(s *space, it store.Item) {
		s.decode(it, new(summaryJob))
		if sessions.heads[incarnation(it.Key[3:])] == nil && !it.Damaged {
			s.orphan("a summary of a session that does not exist is to be made").harmless = true
		}
	}}}
}
