// Command latest-only is the demo's policy: of the exchanges that carry a tag, the newest few stay.
package main

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

var _ = mneme.Register(latestOnly)

// latestOnly goes from the newest atom to the oldest, keeps the first few tagged ones, and drops the other tagged ones.
func latestOnly(req *mneme.Request, plan *mneme.Plan) error {
	tag, why := req.ConfigString("tag", "status"), plan.Text("superseded: newer ones carry the same tag")
	left := req.ConfigInt("keep", 1)
	for last := req.Len() - 1; last >= 0; {
		first := last
		for first > 0 && req.Record(first-1).Atom == req.Record(last).Atom {
			first--
		}
		tagged, stays := false, false
		for i := first; i <= last; i++ {
			r := req.Record(i)
			tagged = tagged || req.HasTag(r, tag)
			stays = stays || r.Role == mneme.System || r.Flags.Has(mneme.Mandatory|mneme.Pinned)
		}
		if tagged && left <= 0 && !stays {
			plan.Drop(first, last, why)
		}
		if tagged {
			left--
		}
		last = first - 1
	}
	return nil
}

func main() {}
