// Command latest-only-1 is the first version of the demo's policy: of the exchanges that carry a tag, the newest stays.
package main

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

var _ = mneme.Register(latestOnly)

// latestOnly walks from the newest atom to the oldest and drops each tagged one but the first that it meets.
func latestOnly(req *mneme.Request, plan *mneme.Plan) error {
	tag, why := req.ConfigString("tag", "status"), plan.Text("superseded: a newer one carries the same tag")
	seen := false
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
		if tagged && seen && !stays {
			plan.Drop(first, last, why)
		}
		seen = seen || tagged
		last = first - 1
	}
	return nil
}

func main() {}
