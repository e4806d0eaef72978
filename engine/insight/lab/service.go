// Package lab explains decisions and computes alternatives. It explains and forks decisions, compares windows, runs one
// version of a policy on a given transcript, replays real sessions with other policies or settings, and runs the tests
// in a manifest when its module is uploaded. It makes windows with package window, like those of agents, so a policy
// behaves here as it does in production. It stores nothing except forks that the client asks to record.
package lab

import (
	"github.com/seed-0906e6bc/mneme/engine/memory/likeness"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// Service explains decisions and tries policies and settings.
type Service struct {
	db        *records.DB
	projects  *project.Service
	sessions  *session.Service
	policies  *policy.Service
	decisions *decision.Service
	windows   *window.Service

	// Comparer compares memories with a candidate. The caller of New must set it.
	Comparer *likeness.Comparer
}

// New returns a Service.
func New(db *records.DB, projects *project.Service, sessions *session.Service, policies *policy.Service,
	decisions *decision.Service, windows *window.Service) *Service {
	return &Service{db: db, projects: projects, sessions: sessions, policies: policies, decisions: decisions,
		windows: windows}
}
