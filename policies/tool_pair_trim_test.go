package policies_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/policies/policytest"
	toolpairtrim "github.com/seed-0906e6bc/mneme/policies/tool-pair-trim"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// The tables below count five tokens for any text. A message costs four more, and the policy sets three more aside.
const (
	markerText    = 5
	messageTokens = 4
	markerRoom    = markerText + 8
)

func fiveTokens(string) int { return markerText }

func TestToolPairTrim(t *testing.T) {
	for name, c := range map[string]struct {
		table            *policytest.Talk
		messages, tokens uint32
		config           map[string]any
		want             []string
	}{
		"no bound":   {new(policytest.Talk).Turns(1, 40), 0, 0, nil, nil},
		"all fits":   {new(policytest.Talk).Turns(1, 25), 50, 500, nil, nil},
		"no records": {new(policytest.Talk), 1, 1, nil, nil},
		"50 messages": {new(policytest.Talk).Turns(1, 40), 50, 0, nil, []string{
			"drop 0..29 over_max_messages", `insert 30 "[earlier messages left out]"`}},
		"a turn goes whole": {new(policytest.Talk).Turns(1, 3), 3, 0, nil, []string{
			"drop 0..3 over_max_messages", `insert 4 "[earlier messages left out]"`}},
		"without a marker": {new(policytest.Talk).Turns(1, 3), 4, 0, map[string]any{"marker": false}, []string{
			"drop 0..1 over_max_messages"}},
		"the marker takes its room": {new(policytest.Talk).Turns(1, 5), 0, 80, nil, []string{
			"drop 0..3 over_max_tokens", `insert 4 "[earlier messages left out]"`}},
		"no room for the marker": {
			new(policytest.Talk).Turns(1, 2).Say(3, mneme.User, 30).Marked(mneme.Mandatory), 0, 42, nil, []string{
				"drop 0..3 over_max_tokens"}},
		"system-class is paid first and stays": {
			new(policytest.Talk).System(mneme.Summary, 60).Turns(1, 3), 0, 60 + markerRoom + 20, nil, []string{
				"drop 1..4 over_max_tokens", `insert 5 "[earlier messages left out]"`}},
		"mandatory is paid first and stays, with its atom": {
			new(policytest.Talk).Turns(1, 1).Call(1, 1, 10).Marked(mneme.Mandatory).Turns(2, 4), 4, 0, nil, []string{
				"drop 0..1 over_max_messages", "drop 4..7 over_max_messages",
				`insert 2 "[earlier messages left out]"`}},
		"only mandatory fits": {
			new(policytest.Talk).Turns(1, 2).Say(3, mneme.User, 10).Marked(mneme.Mandatory), 1, 0, nil, []string{
				"drop 0..3 over_max_messages", `insert 4 "[earlier messages left out]"`}},
		"within the newest turn: its question and its newest atoms": {
			new(policytest.Talk).Turns(1, 1).Say(2, mneme.User, 10).Call(2, 1, 10).Call(2, 2, 10).Say(2,
				mneme.Assistant, 10),
			5, 0, nil, []string{"drop 0..1 over_max_messages", "drop 3..4 over_max_messages",
				`insert 2 "[earlier messages left out]"`}},
		"never half an atom": {
			new(policytest.Talk).Say(1, mneme.User, 10).Call(1, 5, 10).Say(1, mneme.Assistant, 10), 4, 0, nil, []string{
				"drop 1..6 over_max_messages", `insert 0 "[earlier messages left out]"`}},
		"what must stay does not fit": {
			new(policytest.Talk).Turns(1, 1).Say(2, mneme.User, 90).Marked(mneme.Mandatory), 0, 50, nil, []string{
				"drop 0..1 over_max_tokens"}},
		"a summary without room beside what must stay goes": {
			new(policytest.Talk).System(mneme.Summary, 41).Turns(1, 1).Say(2, mneme.User, 10).Marked(mneme.Mandatory),
			0, 50,
			nil, []string{"drop 0..0 over_max_tokens", `insert 1 "[earlier messages left out]"`}},
		"a summary with just the room stays": {
			new(policytest.Talk).System(mneme.Summary, 40).Turns(1, 1).Say(2, mneme.User, 10).Marked(mneme.Mandatory),
			0, 50,
			nil, []string{"drop 1..2 over_max_tokens"}},
		"a summary is worth more than memories, and they more than markers": {
			new(policytest.Talk).System(mneme.Marker, 10).System(mneme.Memory, 10).System(mneme.Memory, 10).
				System(mneme.Summary, 10).Say(1, mneme.User, 10).Marked(mneme.Mandatory), 0, 35, nil, []string{
				"drop 0..0 over_max_tokens", "drop 2..2 over_max_tokens"}},
		"no notice is passed over for a smaller one": {
			new(policytest.Talk).System(mneme.Summary, 60).System(mneme.Memory, 10).Say(1, mneme.User, 10).
				Marked(mneme.Mandatory), 0, 50, nil, []string{"drop 0..1 over_max_tokens",
				`insert 2 "[earlier messages left out]"`}},
		"a notice that must stay is paid first": {
			new(policytest.Talk).System(mneme.Marker, 60).Marked(mneme.Mandatory).System(mneme.Summary, 10).
				Say(1, mneme.User, 10).Marked(mneme.Mandatory), 0, 50, nil, []string{"drop 1..1 over_max_tokens"}},
		"a notice costs no message": {
			new(policytest.Talk).System(mneme.Summary, 60).Turns(1, 2), 2, 0, nil, []string{
				"drop 1..2 over_max_messages", `insert 3 "[earlier messages left out]"`}},
	} {
		t.Run(name, func(t *testing.T) {
			c.table.BudgetMessages, c.table.BudgetTokens = c.messages, c.tokens
			c.table.Config = map[string]any{"low_water": 1.0, "depth": 100, "question_tokens": 0, "ledger_tokens": 0}
			maps.Copy(c.table.Config, c.config)
			c.table.CountTokens = fiveTokens
			equal(t, brief(run(t, toolpairtrim.Assemble, &c.table.Table)), c.want...)
		})
	}
}

