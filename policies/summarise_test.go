package policies_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/policies/policytest"
	"github.com/seed-0906e6bc/mneme/policies/summarise"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// messages returns a session of n messages that alternate between user and assistant.
func messages(n uint32) *policytest.Talk {
	s := new(policytest.Talk)
	for i := range n {
		s.Say(i/2+1, mneme.Role(1+i%2), 10)
	}
	return s
}

// folded removes the covered messages from a table, as the host does.
func folded(s *policytest.Talk, covers uint64) *policytest.Talk {
	s.Records = slices.DeleteFunc(s.Records, func(r mnemetest.Record) bool { return r.Seq <= covers })
	s.SummaryCovers, s.OlderExist = covers, true
	return s
}

// after adds n messages of the main agent that are not answers.
func after(s *policytest.Talk, n int) *policytest.Talk {
	for range n {
		s.Say(99, mneme.Assistant, 10)
	}
	return s
}

// edited changes records by index.
func edited(s *policytest.Talk, change func(*mnemetest.Record), at ...int) *policytest.Talk {
	for _, i := range at {
		change(&s.Records[i])
	}
	return s
}

// late gives the result of the call at an index the number seq.
func late(s *policytest.Talk, at int, seq uint64) *policytest.Talk {
	s.Late(at, seq)
	return s
}

