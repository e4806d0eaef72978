// Package refusenoise is the built-in policy that keeps out what is not worth remembering: heartbeats, refusals, empty
// JSON, instructions of the agent, reports on the conversation, steps under way, dumps and invented profiles. It looks at
// words alone, so it is generous: a text needs two hints of the same kind.
package refusenoise

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// The text that is examined, outside the stack, which is small.
var (
	buffer  [maxRead]byte
	current text
)

// countedTwice is how many memories must be equal to a candidate but for digits, so that it counts as a counter.
const countedTwice = 2

// Admit refuses noise that a tool, a file or the job that remembers wants to store. What a client stores, and what an
// operator says, passes unread.
func Admit(req *mneme.Request, plan *mneme.Plan) error {
	if req.Origin == mneme.FromAPI || req.Memory(0).Trust == mneme.TrustOperator {
		return nil
	}
	equal := 0
	for i := 1; i < req.Len(); i++ {
		if req.Memory(i).Flags.Has(mneme.EqualDigits) {
			equal++
		}
	}
	if equal >= countedTwice {
		plan.Refuse(plan.Text(counter))
		return nil
	}
	n := min(req.Text(0, 0, buffer[:]), len(buffer))
	if n < 0 {
		return nil
	}
	current.read(string(buffer[:n]))
	if code := current.noise(); code != "" {
		plan.Refuse(plan.Text(code))
	}
	return nil
}
