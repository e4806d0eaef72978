package board

import (
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service keeps boards: entries, agents, inboxes, and streams of both.
type Service struct {
	db   *records.DB
	jobs *jobs.Service

	memo      records.Memo[Record]
	followers broadcast // of boards and inboxes
}

// New makes the room.
func New(db *records.DB, work *jobs.Service) *Service { return &Service{db: db, jobs: work} }
