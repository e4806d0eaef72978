package index

import (
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Units are the background work of the recall index: documents on their way into blocks.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{jobs.AnyJob(records.FoldJob.All(), svc.stepFold)}
}
