package index

import (
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Service keeps inverted indexes over documents, which other rooms give it.
type Service struct {
	db   *records.DB
	jobs *jobs.Service

	Analyser Analyser
	indexed  atomic.Uint32   // memories since the last thought of putting them into blocks
	Sources  map[byte]Source // of the spaces of recall indexes
}

// New makes the room. Whoever makes the rooms sets Sources.
func New(db *records.DB, work *jobs.Service, analyser Analyser) *Service {
	return &Service{db: db, jobs: work, Analyser: analyser}
}
