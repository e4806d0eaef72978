// Command last-turns is an example policy: it shows the newest turns, the shortened questions of some turns before
// them, and a ledger of what it leaves out: ids, codes, addresses, paths and numbers.
package main

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

var _ = mneme.Register(lastTurns)

// lastTurns leaves out the turns before the newest ones. Places count turns, even if some were rewound.
func lastTurns(req *mneme.Request, plan *mneme.Plan) error {
	newest := uint32(0)
	for i := range req.Len() {
		newest = max(newest, req.Record(i).Place)
	}
	stay := uint32(req.ConfigInt("turns", 5))
	asked := stay + uint32(req.ConfigInt("questions", 5))
	why := plan.Text("old_turn: from before the newest ").Uint(uint64(stay)).Str(" turns")
	first, last := -1, 0
	for i := 0; i < req.Len(); {
		end := turnEnd(req, i)
		if r := req.Record(i); goes(req, i, end) && r.Place+stay <= newest {
			if r.Role == mneme.User && r.Place+asked > newest {
				plan.CompressTo(i, end-1, int(req.ConfigInt("question_tokens", 32)), why)
			} else {
				plan.Drop(i, end-1, why)
			}
			if first < 0 {
				first = i
			}
			last = end - 1
		}
		i = end
	}
	if tokens := int(req.ConfigInt("ledger_tokens", 400)); first >= 0 && tokens > 0 {
		plan.Ledger(first, last, tokens, why)
	}
	return nil
}

// turnEnd returns where the turn of a record ends.
func turnEnd(req *mneme.Request, first int) int {
	end := first + 1
	for end < req.Len() && req.Record(end).Turn == req.Record(first).Turn && req.Record(first).Role != mneme.System {
		end++
	}
	return end
}

// goes reports whether no record of a range has to stay.
func goes(req *mneme.Request, first, end int) bool {
	for i := first; i < end; i++ {
		if r := req.Record(i); r.Role == mneme.System || r.Flags.Has(mneme.Mandatory|mneme.Pinned) {
			return false
		}
	}
	return true
}

func main() {}
