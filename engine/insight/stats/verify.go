package stats

import (
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// Checks returns the checks for a tenant's counts. They accept counts of any project, since nothing depends on them.
func Checks() verify.Checks { return verify.Checks{{Kind: records.Stats, Record: check}} }

func check(s *verify.Space, it store.Item) {
	pinc, _, _, ok := records.Stats.Split(it.Key)
	s.About(pinc, "")
	switch {
	case !ok || it.Damaged:
	case !s.Belongs(pinc): // a count may be written while its project is being deleted
		s.Orphan("the counts are of a project that does not exist").Harmless = true
	default:
		s.Decode(it, new(Record))
	}
}
