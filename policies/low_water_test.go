package policies_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/policies/policytest"
	toolpairtrim "github.com/seed-0906e6bc/mneme/policies/tool-pair-trim"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// growth plays a session atom by atom and shows each table, with the newest user message and the newest atom flagged.
// As in the engine, the beginning of the table moves in steps of 64 messages.
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
			if r := &table.Records[i]; r.Role == mneme.User {
				r.CompressedTokens = r.Tokens + 9
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

// shown returns the records of a window by their numbers in the session; the number of an earlier question is negative.
func shown(t *testing.T, table *mnemetest.Table, policy mneme.Policy) (out []int64) {
	t.Helper()
	ops := run(t, policy, table)
	by := covered(table, ops)
	for i, r := range table.Records {
		asked := by[i] >= 0 && ops[by[i]].Code == mneme.OpCompress && r.Role == mneme.User
		if by[i] >= 0 && !asked && ops[by[i]].Code != mneme.OpTruncate {
			continue
		}
		seq := int64(r.Seq)
		if asked || r.Flags.Has(mneme.Compressed) {
			out = append(out, -seq)
		} else {
			out = append(out, seq)
		}
	}
	return out
}

// begins reports whether a window begins with the whole of another.
func begins(now, before []int64) bool {
	for i, seq := range before {
		if i >= len(now) || now[i] != seq {
			return false
		}
	}
	return true
}

// While the beginning of the table does not move, a window begins with the previous one, unless the newest atom
// exceeded the budget or there was no room for a new turn. Each such cut frees so much room that cuts are rare.
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
					checkValid(t, table)
					now := shown(t, table, toolpairtrim.Assemble)
					moved := table.Records[0].Seq != tableStart
					tableStart = table.Records[0].Seq
					windows++
					if !begins(now, before) {
						cuts++
						begins := table.Records[len(table.Records)-1].Role == mneme.User
						if !moved && !begins && spare(table, before) {
							t.Fatalf("seed %d: the window of %d messages was cut though it had room", seed, len(before))
						}
					}
					before = now
				})
				if cuts*4 > windows {
					t.Errorf("seed %d: %d of %d windows cut", seed, cuts, windows)
				}
			}
		})
	}
}

// spare reports whether the previous window together with the new atoms would still be within the budget. A marker may
// take room.
func spare(table *mnemetest.Table, before []int64) bool {
	last := before[len(before)-1]
	kept := make([]bool, len(table.Records))
	for i, r := range table.Records {
		kept[i] = int64(r.Seq) > last
		for _, seq := range before {
			kept[i] = kept[i] || seq == int64(r.Seq)
		}
	}
	return fits(table, kept, markerRoom+uint64(table.BudgetTokens)/16+max(uint64(table.BudgetTokens)/8, 200))
}

// Consecutive windows of a session begin alike, and contain nothing that is not allowed.
func TestWindowsShareTheirBeginnings(t *testing.T) {
	for seed := range uint64(4) {
		var before []int64
		windows, same, all, fill := 0, 0, 0, 0.0
		growth(seed, 200, func(table *mnemetest.Table, older bool) {
			table.BudgetMessages, table.BudgetTokens = 50, 4000
			checkValid(t, table)
			now := shown(t, table, toolpairtrim.Assemble)
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
		if share, mean := float64(same)/float64(all), fill/float64(windows); share < .8 || mean < .55 {
			t.Errorf("seed %d: share %.2f, fill of messages %.2f over %d windows", seed, share, mean, windows)
		}
	}
}

// A cut leaves at most the share, in whole turns.
func TestLowWaterShare(t *testing.T) {
	s := new(policytest.Talk)
	for turn := range uint32(7) {
		s.Say(turn+1, mneme.User, 10).Call(turn+1, 4, 10).Say(turn+1, mneme.Assistant, 10)
	}
	s.BudgetMessages, s.Config = 30, map[string]any{"turn_room": 0.0}
	want := []string{"drop 0..20 over_max_messages", `insert 21 "[earlier messages left out]"`}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), want...)
}

