package tools

import (
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service answers the tools that models call.
type Service struct {
	db       *records.DB
	projects *project.Service
	memories *memory.Service
	recall   *recall.Service
}

// New makes the room.
func New(db *records.DB, projects *project.Service, memories *memory.Service, search *recall.Service) *Service {
	return &Service{db: db, projects: projects, memories: memories, recall: search}
}
