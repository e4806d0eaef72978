package memory

import (
	"github.com/seed-0906e6bc/mneme/engine/index"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service keeps long-term memories and what they were before.
type Service struct {
	db       *records.DB
	projects *project.Service
	index    *index.Service

	use   *records.Tallies // nil: no quota
	quota Quota
}

// New makes the room. The quota bounds what each tenant may keep.
func New(db *records.DB, projects *project.Service, documents *index.Service, q Quota) *Service {
	svc := &Service{db: db, projects: projects, index: documents, quota: q}
	svc.use = svc.newTallies(q)
	return svc
}
