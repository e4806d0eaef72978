package policies_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-0906e6bc/mneme/policies/policytest"
	toolresultclear "github.com/seed-0906e6bc/mneme/policies/tool-result-clear"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// withResults adds an atom with results of the given tokens.
func withResults(s *policytest.Talk, turn uint32, tokens ...uint32) *policytest.Talk {
	s.Call(turn, len(tokens), 10)
	for i, n := range tokens {
		s.Records[len(s.Records)-len(tokens)+i].Tokens = n
	}
	return s
}

func talk() *policytest.Talk { return new(policytest.Talk) }

// The table says which results are cut, to how many tokens, and which are cleared.
func TestToolResultClear(t *testing.T) {
	for name, c := range map[string]struct {
		table  *policytest.Talk
		config map[string]any
		budget uint32
		want   []string
	}{
		"nothing without a budget": {withResults(talk(), 1, 100_000), nil, 0, nil},
		"half of the budget, in steps": {
			withResults(talk(), 1, 3800, 5000), nil, 20_000, nil,
		},
		"what can be shown stays whole": {withResults(talk(), 1, 7966), nil, 8000, nil},
		"what cannot is cut":            {withResults(talk(), 1, 7967), nil, 8000, []string{"truncate 1..1 result_too_long 3840"}},
		"it is shown with its question": {withResults(talk().Say(1, mneme.User, 300), 1, 7666), nil, 8000, nil},
		"and cut where there is no room for that": {
			withResults(talk().Say(1, mneme.User, 301), 1, 7666), nil, 8000, []string{"truncate 2..2 result_too_long 3840"},
		},
		"a question of another turn does not count": {
			withResults(talk().Say(1, mneme.User, 3000), 2, 7666), nil, 8000, nil,
		},
		"longer than half": {withResults(talk(), 1, 9000), nil, 8000, []string{"truncate 1..1 result_too_long 3840"}},
		"a few tokens less of budget cut alike": {
			withResults(talk(), 1, 9000), nil, 7990, []string{"truncate 1..1 result_too_long 3840"},
		},
		"a small budget": {withResults(talk(), 1, 9000), nil, 700, []string{"truncate 1..1 result_too_long 350"}},
		"a bound of one's own": {
			withResults(talk(), 1, 90, 101, 100), map[string]any{"max_result_tokens": 100}, 0,
			[]string{"truncate 2..2 result_too_long 100"},
		},
		"results of one call share": {
			withResults(talk(), 1, 3000, 3000, 3000), nil, 8000, []string{
				"truncate 1..1 result_too_long 1024", "truncate 2..2 result_too_long 2048",
				"truncate 3..3 result_too_long 2048"},
		},
		"small ones of them stay": {
			withResults(talk(), 1, 200, 9000, 9000), nil, 8000, []string{
				"truncate 2..2 result_too_long 2048", "truncate 3..3 result_too_long 2048"},
		},
		"what must stay is cut too": {
			withResults(talk(), 1, 9000).Marked(mneme.Mandatory), nil, 8000,
			[]string{"truncate 1..1 result_too_long 3840"},
		},
		"what is pinned is not": {withResults(talk(), 1, 9000).Marked(mneme.Pinned), nil, 8000, nil},
		"nothing is cleared below the trigger": {
			withResults(withResults(talk(), 1, 100), 1, 100), map[string]any{"trigger": 220, "keep": 0}, 0, nil,
		},
		"above it old ones are": {
			withResults(withResults(talk(), 1, 100), 1, 100), map[string]any{"trigger": 219, "keep": 0}, 0,
			[]string{"stub 1..1 cleared"},
		},
		"the newest are kept": {
			withResults(withResults(withResults(talk(), 1, 100), 1, 100), 1, 100),
			map[string]any{"trigger": 219, "keep": 2}, 0, []string{"stub 1..1 cleared"},
		},
		"an atom is no whole": {
			withResults(withResults(talk(), 1, 100, 100), 1, 100), map[string]any{"trigger": 219, "keep": 2}, 0,
			[]string{"stub 1..1 cleared"},
		},
		"results of the newest atom stay": {
			withResults(talk(), 1, 100, 100, 100, 100), map[string]any{"trigger": 10, "keep": 0}, 0, nil,
		},
		"not worth it": {
			withResults(withResults(talk(), 1, 100), 1, 100),
			map[string]any{"trigger": 200, "keep": 0, "clear_at_least": 77}, 0, nil,
		},
		"just worth it": {
			withResults(withResults(talk(), 1, 100), 1, 100),
			map[string]any{"trigger": 200, "keep": 0, "clear_at_least": 76}, 0, []string{"stub 1..1 cleared"},
		},
		"small ones are not worth it": {
			withResults(withResults(talk(), 1, 24, 100), 1, 100), map[string]any{"trigger": 100, "keep": 0}, 0,
			[]string{"stub 2..2 cleared"},
		},
		"excluded tools": {
			withResults(withResults(talk(), 1, 100), 1, 100),
			map[string]any{"trigger": 100, "keep": 0, "exclude_tools": "ask, get"}, 0, nil,
		},
		"other excluded tools": {
			withResults(withResults(talk(), 1, 100), 1, 100),
			map[string]any{"trigger": 100, "keep": 0, "exclude_tools": "ge,gets t"}, 0, []string{"stub 1..1 cleared"},
		},
		"memories do not count": {
			withResults(withResults(talk().System(mneme.Memory, 1000), 1, 100), 1, 100),
			map[string]any{"trigger": 220, "keep": 0}, 0, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.table.Config, c.table.BudgetTokens = c.config, c.budget
			equal(t, brief(run(t, toolresultclear.Assemble, &c.table.Table)), c.want...)
		})
	}
}

