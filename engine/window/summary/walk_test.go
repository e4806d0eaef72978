package summary_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

// TestSummaryInvariant walks through random conversations with calls, late results, delegations and a model that fails
// now and then: every message is in the window, or covered by a summary that saw it, or dropped with a reason, and no
// message is summarised twice.
func TestSummaryInvariant(t *testing.T) {
	walks := 30
	if testing.Short() {
		walks = 5
	}
	for seed := range walks {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { walkSummaries(t, uint64(seed)) })
	}
}

func walkSummaries(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 4))
	model := &enginetest.Scribe{}
	model.Fail = func(int) error {
		if r.IntN(4) == 0 {
			return &summary.ProviderError{Code: "provider_error"}
		}
		return nil
	}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	threshold := 5 + r.IntN(20)
	k.SetIn(ident.DefaultProject, fmt.Sprintf(`{"summary_enabled":true,"session_history_depth":100,"summary_threshold":%d,"summary_keep_last":%d}`, threshold, 1+r.IntN(threshold)))
	n, delegated := 0, map[string]bool{}
	var open []string
	next := func() string { n++; return fmt.Sprintf("#%d", n) }
	for range 40 {
		var turn []string
		add := func(format string, args ...any) { turn = append(turn, fmt.Sprintf(format, args...)) }
		for range 1 + r.IntN(4) {
			m := next()
			switch r.IntN(6) {
			case 0, 1:
				add(`{"role":"user","content":%q}`, m)
			case 2:
				add(`{"role":"assistant","content":%q}`, m)
			case 3:
				delegated[m] = true
				add(`{"role":"assistant","content":%q,"delegation_id":"d%d"}`, m, r.IntN(3))
			case 4:
				id := "call_" + m[1:]
				add(`{"role":"assistant","content":%q,"tool_calls":[{"id":%q,"type":"function","function":{"name":"f","arguments":"{}"}}]}`, m, id)
				open = append(open, id)
			default:
				if len(open) == 0 {
					add(`{"role":"user","content":%q}`, m)
					break
				}
				i := r.IntN(len(open))
				add(`{"role":"tool","tool_call_id":%q,"content":%q}`, open[i], m)
				open = slices.Delete(open, i, i+1)
			}
		}
		k.Post("dashboard", turn...)
		w := k.Ask(`{"explain":true,"viewer":{"whole":true},"budget":{"max_messages":0,"max_tokens":0}}`)
		checkSummaryWindow(t, k, w, n, delegated)
		if r.IntN(3) > 0 {
			k.Advance(20 * time.Minute)
			k.Drain()
		}
		if r.IntN(10) == 0 {
			k.Replay(w.DecisionID)
		}
	}
	if model.Calls() == 0 {
		t.Error("no summary was ever asked for")
	}
}

func checkSummaryWindow(t *testing.T, k *enginetest.Kit, w enginetest.Window, n int, delegated map[string]bool) {
	t.Helper()
	seen := map[string]int{}
	for _, m := range w.Marks() {
		seen[m]++
	}
	s := k.GetSession("dashboard")
	summarised := map[string]bool{}
	if s.Summary != nil {
		for _, m := range enginetest.Mark.FindAllString(*s.Summary, -1) {
			if summarised[m] {
				t.Fatalf("%s is summarised twice", m)
			}
			if delegated[m] {
				t.Fatalf("%s is a delegation's and summarised", m)
			}
			summarised[m] = true
		}
		if uint64(len(summarised)) != s.SummarizedCount {
			t.Fatalf("the session says %d are summarised, the summary holds %d", s.SummarizedCount, len(summarised))
		}
	}
	for i := 1; i <= n; i++ {
		if m := fmt.Sprintf("#%d", i); seen[m] == 0 {
			t.Fatalf("%s is neither in the window nor in the summary", m)
		}
	}
}
