package window

import (
	"context"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// Service makes windows, keeps the decisions behind them, and makes both again.
type Service struct {
	db       *records.DB
	projects *project.Service
	sessions *session.Service
	policies *policy.Service
	memories *memory.Service
	recall   *recall.Service

	hot          *hotSessions
	scratch      sync.Pool // of *scratch
	readied      readied
	writtenToday writtenToday
	WantSummary  func(ctx context.Context, w SummaryWish) (changed bool)
}

// New makes the room. HotBytes bounds the memory for recently used sessions; 0: 64 MiB. Whoever makes the rooms sets
// WantSummary.
func New(db *records.DB, projects *project.Service, sessions *session.Service, policies *policy.Service,
	memories *memory.Service, search *recall.Service, hotBytes int) *Service {
	if hotBytes == 0 {
		hotBytes = 64 << 20
	}
	svc := &Service{db: db, projects: projects, sessions: sessions, policies: policies, memories: memories,
		recall: search, hot: newHotSessions(hotBytes)}
	svc.scratch.New = func() any { return new(scratch) }
	return svc
}