// Plain turns are cut to exactly the depth, and then stay until the bound is exceeded again.
func TestCutLeavesTheDepth(t *testing.T) {
	for turns, from := range map[uint32]int{25: 0, 26: 6, 30: 10, 31: 10, 35: 10, 36: 16, 41: 16, 42: 22, 47: 22, 48: 28} {
		s := new(policytest.Talk).Turns(1, turns-1).Say(turns, mneme.User, 10)
		s.BudgetMessages = 50
		ops := run(t, toolpairtrim.Assemble, &s.Table)
		if got := len(covered(&s.Table, nil)) - kept(&s.Table, ops); got != 2*from {
			t.Errorf("%d turns: the newest of %d messages that went, want %d; plan %q", turns, got, 2*from, brief(ops))
		}
	}
}

// kept counts the records that no op names.
func kept(table *mnemetest.Table, ops []mnemetest.Op) (n int) {
	for _, by := range covered(table, ops) {
		if by < 0 {
			n++
		}
	}
	return n
}

// A share of a small bound that rounds to zero does not mean that there is no bound.
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
	want := []string{"drop 0..3 over_max_messages", "drop 5..68 over_max_messages",
		`insert 4 "[earlier messages left out]"`}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), want...)
	s.Config = map[string]any{"turn_room": 0.0}
	s.Say(3, mneme.Assistant, 10).Say(4, mneme.User, 10)
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), want...)
}

// Of dropped turns the newest questions remain, as many as there is room for.
func TestQuestionsAreLeft(t *testing.T) {
	s := new(policytest.Talk).Turns(1, 60)
	for i := range s.Records {
		s.Records[i].CompressedTokens = 25 * uint32(1-i%2)
	}
	s.BudgetTokens, s.CountTokens = 3200, fiveTokens // room for 200 tokens of questions
	s.Config = map[string]any{"depth": 20, "depth_step": 1}
	ops := brief(run(t, toolpairtrim.Assemble, &s.Table))
	if len(ops) != 10 || ops[0] != "drop 0..63 beyond_depth" || ops[1] != "compress 64..65 beyond_depth" ||
		ops[8] != "compress 78..79 beyond_depth" || ops[9] != `insert 64 "[earlier messages left out]"` {
		t.Errorf("plan %q", ops)
	}
	s.Config["question_tokens"] = 0
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), "drop 0..79 beyond_depth", `insert 80 "[earlier messages left out]"`)
	s.Records[70].CompressedTokens = 201 // the question is shortened, and costs 44 tokens
	delete(s.Config, "question_tokens")
	if ops := brief(run(t, toolpairtrim.Assemble, &s.Table)); ops[0] != "drop 0..65 beyond_depth" || len(ops) != 9 {
		t.Errorf("plan %q", ops)
	}
}

// Questions left by depth-compress stay while there is room, and do not count as messages.
func TestQuestionsOfAnEarlierStep(t *testing.T) {
	s := new(policytest.Talk)
	for turn := range uint32(40) {
		s.Say(turn+1, mneme.User, 20).Marked(mneme.Compressed)
	}
	s.Turns(41, 60)
	s.BudgetMessages, s.BudgetTokens, s.Config = 50, 2000, map[string]any{"ledger_tokens": 0}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)))
	s.BudgetTokens = 1000
	ops := brief(run(t, toolpairtrim.Assemble, &s.Table))
	equal(t, ops, "drop 0..24 over_max_tokens", `insert 25 "[earlier messages left out]"`)
}

