package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/summary"
)

func (k *kit) refresh(session string) summary.Answer {
	k.Helper()
	a, err := k.Summaries.ActOn(k.Context(), k.admin, access.Once{}, ident.DefaultProject, session,
		summary.Action{Action: "refresh"})
	if err != nil {
		k.Fatal(err)
	}
	return a
}

// TestRefreshMakesOneCall asks for a refresh again and again, while one is under way and while the model fails: what is
// under way is kept, and no wait is cut short.
func TestRefreshMakesOneCall(t *testing.T) {
	model := &scribe{}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.say("dashboard", 1, 30)
	model.fail = func(int) error { k.refresh("dashboard"); return nil }
	k.refresh("dashboard")
	k.drain()
	if s := k.session("dashboard"); model.calls() != 1 || s.SummarizedCount != 18 {
		t.Errorf("%d calls, %d summarised", model.calls(), s.SummarizedCount)
	}
	k.say("dashboard", 31, 10)
	model.fail = func(int) error { return &summary.ProviderError{Code: "provider_error"} }
	for range 20 {
		k.refresh("dashboard")
		k.drain()
	}
	if model.calls() != 2 {
		t.Errorf("%d calls of a failing model within no time", model.calls()-1)
	}
}

// TestSummaryGivesUp lets a model fail for good: the job ends its own attempts, and a window may ask again.
func TestSummaryGivesUp(t *testing.T) {
	model := &scribe{fail: func(int) error { return &summary.ProviderError{Code: "bad_reply"} }}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.setIn(ident.DefaultProject, `{"summary_enabled":true}`)
	k.say("dashboard", 1, 41)
	k.ask(unbounded)
	for range 100 {
		k.drain()
		k.advance(20 * time.Minute)
	}
	if n := model.calls(); n != 10 {
		t.Errorf("%d calls that nobody asked for", n)
	}
	model.fail = nil
	k.ask(unbounded)
	k.drain()
	if s := k.session("dashboard"); s.SummarizedCount == 0 {
		t.Error("a window could not ask again")
	}
}

// TestSummaryInputIsBounded folds many messages of next to no words, which cost a call more than their words do.
func TestSummaryInputIsBounded(t *testing.T) {
	model := &scribe{}
	k := openKit(t, memstore.New(), summariseWith(model))
	for i := range 3 {
		k.say("dashboard", 1+i*1000, 1000)
	}
	k.refresh("dashboard")
	k.drain()
	if s := k.session("dashboard"); s.SummarizedCount != 2988 || *s.Summary != strings.Join(upTo(2988), " ") {
		t.Errorf("%d summarised", s.SummarizedCount)
	}
	for _, r := range model.requests {
		if len(r.Messages) > 12_000/16 {
			t.Errorf("a call has %d messages", len(r.Messages))
		}
	}
}

// TestSummaryOfDelegations makes a summary where what lies between is delegations' messages alone, and keeps the newest
// question of no delegation out of it however far back it is.
func TestSummaryOfDelegations(t *testing.T) {
	model := &scribe{}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.setIn(ident.DefaultProject, `{"summary_enabled":true,"summary_threshold":20,"summary_keep_last":2}`)
	k.say("dashboard", 1, 3) // #3 is the user's
	for i := range 30 {
		var turn []string
		for j := range 10 {
			turn = append(turn, fmt.Sprintf(`{"role":"assistant","content":"#%d"}`, 4+i*10+j))
		}
		k.post("dashboard", turn...)
	}
	k.post("dashboard", `{"role":"user","content":"delegated","delegation_id":"d"}`)
	for range 3 {
		k.ask(`{"explain":true}`)
		k.drain()
	}
	for _, r := range model.requests {
		for _, m := range r.Messages {
			if strings.Contains(m.Text, "#3") && len(strings.Fields(m.Text)) > 1 || strings.Contains(m.Text, "delegated") {
				t.Fatalf("folded in: %q", m.Text)
			}
		}
	}
	if s := k.session("dashboard"); s.SummarizedCount > 2 {
		t.Errorf("%d messages are summarised, past the newest question", s.SummarizedCount)
	}
}

// TestSummaryAfterARestart finds more jobs than one look reads, although many of them will never succeed.
func TestSummaryAfterARestart(t *testing.T) {
	disk := memstore.New()
	model := &scribe{}
	k := openKit(t, disk, summariseWith(model))
	for i := range 150 {
		id := fmt.Sprintf("s%03d", i)
		text := "fine"
		if i%3 > 0 {
			text = "refused"
		}
		k.post(id, fmt.Sprintf(`{"role":"user","content":"#1 %s"}`, text), `{"role":"assistant","content":"#2"}`,
			`{"role":"user","content":"#3"}`)
		k.setIn(ident.DefaultProject, `{"summary_keep_last":1}`)
		k.refresh(id)
	}
	again := &scribe{}
	again.fail = func(call int) error {
		again.mu.Lock()
		defer again.mu.Unlock()
		if strings.Contains(again.requests[call-1].Messages[0].Text, "refused") {
			return &summary.ProviderError{Code: "provider_refused", Permanent: true}
		}
		return nil
	}
	k = openKit(t, disk, summariseWith(again))
	k.drain()
	for i := 0; i < 150; i += 3 {
		if s := k.session(fmt.Sprintf("s%03d", i)); s.SummarizedCount != 2 {
			t.Fatalf("session %d has %d summarised", i, s.SummarizedCount)
		}
	}
}

// TestRateLimitsAreAModels lets one project's model be limited: the other's goes on.
func TestRateLimitsAreAModels(t *testing.T) {
	model := &scribe{}
	model.fail = func(call int) error {
		model.mu.Lock()
		defer model.mu.Unlock()
		if model.requests[call-1].Model == "scarce" {
			return &summary.ProviderError{Code: "provider_rate_limited", RetryAfter: time.Hour}
		}
		return nil
	}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.setIn(ident.DefaultProject, `{"summary_model":"scarce","summary_keep_last":1}`)
	for _, id := range []string{"a", "b"} {
		k.say(id, 1, 3)
		k.refresh(id)
	}
	k.drain()
	if model.calls() != 1 {
		t.Errorf("%d calls of a model that is limited", model.calls())
	}
	k.setIn(ident.DefaultProject, `{"summary_model":"plenty"}`)
	k.say("c", 1, 3)
	k.refresh("c")
	k.drain()
	if s := k.session("c"); s.SummarizedCount != 2 {
		t.Errorf("%d summarised by a model that is not limited", s.SummarizedCount)
	}
	k.advance(time.Hour)
	k.drain()
	if s := k.session("b"); s.SummarizedCount != 2 {
		t.Errorf("%d summarised once the limit is over", s.SummarizedCount)
	}
}
