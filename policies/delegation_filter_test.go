package policies_test

import (
	"math/rand/v2"
	"testing"

	delegationfilter "github.com/seed-0906e6bc/mneme/policies/delegation-filter"
	"github.com/seed-0906e6bc/mneme/policies/policytest"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// A viewer sees whole atoms of its own delegation and of the top level; the main agent sees everything.
func TestDelegationFilterScope(t *testing.T) {
	seeded(t, 500, 12, func(t *testing.T, table *mnemetest.Table, _ *rand.Rand) {
		ops := run(t, delegationfilter.Assemble, table)
		by := covered(table, ops)
		for _, a := range atoms(table) {
			foreign := table.ViewerDelegation != 0 && !a.system() && !a.must() && a.any(func(r mnemetest.Record) bool {
				return r.Delegation != 0 && r.Delegation != table.ViewerDelegation
			})
			for i := a.first; i <= a.last; i++ {
				if (by[i] >= 0) != foreign {
					t.Fatalf("record %d: dropped %v, of another delegation %v", i, by[i] >= 0, foreign)
				}
			}
		}
		for i, op := range ops {
			if op.Code != mneme.OpDrop || i > 0 && ops[i-1].Last+1 == op.First {
				t.Errorf("op %v is no DROP of a whole run", op)
			}
		}
	})
}

func TestDelegationFilterReason(t *testing.T) {
	var s policytest.Talk
	s.Say(1, mneme.User, 5).Call(1, 2, 5).Say(1, mneme.Assistant, 5).Say(2, mneme.User, 5)
	for i := 1; i <= 4; i++ {
		s.Records[i].Delegation = 2
	}
	s.ViewerDelegation = 1
	equal(t, brief(run(t, delegationfilter.Assemble, &s.Table)), "drop 1..4 other_delegation")
	s.Records[3].Delegation = 1 // one record of another delegation hides the whole atom
	equal(t, brief(run(t, delegationfilter.Assemble, &s.Table)), "drop 1..4 other_delegation")
	s.ViewerDelegation = 0
	equal(t, brief(run(t, delegationfilter.Assemble, &s.Table)))
}