// A ledger of everything dropped replaces the marker, or is there alone if each turn left its question. Without a
// marker there is no ledger.
func TestLedger(t *testing.T) {
	ledger := func(s *policytest.Talk) string {
		t.Helper()
		var out []string
		for _, op := range run(t, toolpairtrim.Assemble, &s.Table) {
			if op.Code == mneme.OpLedger || op.Code == mneme.OpInsert {
				out = append(out, fmt.Sprint(op.Code, " ", op.First, " ", op.Last, " ", op.Argument))
			}
		}
		return strings.Join(out, ", ")
	}
	s := new(policytest.Talk).Turns(1, 30)
	for i := range s.Records {
		s.Records[i].CompressedTokens = 25 * uint32(1-i%2)
	}
	s.CountTokens, s.Config = fiveTokens, map[string]any{}
	for _, c := range []struct {
		tokens         uint32
		ledger, marker any
		want           string
	}{
		{0, nil, nil, "10 0 19 1505"},
		{8000, nil, nil, "10 0 19 1005"},
		{100_000, nil, nil, "10 0 19 1505"},
		{900, nil, nil, "6 20 20 0, 10 0 19 205"}, // no room for questions
		{610, nil, nil, "6 24 24 0, 10 0 23 157"},
		{8000, 99, nil, "10 0 19 104"},
		{8000, 0, nil, ""},
		{8000, nil, false, ""},
	} {
		clear(s.Config)
		if c.ledger != nil {
			s.Config["ledger_tokens"] = c.ledger
		}
		if c.marker != nil {
			s.Config["marker"] = c.marker
		}
		s.BudgetTokens = c.tokens
		if got := ledger(s); got != c.want {
			t.Errorf("%d tokens, config %v: %s, want %s", c.tokens, s.Config, got, c.want)
		}
	}
}

// Once something was left out, a window is cut when a turn begins, if a turn as large as recent ones with tools would
// not fit.
func TestTurnRoom(t *testing.T) {
	table := func(turns uint32) *policytest.Talk {
		s := new(policytest.Talk)
		for turn := range turns {
			s.Say(turn+1, mneme.User, 10).Call(turn+1, 6, 10).Say(turn+1, mneme.Assistant, 10)
		}
		s.BudgetMessages = 30
		return s
	}
	// 27 messages, and a turn that begins: nothing was left out before, and everything fits.
	s := table(3).Say(4, mneme.User, 10)
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)))
	// Now the fourth turn does not fit. The fifth begins after 18 messages and could come to 27: there is room for it.
	s = table(4).Say(5, mneme.User, 10)
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), "drop 0..17 over_max_messages", `insert 18 "[earlier messages left out]"`)
	// There would be no room for the sixth.
	s = table(5).Say(6, mneme.User, 10)
	ops := run(t, toolpairtrim.Assemble, &s.Table)
	equal(t, brief(ops), "drop 0..35 turn_room", `insert 36 "[earlier messages left out]"`)
	if want := "turn_room: the turn would not have had room: of the last 5 with tool results one took 9 messages"; ops[0].Reason != want {
		t.Errorf("reason %q, want %q", ops[0].Reason, want)
	}
	s.Config = map[string]any{"turn_room": 0.0}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), "drop 0..17 over_max_messages", `insert 18 "[earlier messages left out]"`)
	s.Config = map[string]any{"depth": 20, "depth_step": 1}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), "drop 0..17 over_max_messages", `insert 18 "[earlier messages left out]"`)
}

// In a turn that is cut inside, a long question is shortened so that its answer can stay. The newest question never is.
func TestPasteIsCut(t *testing.T) {
	s := new(policytest.Talk).Say(1, mneme.User, 7200).Say(1, mneme.Assistant, 11)
	s.BudgetMessages, s.BudgetTokens, s.CountTokens = 50, 8000, fiveTokens
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)))
	s.Say(2, mneme.User, 900)
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), "truncate 0..0 over_max_tokens 512")
	s.Records[0].Flags |= mneme.Image
	if ops := brief(run(t, toolpairtrim.Assemble, &s.Table)); len(ops) == 0 || ops[0] == "truncate 0..0 over_max_tokens 512" {
		t.Errorf("a message with a picture is cut: %q", ops)
	}
}
