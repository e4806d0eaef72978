package policies_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	depthcompress "github.com/seed-0906e6bc/mneme/policies/depth-compress"
	"github.com/seed-0906e6bc/mneme/policies/policytest"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("plan is %q, want %q", got, want)
	}
}

func TestDepthCompress(t *testing.T) {
	var tenOld []string
	for i := range 10 {
		tenOld = append(tenOld, fmt.Sprintf("compress %d..%d beyond_depth", 2*i, 2*i+1))
	}
	for name, c := range map[string]struct {
		table *policytest.Talk
		depth any // nil means the default
		want  []string
	}{
		"30 turns, default depth": {new(policytest.Talk).Turns(1, 30), nil, tenOld},
		"30 turns, depth 30":      {new(policytest.Talk).Turns(1, 30), 30, nil},
		"30 turns, depth 100":     {new(policytest.Talk).Turns(1, 30), 100, nil},
		"depth 1":                 {new(policytest.Talk).Turns(1, 2), 1, []string{"compress 0..1 beyond_depth"}},
		"no records":              {new(policytest.Talk), 1, nil},
		"only system-class":       {new(policytest.Talk).System(mneme.Summary, 9), 1, nil},
		"turns count by number": {
			new(policytest.Talk).Turns(1, 1).Turns(9, 10), 2, []string{"compress 0..1 beyond_depth"},
		},
		"several questions and a call are one run": {
			new(policytest.Talk).Say(1, mneme.User, 1).Call(1, 2, 1).Say(1, mneme.User, 1).Turns(2, 2), 1,
			[]string{"compress 0..4 beyond_depth"},
		},
		"a turn without a question is dropped": {
			new(policytest.Talk).Call(1, 1, 1).Say(1, mneme.Assistant, 1).Turns(2, 2), 1,
			[]string{"drop 0..2 beyond_depth"},
		},
		"each turn for itself": {
			new(policytest.Talk).Say(1, mneme.Assistant, 1).Turns(2, 2).Say(3, mneme.Assistant, 1).Turns(4, 4), 1,
			[]string{"drop 0..0 beyond_depth", "compress 1..2 beyond_depth", "drop 3..3 beyond_depth"},
		},
		"mandatory stays and parts its turn": {
			new(policytest.Talk).Turns(1, 1).Call(1, 1, 1).Marked(mneme.Mandatory).Say(1, mneme.Assistant, 1).Turns(2,
				2), 1,
			[]string{"compress 0..1 beyond_depth", "drop 4..4 beyond_depth"},
		},
		"compressed stays": {
			new(policytest.Talk).Say(1, mneme.User, 1).Marked(mneme.Compressed).Turns(2, 2).Turns(3, 3), 1,
			[]string{"compress 1..2 beyond_depth"},
		},
		"a summary in front is no turn": {
			new(policytest.Talk).System(mneme.Summary, 9).Turns(5, 7), 2, []string{"compress 1..2 beyond_depth"},
		},
		"what a summary leaves of a turn is compressed": {
			new(policytest.Talk).System(mneme.Summary, 9).Say(5, mneme.Assistant, 1).Turns(6, 7), 1,
			[]string{"drop 1..1 beyond_depth", "compress 2..3 beyond_depth"},
		},
		"system-class stays and parts its turn": {
			new(policytest.Talk).Say(1, mneme.User, 1).System(mneme.Memory, 1).Say(1, mneme.User, 1).Turns(2, 2), 1,
			[]string{"compress 0..0 beyond_depth", "compress 2..2 beyond_depth"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.depth != nil {
				c.table.Config = map[string]any{"depth": c.depth, "depth_step": 1}
			}
			equal(t, brief(run(t, depthcompress.Assemble, &c.table.Table)), c.want...)
		})
	}
}

// The newest compressed turn is floor((newest - depth - step/2)/step)*step + step/2, at least 0.
func TestDepthMovesInSteps(t *testing.T) {
	for newest := uint32(1); newest <= 90; newest++ {
		for _, c := range []struct{ depth, step int }{{20, 20}, {20, 1}, {1, 1}, {5, 4}, {20, 7}} {
			s := new(policytest.Talk).Turns(1, newest)
			s.Config = map[string]any{"depth": c.depth, "depth_step": c.step}
			want := max(int(math.Floor((float64(newest)-float64(c.depth)-float64(c.step/2))/float64(c.step)))*c.step+
				c.step/2, 0)
			if got := len(run(t, depthcompress.Assemble, &s.Table)); got != want {
				t.Errorf("turn %d at depth %d in steps of %d: %d turns are compressed, want %d", newest, c.depth, c.step,
					got, want)
			}
		}
	}
}

// Superseded turns do not count, because the depth counts places.
func TestDepthCountsPlaces(t *testing.T) {
	s := new(policytest.Talk).Turns(1, 4)
	for i := range s.Records {
		if s.Records[i].Turn > 2 {
			s.Records[i].Turn += 30
			s.Records[i].Place = s.Records[i].Turn - 30
		}
	}
	s.Config = map[string]any{"depth": 2, "depth_step": 1}
	equal(t, brief(run(t, depthcompress.Assemble, &s.Table)), "compress 0..1 beyond_depth", "compress 2..3 beyond_depth")
}

// The budget makes no difference: fitting a window is up to tool-pair-trim.
func TestDepthIgnoresTheBudget(t *testing.T) {
	s := new(policytest.Talk).Turns(1, 12)
	s.BudgetMessages, s.BudgetTokens = 10, 50
	equal(t, brief(run(t, depthcompress.Assemble, &s.Table)))
}

// Everything in an old turn is compressed or dropped, except what must stay, in the longest possible runs.
func TestDepthCompressRuns(t *testing.T) {
	seeded(t, 800, 20, func(t *testing.T, table *mnemetest.Table, rng *rand.Rand) {
		depth, step := 1+rng.IntN(12), 1+rng.IntN(6)
		table.Config["depth"], table.Config["depth_step"] = depth, step
		newest := 0
		for _, r := range table.Records {
			newest = max(newest, int(r.Turn))
		}
		beyond := -1
		for n := step / 2; n <= newest-depth; n += step { // the last place that a whole number of steps reaches
			beyond = n
		}
		ops := run(t, depthcompress.Assemble, table)
		by := covered(table, ops)
		for _, a := range atoms(table) {
			old := int(a.records[0].Turn) <= beyond && !a.stays() && !a.flagged(mneme.Compressed)
			for i := a.first; i <= a.last; i++ {
				if (by[i] >= 0) != old {
					t.Fatalf("record %d of turn %d: in an op %v, old %v\n%q\n%s", i, a.records[0].Turn, by[i] >= 0,
						old, brief(ops), listed(table))
				}
			}
		}
		for i, op := range ops {
			asks := slices.ContainsFunc(table.Records[op.First:op.Last+1], func(r mnemetest.Record) bool {
				return r.Role == mneme.User
			})
			if (op.Code == mneme.OpCompress) != asks {
				t.Errorf("op %v over questions: %v", op, asks)
			}
			if i == 0 || ops[i-1].Last+1 != op.First {
				continue
			}
			if table.Records[op.First].Turn == table.Records[op.First-1].Turn {
				t.Errorf("ops %v and %v are one run", ops[i-1], op)
			}
		}
	})
}
