// Package lab shows what was decided and what would be decided otherwise. It explains decisions and forks them, runs
// one version of a policy on a transcript that a client brings, replays real sessions with two versions and says what
// differs, and runs the tests that a manifest brings along when its module is uploaded. All of them make windows as
// package window makes those of agents, so a policy behaves here as it did or will there. Nothing is stored, but a fork
// that is asked to be.
package lab

import (
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// Service tries policies.
type Service struct {
	db        *records.DB
	projects  *project.Service
	sessions  *session.Service
	policies  *policy.Service
	decisions *decision.Service
	windows   *window.Service
}

// New makes the room.
func New(db *records.DB, projects *project.Service, sessions *session.Service, policies *policy.Service,
	decisions *decision.Service, windows *window.Service) *Service {
	return &Service{db: db, projects: projects, sessions: sessions, policies: policies, decisions: decisions,
		windows: windows}
}
