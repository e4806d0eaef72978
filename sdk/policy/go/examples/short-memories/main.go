// Command short-memories is an example of a policy for memories. It refuses what tools write at length (admit), merges
// what is known already (admit), sets memories aside that nobody used for long (retain), and prefers recent hits
// (recall).
package main

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

var (
	_ = mneme.RegisterHook(mneme.Admit, admit)
	_ = mneme.RegisterHook(mneme.Retain, retain)
	_ = mneme.RegisterHook(mneme.Recall, recall)
)

const day = 24 * 60 * 60 * 1000 // ms

// admit refuses or merges the candidate, record 0.
func admit(req *mneme.Request, plan *mneme.Plan) error {
	candidate := req.Memory(0)
	written := req.Origin == mneme.FromTool || req.Origin == mneme.FromFile
	if longest := req.ConfigInt("max_bytes", 2000); written && candidate.Trust < mneme.TrustUser &&
		int64(req.Record(0).TextBytes) > longest {
		plan.Refuse(plan.Text("too_long: more than ").Uint(uint64(longest)).Str(" bytes"))
		return nil
	}
	for i := 1; i < req.Len(); i++ {
		m := req.Memory(i)
		sameKey := candidate.Key == m.Key || !candidate.Flags.Has(mneme.ClientKey)
		if sameKey && m.Flags.Has(mneme.Equal|mneme.Covers) {
			plan.Merge(i, 0, plan.Text("known"))
			return nil
		}
	}
	return nil
}

// retain sets memories aside that were not recalled for long.
func retain(req *mneme.Request, plan *mneme.Plan) error {
	before := req.Now - req.ConfigInt("forget_after_days", 365)*day
	for i := range req.Len() {
		m, used := req.Memory(i), req.Record(i).Created
		used = max(used, m.LastRecalled)
		if m.Category == mneme.Conversation && m.Trust < mneme.TrustOperator && !m.Flags.Has(mneme.PinnedMemory) &&
			used < before {
			plan.Forget(i, plan.Text("unused"))
		}
	}
	return nil
}

// recall halves the score of a hit for each period of its age.
func recall(req *mneme.Request, plan *mneme.Plan) error {
	period := req.ConfigInt("halve_after_days", 90) * day
	for i := 1; i < req.Len(); i++ {
		m := req.Memory(i)
		at := m.Occurred
		if at == 0 {
			at = req.Record(i).Created
		}
		if halvings := (req.Now - at) / period; halvings > 0 {
			plan.Rank(i, int(m.Score)>>min(halvings, 20), plan.Text("age"))
		}
	}
	return nil
}

func main() {}