func TestToolPairTrimSaysWhy(t *testing.T) {
	s := new(policytest.Talk).Turns(1, 40)
	s.BudgetMessages, s.Config = 50, map[string]any{"low_water": 1.0, "depth": 100, "ledger_tokens": 0}
	ops := run(t, toolpairtrim.Assemble, &s.Table)
	if want := "over_max_messages: the window came to 51 messages, the budget is 50"; ops[0].Reason != want {
		t.Errorf("reason %q, want %q", ops[0].Reason, want)
	}
}

// The marker is there whenever messages are missing, always with the same text. Messages that a summary in the window
// covers are not missing.
func TestToolPairTrimMarksWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		covers  uint64
		older   bool
		summary uint32 // its tokens; 0 if none is in the window
		turns   uint32 // from 31 on
		tokens  uint32
		marked  bool
	}{
		"all older messages are covered":        {60, true, 10, 40, 0, false},
		"some older ones are not covered":       {59, true, 10, 40, 0, true},
		"the summary is not in the window":      {60, true, 0, 40, 0, true},
		"the summary has no room":               {60, true, 900, 40, 800, true},
		"and there is nothing before the table": {60, false, 900, 40, 800, true},
		"nothing is before the table":           {0, false, 10, 40, 0, false},
		"the budget takes some":                 {60, true, 10, 70, 500, true},
	} {
		t.Run(name, func(t *testing.T) {
			var s policytest.Talk
			if c.summary > 0 {
				s.System(mneme.Summary, c.summary)
			}
			s.Turns(31, c.turns)
			for i := range s.Records {
				if s.Records[i].Role != mneme.System {
					s.Records[i].Seq += 60
				}
			}
			s.BudgetTokens, s.CountTokens = c.tokens, fiveTokens
			s.SummaryCovers, s.OlderExist = c.covers, c.older
			ops := run(t, toolpairtrim.Assemble, &s.Table)
			at := slices.IndexFunc(ops, func(op mnemetest.Op) bool { return op.Code == mneme.OpInsert })
			marked := at >= 0
			if marked != c.marked || marked && ops[at].Text != "[earlier messages left out]" {
				t.Errorf("marked %v, want %v; plan %q", marked, c.marked, brief(ops))
			}
		})
	}
}

// Sums of the largest numbers do not overflow and then seem to fit the budget.
func TestToolPairTrimLargestTokens(t *testing.T) {
	s := new(policytest.Talk)
	for turn := range uint32(4) {
		s.Say(turn+1, mneme.User, math.MaxUint32)
	}
	s.BudgetTokens = math.MaxUint32
	s.Config = map[string]any{"marker": false, "low_water": 1.0}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)), "drop 0..2 over_max_tokens")
}

func TestToolPairTrimLongestTable(t *testing.T) {
	s := new(policytest.Talk)
	for i := range uint32(4096) {
		s.Records = append(s.Records, mnemetest.Record{Turn: i + 1, Seq: uint64(i + 1), Role: mneme.User, Atom: i,
			Tokens: 1})
	}
	s.BudgetMessages, s.Config = 50, map[string]any{"low_water": 1.0, "depth": 100, "ledger_tokens": 0}
	equal(t, brief(run(t, toolpairtrim.Assemble, &s.Table)),
		"drop 0..4045 over_max_messages", `insert 4046 "[earlier messages left out]"`)
}

