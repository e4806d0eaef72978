package recall

import (
	"github.com/seed-0906e6bc/mneme/engine/index"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// Service finds memories and messages by their words.
type Service struct {
	db       *records.DB
	jobs     *jobs.Service
	projects *project.Service
	sessions *session.Service
	index    *index.Service
	memories *memory.Service
}

// New makes the room.
func New(db *records.DB, work *jobs.Service, projects *project.Service, sessions *session.Service,
	documents *index.Service, memories *memory.Service) *Service {
	return &Service{db: db, jobs: work, projects: projects, sessions: sessions, index: documents, memories: memories}
}
