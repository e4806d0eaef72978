package recall

import (
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Units are the background work of recall: transcripts on their way into the index.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{jobs.AnyJob(records.BacklogJob.All(), svc.stepTranscripts), jobs.AnyJob(records.UnindexedJob.All(), svc.stepTranscripts)}
}
