// Command keep-by-tag is an example policy: it keeps records with a tag, and mandatory ones.
package main

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

var _ = mneme.Register(keepByTag)

// keepByTag drops each atom without a record that has the tag in the config.
func keepByTag(req *mneme.Request, plan *mneme.Plan) error {
	tag, why := req.ConfigString("tag", "keep"), plan.Text("untagged: carries no tag that is to be kept")
	for first, end := 0, 0; first < req.Len(); first = end {
		keep := false
		end = req.AtomEnd(first)
		for i := first; i < end; i++ {
			r := req.Record(i)
			keep = keep || req.HasTag(r, tag) || r.Role == mneme.System ||
				r.Flags.Has(mneme.Mandatory|mneme.TagsLeftOut)
		}
		if !keep {
			plan.Drop(first, end-1, why)
		}
	}
	return nil
}

func main() {}
