// Package depthcompress is the built-in policy that keeps the newest turns in full and only the question of older
// turns.
package depthcompress

import (
	"github.com/seed-0906e6bc/mneme/policies/cut"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// Assemble compresses each run of records of an old turn to its question, or drops the run if it has no question. A
// turn is old if it is beyond the depth. The boundary moves in steps, so that consecutive windows begin alike. Turns
// are counted by their places, so a turn that an earlier policy dropped still counts. Compressed, system-class,
// mandatory and pinned records stay as they are.
func Assemble(req *mneme.Request, plan *mneme.Plan) error {
	if req.ConfigFloat("low_water", 0) != 0 {
		req.Log(mneme.Warn, "low_water has no effect any more: tool-pair-trim fits the window")
	}
	depth := cut.DepthOf(req)
	beyond := depth.Beyond(cut.NewestPlace(req))
	records, end := req.Records(), req.Len()
	for end > 0 && !old(records.At(end-1), beyond) {
		end--
	}
	why := reasons{depth: depth.Turns}
	for first := 0; first < end; {
		run := cut.RunAt(records, first, end)
		switch {
		case !run.Facts.Plain() || !old(records.At(first), beyond):
		case run.Asks():
			plan.Compress(first, run.End-1, why.compress(plan))
		default:
			plan.Drop(first, run.End-1, why.drop(plan))
		}
		first = run.End
	}
	return nil
}

// old reports whether a record belongs to a turn whose place is at most beyond. System-class records belong to no turn.
func old(r *mneme.Record, beyond uint32) bool { return r.Role != mneme.System && r.Place <= beyond }
