package cache

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// SummaryCut moves a cut back until it splits no atom (a call with its results) and lies before the session's newest
// user message outside delegations, whose number is asked. If there is no such message, the cut lies before the newest
// atom.
func SummaryCut(rows []*Row, cut, asked uint64) uint64 {
	newest := slices.Backward(rows)
	bound := asked
	for _, r := range newest { // heads written before the field Asked existed have none
		if bound == 0 && r.Role == plan.RoleUser && r.DelegationID == 0 {
			bound = r.Seq
		}
	}
	if bound == 0 && len(rows) > 0 {
		bound = rows[len(rows)-1].Call
	}
	cut = min(cut, max(bound, 1)-1)
	for _, r := range newest {
		if r.Seq > cut && r.Call <= cut && r.Call != transcript.UnknownCall {
			cut = r.Call - 1
		}
	}
	return cut
}
