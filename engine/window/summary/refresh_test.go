package summary_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

func refresh(k *enginetest.Kit, session string) summary.Answer {
	k.Helper()
	a, err := k.Summaries.ActOn(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, session,
		summary.Action{Action: "refresh"})
	if err != nil {
		k.Fatal(err)
	}
	return a
}

// TestRefreshMakesOneCall asks for a refresh again and again, while one is under way and while the model fails: what is
// under way is kept, and no wait is cut short.
func TestRefreshMakesOneCall(t *testing.T) {
	model := &enginetest.Scribe{}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	k.Say("dashboard", 1, 30)
	model.Fail = func(int) error { refresh(k, "dashboard"); return nil }
	refresh(k, "dashboard")
	k.Drain()
	if s := k.GetSession("dashboard"); model.Calls() != 1 || s.SummarizedCount != 18 {
		t.Errorf("%d calls, %d summarised", model.Calls(), s.SummarizedCount)
	}
	k.Say("dashboard", 31, 10)
	model.Fail = func(int) error { return &summary.ProviderError{Code: "provider_error"} }
	for range 20 {
		refresh(k, "dashboard")
		k.Drain()
	}
	if model.Calls() != 2 {
		t.Errorf("%d calls of a failing model within no time", model.Calls()-1)
	}
}

// TestSummaryGivesUp lets a model fail for good: the job ends its own attempts, and a window may ask again.
func TestSummaryGivesUp(t *testing.T) {
	model := &enginetest.Scribe{Fail: func(int) error { return &summary.ProviderError{Code: "bad_reply"} }}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true}`)
	k.Say("dashboard", 1, 41)
	k.Ask(enginetest.Unbounded)
	for range 100 {
		k.Drain()
		k.Advance(20 * time.Minute)
	}
	if n := model.Calls(); n != 10 {
		t.Errorf("%d calls that nobody asked for", n)
	}
	model.Fail = nil
	k.Ask(enginetest.Unbounded)
	k.Drain()
	if s := k.GetSession("dashboard"); s.SummarizedCount == 0 {
		t.Error("a window could not ask again")
	}
}

// TestSummaryInputIsBounded folds many messages of next to no words, which cost a call more than their words do.
func TestSummaryInputIsBounded(t *testing.T) {
	model := &enginetest.Scribe{}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	for i := range 3 {
		k.Say("dashboard", 1+i*1000, 1000)
	}
	refresh(k, "dashboard")
	k.Drain()
	if s := k.GetSession("dashboard"); s.SummarizedCount != 2988 || *s.Summary != strings.Join(enginetest.UpTo(2988), " ") {
		t.Errorf("%d summarised", s.SummarizedCount)
	}
	for _, r := range model.Requests {
		if len(r.Messages) > 12_000/16 {
			t.Errorf("a call has %d messages", len(r.Messages))
		}
	}
}

// TestSummaryOfDelegations makes a summary where what lies between is delegations' messages alone, and keeps the newest
// question of no delegation out of it however far back it is.
func TestSummaryOfDelegations(t *testing.T) {
	model := &enginetest.Scribe{}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true,"summary_threshold":20,"summary_keep_last":2}`)
	k.Say("dashboard", 1, 3) // #3 is the user's
	for i := range 30 {
		var turn []string
		for j := range 10 {
			turn = append(turn, fmt.Sprintf(`{"role":"assistant","content":"#%d"}`, 4+i*10+j))
		}
		k.Post("dashboard", turn...)
	}
	k.Post("dashboard", `{"role":"user","content":"delegated","delegation_id":"d"}`)
	for range 3 {
		k.Ask(`{"explain":true}`)
		k.Drain()
	}
	for _, r := range model.Requests {
		for _, m := range r.Messages {
			if strings.Contains(m.Text, "#3") && len(strings.Fields(m.Text)) > 1 || strings.Contains(m.Text, "delegated") {
				t.Fatalf("folded in: %q", m.Text)
			}
		}
	}
	if s := k.GetSession("dashboard"); s.SummarizedCount > 2 {
		t.Errorf("%d messages are summarised, past the newest question", s.SummarizedCount)
	}
}

// TestSummaryAfterARestart finds more jobs than one look reads, although many of them will never succeed.
func TestSummaryAfterARestart(t *testing.T) {
	disk := memstore.New()
	model := &enginetest.Scribe{}
	k := enginetest.Open(t, disk, enginetest.SummariseWith(model))
	for i := range 150 {
		id := fmt.Sprintf("s%03d", i)
		text := "fine"
		if i%3 > 0 {
			text = "refused"
		}
		k.Post(id, fmt.Sprintf(`{"role":"user","content":"#1 %s"}`, text), `{"role":"assistant","content":"#2"}`,
			`{"role":"user","content":"#3"}`)
		k.SetIn(ident.DefaultProject, `{"summary_keep_last":1}`)
		refresh(k, id)
	}
	again := &enginetest.Scribe{}
	again.Fail = func(call int) error {
		again.Mu.Lock()
		defer again.Mu.Unlock()
		if strings.Contains(again.Requests[call-1].Messages[0].Text, "refused") {
			return &summary.ProviderError{Code: "provider_refused", Permanent: true}
		}
		return nil
	}
	k = enginetest.Open(t, disk, enginetest.SummariseWith(again))
	k.Drain()
	for i := 0; i < 150; i += 3 {
		if s := k.GetSession(fmt.Sprintf("s%03d", i)); s.SummarizedCount != 2 {
			t.Fatalf("session %d has %d summarised", i, s.SummarizedCount)
		}
	}
}

// TestRateLimitsAreAModels lets one project's model be limited: the other's goes on.
func TestRateLimitsAreAModels(t *testing.T) {
	model := &enginetest.Scribe{}
	model.Fail = func(call int) error {
		model.Mu.Lock()
		defer model.Mu.Unlock()
		if model.Requests[call-1].Model == "scarce" {
			return &summary.ProviderError{Code: "provider_rate_limited", RetryAfter: time.Hour}
		}
		return nil
	}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	k.SetIn(ident.DefaultProject, `{"summary_model":"scarce","summary_keep_last":1}`)
	for _, id := range []string{"a", "b"} {
		k.Say(id, 1, 3)
		refresh(k, id)
	}
	k.Drain()
	if model.Calls() != 1 {
		t.Errorf("%d calls of a model that is limited", model.Calls())
	}
	k.SetIn(ident.DefaultProject, `{"summary_model":"plenty"}`)
	k.Say("c", 1, 3)
	refresh(k, "c")
	k.Drain()
	if s := k.GetSession("c"); s.SummarizedCount != 2 {
		t.Errorf("%d summarised by a model that is not limited", s.SummarizedCount)
	}
	k.Advance(time.Hour)
	k.Drain()
	if s := k.GetSession("b"); s.SummarizedCount != 2 {
		t.Errorf("%d summarised once the limit is over", s.SummarizedCount)
	}
}