// The policy decides exactly as the model in trim_model_test.go, on small tables and on longer ones.
func TestToolPairTrimModel(t *testing.T) {
	for _, size := range []struct{ tables, turns int }{{1500, 5}, {150, 25}, {8, 80}} {
		seeded(t, size.tables, size.turns, func(t *testing.T, table *mnemetest.Table, rng *rand.Rand) {
			ruled(table, rng)
			checkTrim(t, table)
		})
	}
}

// ruled gives a random table a config, and questions to its user messages.
func ruled(table *mnemetest.Table, rng *rand.Rand) {
	table.CountTokens = fiveTokens
	often := func() bool { return rng.IntN(2) == 0 }
	if often() {
		table.Config["low_water"] = []float64{0, 0.1, 0.3, 0.9, 1}[rng.IntN(5)]
	}
	if often() {
		table.Config["turn_room"] = []float64{0, 0.1, 0.4, 1}[rng.IntN(4)]
	}
	if often() {
		table.Config["depth"], table.Config["depth_step"] = 1+rng.IntN(12), 1+rng.IntN(6)
	}
	if often() {
		table.Config["ledger_tokens"] = rng.IntN(300)
	}
	if often() {
		table.Config["question_tokens"] = rng.IntN(200)
	}
	long := often()
	for i := range table.Records {
		r := &table.Records[i]
		if r.Role == mneme.User && rng.IntN(20) > 0 {
			if long && rng.IntN(8) == 0 {
				r.Tokens += rng.Uint32N(table.BudgetTokens + 1)
			}
			r.CompressedTokens = r.Tokens + 9
		}
	}
}

// missingOf reports whether there are messages that neither the table nor a summary with room covers.
func missingOf(t *mnemetest.Table) bool {
	kept := roomForNotices(t)
	summary, uncovered := false, uint64(math.MaxUint64)
	for i, r := range t.Records {
		switch {
		case r.Role == mneme.System && r.Kind == mneme.Summary && !kept[i]:
			return true
		case r.Role == mneme.System && r.Kind == mneme.Summary:
			summary = true
		case r.Role != mneme.System && r.Seq > t.SummaryCovers:
			uncovered = min(uncovered, r.Seq)
		}
	}
	return t.OlderExist && (!summary || uncovered > t.SummaryCovers+1)
}

func checkTrim(t *testing.T, table *mnemetest.Table) {
	t.Helper()
	want, marker, ledger := model(table, markerRoom, missingOf(table))
	ops := run(t, toolpairtrim.Assemble, table)
	if n := len(ops); (n > 0 && ops[n-1].Code == mneme.OpLedger) != (ledger > 0) {
		t.Fatalf("a ledger, want one of %d tokens: %q\n%s", ledger, brief(ops), listed(table))
	} else if ledger > 0 {
		if got := uint64(ops[n-1].Argument); got != ledger+markerText {
			t.Fatalf("a ledger of %d tokens, want %d beside the marker\n%s", got, ledger, listed(table))
		}
		ops = ops[:n-1]
	}
	by := covered(table, ops)
	names := map[mneme.OpCode]string{mneme.OpDrop: drops, mneme.OpCompress: compresses, mneme.OpTruncate: truncates}
	for i := range table.Records {
		got := keeps
		if by[i] >= 0 {
			got = names[ops[by[i]].Code]
		}
		if got != want[i] {
			t.Fatalf("record %d: %s, want %s; plan %q\n%s", i, got, want[i], brief(ops), listed(table))
		}
	}
	if marked := len(ops) > 0 && ops[len(ops)-1].Code == mneme.OpInsert; marked != marker {
		t.Fatalf("marker %v, want %v; plan %q\n%s", marked, marker, brief(ops), listed(table))
	}
}

