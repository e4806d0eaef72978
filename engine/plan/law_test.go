package plan_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

func without(items []plan.Item, at ...int) []plan.Item {
	var out []plan.Item
	for i, it := range items {
		if !slices.Contains(at, i) {
			out = append(out, it)
		}
	}
	return out
}

func change(items []plan.Item, at int, f func(*plan.Item)) []plan.Item {
	out := slices.Clone(items)
	f(&out[at])
	return out
}

// Each rule of the validity check, broken in one way.
func TestLawRefuses(t *testing.T) {
	base := window("ucrra ua")
	base[5].Flags |= plan.FlagMandatory
	base[6].Flags |= plan.FlagMandatory
	swapped := slices.Clone(base)
	swapped[0], swapped[4] = swapped[4], swapped[0]
	scoped := change(base, 4, func(it *plan.Item) { it.Delegation = 2 })
	open := window("uo ua")
	for _, test := range []struct {
		name          string
		law           plan.Law
		before, after []plan.Item
		rule          string
	}{
		{"all kept", plan.Law{BudgetMessages: 7, BudgetTokens: 70}, base, base, ""},
		{"an earlier question is no message", plan.Law{BudgetMessages: 6, BudgetTokens: 70}, base,
			change(base, 0, func(it *plan.Item) {
				it.Change, it.Rows, it.Flags = plan.Compressed, []int32{it.Row}, plan.FlagCompressed
			}), ""},
		{"an earlier question costs tokens", plan.Law{BudgetTokens: 69}, base,
			change(base, 0, func(it *plan.Item) {
				it.Change, it.Rows, it.Flags = plan.Compressed, []int32{it.Row}, plan.FlagCompressed
			}), plan.RuleBudgetTokens},
		{"an atom dropped", plan.Law{}, base, without(base, 1, 2, 3), ""},
		{"too many messages", plan.Law{BudgetMessages: 6}, base, base, plan.RuleBudgetMessages},
		{"too many tokens", plan.Law{BudgetTokens: 69}, base, base, plan.RuleBudgetTokens},
		{"no room for the opening", plan.Law{BudgetTokens: 60, Opening: 5}, base, without(base, 0),
			plan.RuleBudgetTokens},
		{"a result gone", plan.Law{}, base, without(base, 2), plan.RuleWholeAtoms},
		{"a call gone", plan.Law{}, base, without(base, 1), plan.RuleWholeAtoms},
		{"order", plan.Law{}, base, swapped, plan.RuleOrder},
		{"twice", plan.Law{}, base, append(slices.Clone(base), base[6]), plan.RuleOrder},
		{"another delegation", plan.Law{ViewerDelegation: 1}, scoped, scoped, plan.RuleDelegationScope},
		{"the main agent sees it", plan.Law{}, scoped, scoped, ""},
		{"newest user gone", plan.Law{}, base, without(base, 5), plan.RuleMandatory},
		{"newest atom gone", plan.Law{}, base, without(base, 6), plan.RuleMandatory},
		{"invented", plan.Law{}, base, change(base, 0, func(it *plan.Item) { it.Seq = 99 }), plan.RuleNothingInvented},
		{"another's role", plan.Law{}, base, change(base, 4, func(it *plan.Item) { it.Role = plan.RoleUser }),
			plan.RuleNothingInvented},
		{"row from nowhere", plan.Law{}, base, change(base, 6, func(it *plan.Item) { it.Row = 70 }),
			plan.RuleNothingInvented},
		{"a notice as a tool message", plan.Law{}, base, append(slices.Clone(base),
			plan.Item{Change: plan.Notice, Row: -1,
				Record: plan.Record{Role: plan.RoleTool}}), plan.RuleNothingInvented},
		{"an open call in the middle", plan.Law{}, open, open, plan.RuleProvider},
		{"an open call at the end", plan.Law{}, open, without(open, 2, 3), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if v := test.law.Check(test.before, test.after); v != nil {
				got = v.Rule
			}
			if got != test.rule {
				t.Errorf("broke %q, want %q", got, test.rule)
			}
		})
	}
}

// Whatever well-formed ops do, a window can only break the rules on the budget and on mandatory messages: a plan cannot
// break order, atoms and origin.
func TestPlansCannotBreakShape(t *testing.T) {
	r, summaries := rand.New(rand.NewPCG(11, 0)), 0
	for range 5000 {
		letters := make([]byte, r.IntN(24))
		for i := range letters {
			letters[i] = "uuacrs "[r.IntN(7)]
			if letters[i] == 'r' && (i == 0 || letters[i-1] != 'c' && letters[i-1] != 'r') {
				letters[i] = 'a'
			}
		}
		before := window(string(letters))
		items, covers := before, r.Uint64N(24)
		for step := range int16(3) {
			var ops []plan.Op
			for range r.IntN(4) {
				n := uint32(len(items) + 1)
				ops = append(ops, op(plan.OpCode(1+r.IntN(10)), r.Uint32N(n), r.Uint32N(n)))
			}
			if got, err := plan.Apply(items, ops, step, source{covers}, free{}); err == nil {
				items = got.Items
			}
		}
		n := strings.Count(shape(items), "Z")
		if n > 1 {
			t.Fatalf("%q has %d summaries", letters, n)
		}
		summaries += n
		if v := (&plan.Law{}).Check(before, items); v != nil {
			t.Fatalf("%q became %q: %v", letters, shape(items), v)
		}
	}
	if summaries < 100 {
		t.Errorf("only %d windows have a summary", summaries)
	}
}
