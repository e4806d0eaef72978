// Package delegationfilter is the built-in policy that shows each viewer its own delegation. A viewer in a delegation
// sees the atoms of that delegation and those of no delegation. The main agent sees everything.
package delegationfilter

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// Assemble drops the atoms of other delegations. System-class and mandatory records stay.
func Assemble(req *mneme.Request, plan *mneme.Plan) error {
	viewer := req.ViewerDelegation
	if viewer == 0 {
		return nil
	}
	var why mneme.Text
	for first := 0; first < req.Len(); {
		end, foreign, stays := first, false, false
		for atom := req.Record(first).Atom; end < req.Len(); end++ {
			r := req.Record(end)
			if r.Atom != atom {
				break
			}
			foreign = foreign || r.Delegation != 0 && r.Delegation != viewer
			stays = stays || r.Role == mneme.System || r.Flags.Has(mneme.Mandatory)
		}
		if foreign && !stays {
			if why.Len() == 0 {
				why = plan.Text("other_delegation: belongs to a delegation that is not the viewer's")
			}
			plan.Drop(first, end-1, why)
		}
		first = end
	}
	return nil
}