// checkValid checks what a plan must satisfy whatever the config is.
func checkValid(t *testing.T, table *mnemetest.Table) {
	t.Helper()
	ops := run(t, toolpairtrim.Assemble, table)
	by := covered(table, ops)
	kept := make([]bool, len(table.Records))
	for i := range kept {
		kept[i] = by[i] < 0
	}
	notices, oldest := roomForNotices(table), len(table.Records)
	for _, a := range atoms(table) {
		switch {
		case a.system():
			if kept[a.first] != notices[a.first] {
				t.Fatalf("notice %d kept %v, has room %v: %q", a.first, kept[a.first], notices[a.first], brief(ops))
			}
		case a.must() && !kept[a.first]:
			t.Fatalf("record %d must stay and is dropped: %q", a.first, brief(ops))
		case kept[a.first] || ops[by[a.first]].Code != mneme.OpDrop:
			oldest = min(oldest, a.first)
		}
	}
	extra := uint64(0)
	if n := len(ops); n > 0 && ops[n-1].Code == mneme.OpLedger { // it replaces the marker
		extra = uint64(ops[n-1].Argument)
		if n == 1 || ops[n-2].Code != mneme.OpInsert {
			extra += messageTokens
		} else {
			extra -= uint64(table.CountTokens("[earlier messages left out]"))
		}
		ops = ops[:n-1]
	}
	for i, op := range ops {
		switch op.Code {
		case mneme.OpInsert:
			extra += uint64(table.CountTokens(op.Text)) + messageTokens
			if op.Text != "[earlier messages left out]" || op.First != oldest || i != len(ops)-1 {
				t.Fatalf("marker %v, the oldest message is %d", op, oldest)
			}
		case mneme.OpCompress:
			question := uint64(0)
			for _, r := range table.Records[op.First : op.Last+1] {
				question += uint64(r.CompressedTokens)
			}
			extra += min(question, uint64(op.Argument)+mneme.QuestionOverhead)
		case mneme.OpTruncate:
			extra += uint64(op.Argument)
			if r := table.Records[op.First]; r.Role != mneme.User || op.First != op.Last || r.Tokens <= table.BudgetTokens/4 {
				t.Fatalf("op %v cuts a message of %d tokens", op, r.Tokens)
			}
		case mneme.OpDrop:
			if i > 0 && ops[i-1].Last+1 == op.First && ops[i-1].Reason == op.Reason && ops[i-1].Code == op.Code {
				t.Fatalf("op %v is no DROP of a whole run", op)
			}
		default:
			t.Fatalf("op %v", op)
		}
	}
	everything, least := slices.Repeat([]bool{true}, len(kept)), make([]bool, len(table.Records))
	if len(ops) > 0 && fits(table, everything, 0) && !missingOf(table) && play(table, markerRoom).allFits() {
		t.Fatalf("trimmed what fits: %q", brief(ops))
	}
	for _, a := range atoms(table) {
		for i := a.first; i <= a.last; i++ {
			least[i] = a.must() || a.system() && notices[i]
		}
	}
	if fits(table, least, 0) && !fits(table, kept, extra) {
		t.Fatalf("the window exceeds its budget: %q\n%s", brief(ops), listed(table))
	}
	for i, op := range ops { // a shortened message counts as a message
		if op.Code == mneme.OpTruncate && table.BudgetMessages > 0 {
			kept[ops[i].First] = true
			whole := *table
			if fits(table, least, 0) {
				whole.BudgetTokens = 0
				if !fits(&whole, kept, 0) {
					t.Fatalf("the window exceeds its messages: %q", brief(ops))
				}
			}
		}
	}
}

func TestToolPairTrimLaw(t *testing.T) {
	seeded(t, 1000, 60, func(t *testing.T, table *mnemetest.Table, rng *rand.Rand) {
		ruled(table, rng)
		table.CountTokens = func(text string) int { return len(text) / 3 }
		checkValid(t, table)
	})
}

func FuzzToolPairTrim(f *testing.F) {
	f.Add(uint64(1), uint16(50), uint32(0), 1.0)
	f.Add(uint64(2), uint16(0), uint32(800), 0.7)
	f.Add(uint64(3), uint16(7), uint32(90), 0.1)
	f.Add(uint64(4), uint16(1), uint32(1), math.NaN())
	f.Fuzz(func(t *testing.T, seed uint64, messages uint16, tokens uint32, lowWater float64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		table := policytest.Random(rng, 40)
		table.BudgetMessages, table.BudgetTokens = uint32(messages), tokens%(1<<24)
		ruled(table, rng)
		table.Config["low_water"] = lowWater
		checkValid(t, table)
		if lowWater >= 0 {
			checkTrim(t, table)
		}
	})
}

// listed formats a table for an error message.
func listed(t *mnemetest.Table) string {
	out := fmt.Sprintf("%d messages, %d tokens, %v", t.BudgetMessages, t.BudgetTokens, t.Config)
	for i, r := range t.Records {
		out += fmt.Sprintf("\n%d: turn %d, atom %d, role %d, flags %d, %d tokens", i, r.Turn, r.Atom, r.Role, r.Flags,
			r.Tokens)
	}
	return out
}