func TestSummarise(t *testing.T) {
	delegated := func(r *mnemetest.Record) { r.Delegation = 1 }
	pending := func(r *mnemetest.Record) { r.Flags |= mneme.Pending }
	small := map[string]any{"enabled": true, "threshold": 4, "keep_last": 2}
	for name, c := range map[string]struct {
		table  *policytest.Talk
		covers uint64
		config map[string]any // nil means enabled, with the defaults
		want   string
	}{
		"not enabled":                    {messages(90), 29, map[string]any{}, ""},
		"no records":                     {new(policytest.Talk), 29, nil, ""},
		"40 messages":                    {messages(40), 0, nil, ""},
		"41 messages":                    {messages(41), 0, nil, "ask 0..28"},
		"69 messages, 40 uncovered":      {messages(69), 29, nil, "show 0..28"},
		"70 messages, 41 uncovered":      {messages(70), 29, nil, "ask 0..57"},
		"the covered are not considered": {folded(messages(60), 29), 29, nil, "show 0..0"},
		"nor is a first atom split": {folded(new(policytest.Talk).Turns(1, 2).Call(3, 2, 1).Turns(4, 4), 4), 4,
			nil, "show 0..2"},
		"uncovered beyond the table": {
			folded(messages(60), 30), 10, nil, "ask 0..17"}, // 20 unseen and 30 seen: all but 48 to 60 go
		"covered beyond the table": {folded(messages(60), 20), 20, nil, "show 0..0"},
		"keep_last above the threshold": {
			messages(6), 0, map[string]any{"enabled": true, "threshold": 4, "keep_last": 9}, "ask 0..1"},
		"a delegation does not count": {edited(messages(41), delegated, 5, 6), 0, nil, ""},
		"but goes with the range":     {edited(messages(43), delegated, 5, 6), 0, nil, "ask 0..30"},
		"nor do pending messages":     {edited(messages(42), pending, 40, 41), 0, nil, ""},
		"nor does what the host made": {new(policytest.Talk).System(mneme.Memory, 9).Turns(1, 2), 0, small, ""},
		"a system-class record before": {new(policytest.Talk).System(mneme.Memory, 9).Turns(1, 3), 0, small,
			"ask 0..4"},
		"no atom is split": {
			new(policytest.Talk).Turns(1, 1).Call(2, 3, 9).Say(3, mneme.User, 9), 0, small, "ask 0..1"},
		"a made-up answer does not count": {
			edited(new(policytest.Talk).Say(1, mneme.User, 9).Call(1, 2, 9).Say(2, mneme.User, 9),
				func(r *mnemetest.Record) { r.Seq = 2 }, 3), 0, small, ""},
		"the newest question stays": {after(new(policytest.Talk).Turns(1, 2), 9), 0, small, "ask 0..1"},
		"the only question stays":   {after(new(policytest.Talk).Say(1, mneme.User, 9), 9), 0, small, ""},
		"a delegation's question is none": {
			after(edited(new(policytest.Talk).Turns(1, 2), delegated, 2), 9), 0, small, ""},
		"without a question": {after(new(policytest.Talk), 9), 0, small, "ask 0..6"},
		"a late result moves the cut before its call": {
			late(new(policytest.Talk).Turns(1, 1).Call(2, 1, 9).Turns(3, 4), 3, 7), 0, small, "ask 0..1"},
		"unless it is before the cut too": {
			late(new(policytest.Talk).Turns(1, 1).Call(2, 1, 9).Turns(3, 6), 3, 6), 0, small, "ask 0..9"},
		"an atom that the summary split holds the cut": {
			late(new(policytest.Talk).Turns(1, 1).Call(2, 1, 9).Turns(3, 6), 3, 11), 3, small, "show 0..3"},
		"a call that waits is not passed": {
			new(policytest.Talk).Turns(1, 2).Call(3, 1, 9).Marked(mneme.OpenCall).Turns(4, 6), 0, small, "ask 0..3"},
		"what an earlier step dropped is not unseen": {
			&policytest.Talk{Table: mnemetest.Table{Records: messages(60).Records[30:]}}, 10, nil, "show 0..0"},
	} {
		t.Run(name, func(t *testing.T) {
			c.table.SummaryCovers = c.covers
			c.table.Config = c.config
			if c.config == nil {
				c.table.Config = map[string]any{"enabled": true}
			}
			if got := asked(run(t, summarise.Assemble, &c.table.Table)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// asked returns the only op of a plan.
func asked(ops []mnemetest.Op) string {
	if len(ops) == 0 {
		return ""
	}
	word := map[uint32]string{0: "ask", mneme.StoredOnly: "show"}[ops[0].Argument]
	if len(ops) > 1 || ops[0].Code != mneme.OpSummarise || word == "" {
		return fmt.Sprint(ops)
	}
	return fmt.Sprintf("%s %d..%d", word, ops[0].First, ops[0].Last)
}

// On random tables the policy requests the longest summary that the rule allows, as computed by longest.
func TestSummariseModel(t *testing.T) {
	asks, shows := 0, 0
	seeded(t, 4000, 12, func(t *testing.T, table *mnemetest.Table, rng *rand.Rand) {
		threshold, keep := 1+rng.IntN(12), 1+rng.IntN(12)
		tokens := rng.IntN(3) * rng.IntN(200) // 0 means a share of the budget
		table.Config = map[string]any{"enabled": true, "threshold": threshold, "keep_last": keep, "threshold_tokens": tokens}
		ops := run(t, summarise.Assemble, table)
		through := longest(table, threshold, min(keep, threshold), uint64(tokens))
		switch {
		case through > 0:
			asks++
			op := ops[0]
			if op.First != 0 || op.Argument != 0 || highest(table.Records[:op.Last+1]) != through {
				t.Fatalf("plan %q, want a summary up to %d", asked(ops), through)
			}
			for _, r := range table.Records[op.Last+1:] {
				if r.Role != mneme.System && r.Seq <= through {
					t.Fatalf("plan %q leaves out message %d", asked(ops), r.Seq)
				}
			}
		case table.SummaryCovers > 0 && len(table.Records) > 0:
			shows++
			if len(ops) != 1 || ops[0].Argument != mneme.StoredOnly || ops[0].First != 0 {
				t.Fatalf("plan %q, want the stored summary shown", asked(ops))
			}
			for i, a := range table.Records {
				if a.Role != mneme.System && a.Seq <= table.SummaryCovers && i > ops[0].Last {
					t.Fatalf("plan %q leaves out message %d, which is covered", asked(ops), a.Seq)
				}
			}
		case len(ops) > 0:
			t.Fatalf("plan %q, want none", asked(ops))
		}
	})
	if asks < 300 || shows < 300 {
		t.Errorf("%d tables asked for a summary, %d showed one: they hardly test anything", asks, shows)
	}
}

func highest(records []mnemetest.Record) uint64 {
	newest := uint64(0)
	for _, r := range records {
		newest = max(newest, r.Seq)
	}
	return newest
}

// longest tries every message, the newest first. It returns the last message that the requested summary may cover, or 0
// if no summary should be requested.
func longest(t *mnemetest.Table, threshold, keep int, tokens uint64) uint64 {
	var counting []mnemetest.Record // stored, of no delegation, not covered
	question, stored := uint64(0), []uint64(nil)
	for _, a := range atoms(t) {
		for i, r := range a.records {
			if r.Role == mneme.System || r.Flags.Has(mneme.Pending) || i > 0 && r.Seq == a.records[0].Seq {
				continue
			}
			stored = append(stored, r.Seq)
			if r.Delegation == 0 && r.Seq > t.SummaryCovers {
				counting = append(counting, r)
			}
			if r.Delegation == 0 && r.Role == mneme.User {
				question = max(question, r.Seq)
			}
		}
	}
	unseen := 0
	if first := slices.IndexFunc(t.Records,
		func(r mnemetest.Record) bool { return r.Role != mneme.System }); first >= 0 &&
		t.OlderExist && t.Records[first].Seq > t.SummaryCovers+1 {
		unseen = int(t.Records[first].Seq - 1 - t.SummaryCovers)
	}
	if tokens == 0 {
		tokens = uint64(t.BudgetTokens) * 3 / 5
	}
	long := func(after uint64) (sum uint64) { // tokens of the counting messages after a message
		for _, r := range counting {
			if r.Seq > after {
				sum += uint64(r.Tokens)
			}
		}
		return sum
	}
	byTokens := tokens > 0 && long(0) > tokens
	if unseen+len(counting) <= threshold && !byTokens {
		return 0
	}
	slices.Sort(stored)
	for _, through := range slices.Backward(stored) {
		behind := 0
		for _, r := range counting {
			if r.Seq > through {
				behind++
			}
		}
		if (behind >= keep || byTokens && long(through) >= max(tokens/2, 1)) && unseen+len(counting)-behind > 0 && through > t.SummaryCovers &&
			(question == 0 || through < question) && !parts(t, through) {
			return through
		}
	}
	return 0
}

// parts reports whether a summary up to a message would split an atom, or include one that waits for results.
func parts(t *mnemetest.Table, through uint64) bool {
	return slices.ContainsFunc(atoms(t), func(a atom) bool {
		waits := a.any(func(r mnemetest.Record) bool { return r.Flags.Has(mneme.OpenCall) })
		return !a.system() && a.any(func(r mnemetest.Record) bool { return r.Seq <= through }) &&
			(waits || highest(a.records) > through)
	})
}

// A session that grows by single messages is summarised once its threshold is passed, and then again only after as many
// more messages. The number of uncovered messages never exceeds the threshold plus what completes the current atom.
func TestSummariseAsASessionGrows(t *testing.T) {
	var at []string
	covers := uint64(0)
	for n := uint32(1); n <= 160; n++ {
		s := messages(n)
		s.SummaryCovers, s.Config = covers, map[string]any{"enabled": true}
		ops := run(t, summarise.Assemble, &s.Table)
		if len(ops) > 0 && ops[0].Argument == 0 {
			covers = highest(s.Records[:ops[0].Last+1])
			at = append(at, fmt.Sprintf("%d at %d", covers, n))
		}
	}
	if want := []string{"29 at 41", "58 at 70", "87 at 99", "116 at 128", "145 at 157"}; !slices.Equal(at, want) {
		t.Errorf("summaries are asked for up to %v, want %v", at, want)
	}
}

func TestSummariseReason(t *testing.T) {
	s := messages(70)
	s.SummaryCovers, s.Config = 29, map[string]any{"enabled": true}
	ops := run(t, summarise.Assemble, &s.Table)
	if want := "summarised: the running summary covers the messages up to 29"; ops[0].Reason != want {
		t.Errorf("reason %q, want %q", ops[0].Reason, want)
	}
}

// A session of 600-token messages is summarised before its budget is full, and then once for each half of what may be
// uncovered. The uncovered messages always fit the budget.
func TestSummariseByTokens(t *testing.T) {
	var at []string
	covers := uint64(0)
	for n := uint32(1); n <= 38; n++ {
		s := messages(n)
		edited(s, func(r *mnemetest.Record) { r.Tokens = 600 }, every(len(s.Records))...)
		s.SummaryCovers, s.BudgetTokens, s.Config = covers, 8000, map[string]any{"enabled": true}
		if ops := run(t, summarise.Assemble, &s.Table); len(ops) > 0 && ops[0].Argument == 0 {
			covers = highest(s.Records[:ops[0].Last+1])
			at = append(at, fmt.Sprintf("%d at %d", covers, n))
		}
		if uncovered := 600 * (uint64(n) - covers); uncovered > 8000 {
			t.Errorf("%d tokens are not covered after %d messages, more than the budget", uncovered, n)
		}
	}
	if want := []string{"5 at 9", "10 at 14", "15 at 19", "20 at 24", "25 at 29", "30 at 34"}; !slices.Equal(at, want) {
		t.Errorf("summaries are asked for up to %v, want %v", at, want)
	}
}

func every(n int) (at []int) {
	for i := range n {
		at = append(at, i)
	}
	return at
}
