package policies_test

import (
	"math/rand/v2"
	"testing"

	depthcompress "github.com/seed-0906e6bc/mneme/policies/depth-compress"
	"github.com/seed-0906e6bc/mneme/policies/policytest"
	toolpairtrim "github.com/seed-0906e6bc/mneme/policies/tool-pair-trim"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// growth plays a session atom by atom, as an agent lives it, and shows each table with the newest user's message and the
// newest atom flagged. The table begins in steps of 64 messages, as the engine has it.
func growth(seed uint64, turns int, each func(table *mnemetest.Table, grew bool)) {
	rng := rand.New(rand.NewPCG(seed, 7))
	session, start, asked := new(policytest.Talk), 0, 0
	show := func() {
		all := session.Records
		if first := len(all) - 256; first > 0 {
			bound := (first+63)/64*64 + 1
			for start < bound-1 || all[start].Turn == all[max(start, 1)-1].Turn && start < bound+191 {
				start++
			}
		}
		table := &mnemetest.Table{Records: append([]mnemetest.Record(nil), all[start:]...), OlderExist: start > 0,
			CountTokens: fiveTokens, Config: map[string]any{}}
		last := len(table.Records) - 1
		for i := range table.Records {
			if r := &table.Records[i]; i+start == asked || r.Atom == table.Records[last].Atom {
				r.Flags |= mneme.Mandatory
			}
		}
		each(table, start > 0)
	}
	for turn := uint32(1); turn <= uint32(turns); turn++ {
		asked = len(session.Records)
		session.Say(turn, mneme.User, 20+rng.Uint32N(40))
		show()
		steps := rng.IntN(3)
		if rng.IntN(20) == 0 {
			steps = 20 + rng.IntN(60)
		}
		for range steps {
			session.Call(turn, 1+rng.IntN(2), 20+rng.Uint32N(100))
			show()
		}
		session.Say(turn, mneme.Assistant, 20+rng.Uint32N(100))
	}
}

// shown are the records of a window, by their numbers in the session; an earlier question's is negative.
func shown(t *testing.T, table *mnemetest.Table, policy mneme.Policy) (out []int64) {
	t.Helper()
	by := covered(table, run(t, policy, table))
	for i, r := range table.Records {
		if by[i] >= 0 {
			continue
		}
		seq := int64(r.Seq)
		if r.Flags.Has(mneme.Compressed) {
			out = append(out, -seq)
		} else {
			out = append(out, seq)
		}
	}
	return out
}

// begins tells whether a window begins with all of another.
func begins(now, before []int64) bool {
	for i, seq := range before {
		if i >= len(now) || now[i] != seq {
			return false
		}
	}
	return true
}

// While the table's start stands still, a window begins with the one before it, except where the newest atom made it
// exceed the budget; and after such a cut, so much room is free that it is rare.
func TestCutsStandStill(t *testing.T) {
	for name, budget := range map[string]struct{ messages, tokens uint32 }{
		"messages": {50, 0},
		"tokens":   {0, 3000},
		"both":     {40, 2500},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				var before []int64
				windows, cuts, tableStart := 0, 0, uint64(0)
				growth(seed, 150, func(table *mnemetest.Table, _ bool) {
					table.BudgetMessages, table.BudgetTokens = budget.messages, budget.tokens
					checkLaw(t, table)
					now := shown(t, table, toolpairtrim.Assemble)
					moved := table.Records[0].Seq != tableStart
					tableStart = table.Records[0].Seq
					windows++
					if !begins(now, before) {
						cuts++
						if !moved && spare(table, before) {
							t.Fatalf("seed %d: the window of %d messages was cut though it had room", seed, len(before))
						}
					}
					before = now
				})
				if cuts*5 > windows {
					t.Errorf("seed %d: %d of %d windows cut", seed, cuts, windows)
				}
			}
		})
	}
}

// spare tells whether the window before would still be within the budget with what came since. A marker may take room.
func spare(table *mnemetest.Table, before []int64) bool {
	last := before[len(before)-1]
	kept := make([]bool, len(table.Records))
	for i, r := range table.Records {
		kept[i] = int64(r.Seq) > last
		for _, seq := range before {
			kept[i] = kept[i] || seq == int64(r.Seq)
		}
	}
	return fits(table, kept, markerRoom)
}

