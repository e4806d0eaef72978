package summary

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fair"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// Service makes summaries in the background, one of a session at a time.
type Service struct {
	db       *records.DB
	projects *project.Service
	sessions *session.Service
	windows  *window.Service

	summariser Summariser
	queue      queue
}

// New makes the room; with a nil summariser no summaries are made.
func New(db *records.DB, projects *project.Service, sessions *session.Service, windows *window.Service,
	s Summariser) *Service {
	svc := &Service{db: db, projects: projects, sessions: sessions, windows: windows, summariser: s}
	q := &svc.queue
	q.turns, q.lines = fair.NewTurns(workers, perTenant), map[string][]*entry{}
	q.waiting, q.changed = map[ident.Incarnation]*entry{}, make(chan struct{})
	q.holds, q.pages = map[string]time.Time{}, map[string][]byte{}
	return svc
}
