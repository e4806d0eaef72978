package policies_test

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-0906e6bc/mneme/policies/policytest"
	toolpairtrim "github.com/seed-0906e6bc/mneme/policies/tool-pair-trim"
	mneme "github.com/seed-0906e6bc/mneme/sdk/go"
	"github.com/seed-0906e6bc/mneme/sdk/go/mnemetest"
)

// grow plays a session turn by turn, each window seen through the newest 256 messages, and counts how often its first
// message changes: how often a provider's prompt cache is lost.
func grow(t *testing.T, lowWater float64, messages, tokens uint32) (cuts int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	session, begins := new(policytest.Talk), uint64(0)
	for turn := uint32(1); turn <= 400; turn++ {
		session.Say(turn, mneme.User, 20+rng.Uint32N(40))
		if rng.IntN(3) == 0 {
			session.Call(turn, 1+rng.IntN(3), 20+rng.Uint32N(100))
		}
		session.Say(turn, mneme.Assistant, 20+rng.Uint32N(100))

		table := mnemetest.Table{Records: session.Records, BudgetMessages: messages, BudgetTokens: tokens}
		if first := len(session.Records) - 256; first > 0 {
			for session.Records[first].Atom == session.Records[first-1].Atom {
				first++
			}
			table.Records, table.OlderExist = session.Records[first:], true
		}
		table.Records = append([]mnemetest.Record(nil), table.Records...)
		table.Records[len(table.Records)-1].Flags |= mneme.Mandatory
		table.Config = map[string]any{"low_water": lowWater}
		table.CountTokens = fiveTokens
		checkLaw(t, &table)

		by := covered(&table, run(t, toolpairtrim.Assemble, &table))
		first := 0
		for by[first] >= 0 {
			first++
		}
		if seq := table.Records[first].Seq; seq != begins {
			if seq < begins && lowWater == 1 { // below 1 another anchor may replay to an earlier cut
				t.Errorf("turn %d: the cut moved back from %d to %d", turn, begins, seq)
			}
			cuts, begins = cuts+1, seq
		}
	}
	return cuts
}

func TestLowWaterCutsRarely(t *testing.T) {
	for name, budget := range map[string]struct{ messages, tokens uint32 }{
		"messages": {50, 0},
		"tokens":   {0, 3000},
		"both":     {50, 4000},
	} {
		t.Run(name, func(t *testing.T) {
			always, rarely := grow(t, 1, budget.messages, budget.tokens), grow(t, 0.7, budget.messages, budget.tokens)
			if always < 200 || rarely*3 > always {
				t.Errorf("the window's start moved %d times, with low_water 0.7 %d times", always, rarely)
			}
		})
	}
}

// A cut leaves at most the share, and whole turns.
func TestLowWaterShare(t *testing.T) {
	s := new(policytest.Talk).Turns(1, 26)
	s.BudgetMessages = 50
	s.Config = map[string]any{"low_water": 0.7}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)),
		"drop 0..17 over_max_messages", `insert 18 "[earlier messages left out: 18]"`)
	s.Turns(27, 33) // 48 messages since the cut
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)),
		"drop 0..17 over_max_messages", `insert 18 "[earlier messages left out: 18]"`)
}

// A share of a small bound that rounds to nothing is not the absence of a bound.
func TestLowWaterSmallBudget(t *testing.T) {
	s := new(policytest.Talk).Turns(1, 3)
	s.BudgetMessages = 5
	s.Config = map[string]any{"low_water": 0.1}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)),
		"drop 0..3 over_max_messages", `insert 4 "[earlier messages left out: 4]"`)
}

// Where little follows the anchor, the replay begins at the table's start: nothing goes that the share allows.
func TestLowWaterAnchorNearTheEnd(t *testing.T) {
	s := new(policytest.Talk).Turns(1, 70)
	s.Records = s.Records[100:] // from seq 101 on; the anchor is 129
	s.BudgetMessages = 30
	s.Config = map[string]any{"low_water": 0.5}
	ops := run(t, toolpairtrim.Assemble, &s.Table)
	if kept := len(s.Records) - (ops[0].Last + 1); kept < 14 {
		t.Errorf("%d messages are kept of 30 allowed: %q", kept, brief(ops))
	}
}
