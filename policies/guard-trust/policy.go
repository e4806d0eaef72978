// Package guardtrust is the built-in policy that keeps a memory from being overwritten by what is less trusted: a model
// cannot replace what a user said.
package guardtrust

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// Admit refuses a candidate if the memory under its key is more trusted.
func Admit(req *mneme.Request, plan *mneme.Plan) error {
	candidate := req.Memory(0)
	for i := 1; i < req.Len(); i++ {
		m := req.Memory(i)
		if m.Flags.Has(mneme.CandidateKey) && m.Trust > candidate.Trust {
			plan.Refuse(plan.Text("protected"))
			return nil
		}
	}
	return nil
}
