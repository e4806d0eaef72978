package engine

import "github.com/seed-0906e6bc/mneme/engine/store"

// summaryChecks are of summaries that are still to be made. Those that are made are their sessions'.
type summaryChecks struct{ sessions *sessionChecks }

func (c *summaryChecks) checks() []recordCheck {
	return []recordCheck{{kind: "job_summary", record: c.job}}
}

func (c *summaryChecks) job(s *space, it store.Item) {
	var rec summaryJob
	s.decode(it, &rec)
	if c.sessions.heads[incarnation(it.Key[3:])] == nil && !it.Damaged {
		s.orphan("a summary of a session that does not exist is to be made").harmless = true
	}
}

func (c *summaryChecks) finish(*space) {}