// compressed is a table as depth-compress leaves it.
func compressed(t *testing.T, table *mnemetest.Table) *mnemetest.Table {
	t.Helper()
	out := *table
	out.Records = nil
	ops := run(t, depthcompress.Assemble, table)
	by := covered(table, ops)
	for i, r := range table.Records {
		switch {
		case by[i] < 0:
			out.Records = append(out.Records, r)
		case ops[by[i]].Code == mneme.OpCompress && r.Role == mneme.User:
			r.Tokens, r.CompressedTokens, r.Flags = r.CompressedTokens, 0, r.Flags|mneme.Compressed
			out.Records = append(out.Records, r)
		}
	}
	return &out
}

// With both policies a session's windows share their beginnings, hold what they may, and show every turn that is not in
// full as its question as long as there is room.
func TestQuestionsAndCutsTogether(t *testing.T) {
	for seed := range uint64(4) {
		var before []int64
		windows, same, all, fill := 0, 0, 0, 0.0
		growth(seed, 200, func(table *mnemetest.Table, older bool) {
			for i := range table.Records {
				if r := &table.Records[i]; r.Role == mneme.User {
					r.CompressedTokens = r.Tokens + 9
				}
			}
			table.BudgetMessages, table.BudgetTokens = 50, 4000
			left := compressed(t, table)
			checkLaw(t, left)
			now := shown(t, left, toolpairtrim.Assemble)
			if older {
				windows++
				all += len(before)
				for i := range before {
					if i >= len(now) || now[i] != before[i] {
						break
					}
					same++
				}
				messages := 0
				for _, seq := range now {
					if seq > 0 {
						messages++
					}
				}
				fill += float64(messages) / 50
			}
			before = now
		})
		if share, mean := float64(same)/float64(all), fill/float64(windows); share < .77 || mean < .7 {
			t.Errorf("seed %d: share %.2f, fill of messages %.2f over %d windows", seed, share, mean, windows)
		}
	}
}

// A cut leaves at most the share, and whole turns.
func TestLowWaterShare(t *testing.T) {
	s := new(policytest.Talk).Turns(1, 26)
	s.BudgetMessages = 50
	want := []string{"drop 0..15 over_max_messages", `insert 16 "[earlier messages left out]"`}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), want...)
	s.Turns(27, 33) // 50 messages since the cut
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), want...)
}

// A share of a small bound that rounds to nothing is not the absence of a bound.
func TestLowWaterSmallBudget(t *testing.T) {
	s := new(policytest.Talk).Turns(1, 3)
	s.BudgetMessages = 5
	s.Config = map[string]any{"low_water": 0.1}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)),
		"drop 0..3 over_max_messages", `insert 4 "[earlier messages left out]"`)
}

// A long turn is cut inside and keeps its question, even when the next turn has begun.
func TestLongTurnKeepsItsQuestion(t *testing.T) {
	s := new(policytest.Talk).Turns(1, 2).Say(3, mneme.User, 10)
	for range 40 {
		s.Call(3, 1, 10)
	}
	s.BudgetMessages = 30
	want := []string{"drop 0..3 over_max_messages", "drop 5..64 over_max_messages",
		`insert 4 "[earlier messages left out]"`}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), want...)
	s.Say(3, mneme.Assistant, 10).Say(4, mneme.User, 10)
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), want...)
}

// Earlier questions go before turns in full, and not for the sake of messages, which they do not cost.
func TestQuestionsGoFirst(t *testing.T) {
	s := new(policytest.Talk)
	for turn := range uint32(40) {
		s.Say(turn+1, mneme.User, 20).Marked(mneme.Compressed)
	}
	s.Turns(41, 60)
	s.BudgetMessages, s.BudgetTokens = 30, 2000
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)),
		"drop 0..15 over_max_tokens", "drop 40..49 over_max_messages", `insert 16 "[earlier messages left out]"`)
}