// As a session grows by whole atoms, cut results stay cut to the same length and cleared ones stay cleared. Between two
// clearings nothing before the new atom changes, and each clearing frees at least what it must.
func TestToolResultClearIsStable(t *testing.T) {
	clearings, windows := 0, 0
	seeded(t, 60, 60, func(t *testing.T, _ *mnemetest.Table, rng *rand.Rand) {
		s := talk()
		s.BudgetTokens = 1000 + rng.Uint32N(20_000)
		trigger := 500 + rng.IntN(6000)
		atLeast := rng.IntN(3) * trigger / 5
		s.Config = map[string]any{"trigger": trigger, "keep": rng.IntN(5), "clear_at_least": atLeast}
		if atLeast == 0 {
			atLeast = trigger / 10
		}
		var before map[int]string
		for turn := range uint32(80) {
			known := len(s.Records)
			switch rng.IntN(3) {
			case 0:
				s.Say(turn+1, mneme.User, rng.Uint32N(300))
			case 1:
				withResults(s, turn+1, rng.Uint32N(1<<(4+rng.IntN(10))))
			case 2:
				withResults(s, turn+1, rng.Uint32N(3000), rng.Uint32N(300), rng.Uint32N(3000))
			}
			now, freed := map[int]string{}, 0
			for _, op := range run(t, toolresultclear.Assemble, &s.Table) {
				for i := op.First; i <= op.Last; i++ {
					now[i] = fmt.Sprint(op.Code, op.Argument)
					if op.Code == mneme.OpStub && before[i] != now[i] {
						freed += int(s.Records[i].Tokens)
						if n, ok := truncatedTo(before[i]); ok {
							freed += n - int(s.Records[i].Tokens)
						}
					}
				}
			}
			windows++
			if freed > 0 {
				clearings++
				if freed < atLeast {
					t.Fatalf("after %d records %d tokens were cleared, at least %d are worth it", known, freed, atLeast)
				}
			}
			for i := range known {
				was, is := before[i], now[i]
				if was != is && (freed == 0 || is != fmt.Sprint(mneme.OpStub, 0)) {
					t.Fatalf("after %d records, record %d was %q and is %q", known, i, was, is)
				}
			}
			before = now
		}
	})
	if clearings < 100 || windows < 20*clearings/10 {
		t.Errorf("%d clearings in %d windows", clearings, windows)
	}
}

func truncatedTo(said string) (n int, ok bool) {
	var code mneme.OpCode
	if _, err := fmt.Sscanf(said, "%d %d", &code, &n); err != nil || code != mneme.OpTruncate {
		return 0, false
	}
	return n, true
}

// For any table: a cut atom exceeds its share only if all of its results have the minimum length, no atom is cut that
// can be shown together with the question of its turn, and only results change.
func TestToolResultClearShares(t *testing.T) {
	cut := 0
	seeded(t, 3000, 40, func(t *testing.T, table *mnemetest.Table, rng *rand.Rand) {
		for i := range table.Records {
			if r := &table.Records[i]; r.Role == mneme.Tool {
				r.Tokens = rng.Uint32N(1 << (1 + rng.IntN(14)))
			}
		}
		table.BudgetTokens = rng.Uint32N(1 << (1 + rng.IntN(15)))
		table.Config = nil
		ops := run(t, toolresultclear.Assemble, table)
		by := covered(table, ops)
		share := uint64(table.BudgetTokens) - uint64(table.BudgetTokens)/4
		asked, turn := uint64(0), uint32(0)
		for _, a := range atoms(table) {
			if of := a.records[0].Turn; of != turn {
				asked, turn = 0, of
			}
			total, all, longest := uint64(0), uint64(0), uint32(0)
			for i := a.first; i <= a.last; i++ {
				r, tokens := table.Records[i], table.Records[i].Tokens
				if by[i] >= 0 {
					op := ops[by[i]]
					if r.Role != mneme.Tool || op.Code != mneme.OpTruncate || op.Argument >= tokens {
						t.Fatalf("record %d of %d tokens: %+v", i, tokens, op)
					}
					cut++
					tokens = op.Argument
					longest = max(longest, tokens)
				}
				total, all = total+uint64(tokens), all+uint64(r.Tokens)
			}
			if longest > 256 && total > share && table.BudgetTokens > 2048 {
				t.Fatalf("records %d..%d have %d tokens of a share of %d", a.first, a.last, total, share)
			}
			if shown := all+asked+24 <= uint64(table.BudgetTokens); shown && longest > 0 {
				t.Fatalf("records %d..%d have %d tokens beside a question of %d and are cut", a.first, a.last, all, asked)
			}
			for _, r := range a.records {
				if r.Role == mneme.User {
					asked = uint64(r.Tokens)
				}
			}
		}
	})
	if cut < 1000 {
		t.Errorf("%d results were cut", cut)
	}
}
