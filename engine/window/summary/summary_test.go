package summary_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

// TestSummaryArithmetic is the rolling summary's worked example: no call up to the threshold, one behind it, then none
// until the threshold is passed again.
func TestSummaryArithmetic(t *testing.T) {
	model := &enginetest.Scribe{}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
	for n := 1; n <= 100; n++ {
		k.Say("dashboard", n, 1)
		w := k.Ask(enginetest.Unbounded)
		if got := w.Marks(); !slices.Equal(got, enginetest.UpTo(n)) {
			t.Fatalf("with %d messages the window holds %v", n, got)
		}
		k.Drain()
		// 41 messages fold 29: all but the newest 12.
		wantCalls, wantCount := 0, uint64(0)
		switch {
		case n > 40+29+29:
			wantCalls, wantCount = 3, 29*3
		case n > 40+29:
			wantCalls, wantCount = 2, 29*2
		case n > 40:
			wantCalls, wantCount = 1, 29
		}
		if s := k.GetSession("dashboard"); model.Calls() != wantCalls || s.SummarizedCount != wantCount {
			t.Fatalf("with %d messages: %d calls, %d summarised; want %d and %d", n, model.Calls(), s.SummarizedCount,
				wantCalls, wantCount)
		}
	}
	if r := model.Requests[1]; r.Previous != strings.Join(enginetest.UpTo(29), " ") || len(r.Messages) != 29 {
		t.Errorf("the second call has %d messages and the old summary %q", len(r.Messages), r.Previous)
	}
	u, err := k.Tenants.Usage(k.Context(), k.Admin)
	if err != nil || u.Summaries != (tenant.SummaryUsage{Calls: 3, TokensIn: 300, TokensOut: 30}) {
		t.Errorf("usage: %+v %v", u, err)
	}
}

// TestSummaryIsAnInput replays windows made with summaries that are no longer the session's.
func TestSummaryIsAnInput(t *testing.T) {
	model := &enginetest.Scribe{}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
	var made []enginetest.Window
	for n := 1; n <= 160; n += 4 {
		k.Say("dashboard", n, 4)
		made = append(made, k.Ask(`{"explain":true}`))
		k.Drain()
	}
	if _, err := k.Summaries.ActOn(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "dashboard",
		summary.Action{Action: "reset"}); err != nil {
		t.Fatal(err)
	}
	if s := k.GetSession("dashboard"); s.Summary != nil || s.SummarizedCount != 0 {
		t.Errorf("after a reset: %+v", s)
	}
	for _, w := range made {
		k.Replay(w.DecisionID)
	}
	if w := k.Ask(enginetest.Unbounded); !slices.Equal(w.Marks(), enginetest.UpTo(160)) {
		t.Errorf("after a reset the window holds %v", w.Marks())
	}
	k.Advance(9 * 24 * time.Hour)
	k.Drain()
	kept := 0
	for it := range records(k) {
		if len(it.Key) > 10 && it.Key[0] == 'm' && it.Key[10] == 's' {
			kept++
		}
	}
	if kept != 1 { // the one that the last window asked for
		t.Errorf("%d summaries are stored once no decision names the old ones", kept)
	}
}

// records walks over everything that is stored for the tenant, decoded.
func records(k *enginetest.Kit) func(yield func(store.Item) bool) {
	return func(yield func(store.Item) bool) {
		r, err := store.Seal(k.Store).Read(k.Context(), k.Admin.Tenant, store.Query{Ranges: []store.Range{{}}})
		if err != nil {
			k.Fatal(err)
		}
		for _, it := range r.Ranges[0] {
			if !yield(it) {
				return
			}
		}
	}
}

func TestSummaryRefresh(t *testing.T) {
	model := &enginetest.Scribe{}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true}`)
	act := func(action string) summary.Answer {
		a, err := k.Summaries.ActOn(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "dashboard",
			summary.Action{Action: action})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := act("refresh"); a.Queued {
		t.Error("there is nothing to summarise, and yet a summary is queued")
	}
	k.Say("dashboard", 1, 30)
	if a := act("refresh"); !a.Queued {
		t.Error("a refresh queues nothing")
	}
	k.Drain()
	if s := k.GetSession("dashboard"); s.SummarizedCount != 18 || *s.Summary != strings.Join(enginetest.UpTo(18), " ") {
		t.Errorf("30 messages refreshed give %d, %v", s.SummarizedCount, s.Summary)
	}
	k.Say("dashboard", 31, 50) // the model is asked for more than one call can take: see the next test
	act("refresh")
	if s := k.GetSession("dashboard"); s.SummarizedCount != 18 {
		t.Errorf("before the refresh is through, %d are summarised", s.SummarizedCount)
	}
	k.Drain()
	if s := k.GetSession("dashboard"); *s.Summary != strings.Join(enginetest.UpTo(68), " ") || model.Last().Previous != "" {
		t.Errorf("80 messages refreshed give %v, made from %q", *s.Summary, model.Last().Previous)
	}
}

// TestSummaryInChunks folds more than one call takes, the count advancing with each.
func TestSummaryInChunks(t *testing.T) {
	for _, anew := range []bool{false, true} {
		model := &enginetest.Scribe{}
		k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
		k.SetIn(ident.DefaultProject, `{"summary_enabled":true,"summary_threshold":20,"summary_keep_last":2}`)
		for i := 1; i <= 60; i += 2 {
			k.Post("dashboard", fmt.Sprintf(`{"role":"user","content":"#%d %s"}`, i, strings.Repeat("many words ", 400)),
				fmt.Sprintf(`{"role":"assistant","content":"#%d"}`, i+1))
		}
		if anew {
			if _, err := k.Summaries.ActOn(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "dashboard",
				summary.Action{Action: "refresh"}); err != nil {
				t.Fatal(err)
			}
		} else {
			k.Ask(`{"budget":{"max_messages":0,"max_tokens":0}}`)
		}
		k.Drain()
		s := k.GetSession("dashboard")
		if model.Calls() < 2 || s.SummarizedCount != 58 || *s.Summary != strings.Join(enginetest.UpTo(58), " ") {
			t.Errorf("anew %v: %d calls made %d: %s", anew, model.Calls(), s.SummarizedCount, *s.Summary)
		}
		for _, r := range model.Requests {
			size := 0
			for _, m := range r.Messages {
				size += len(m.Text)
			}
			if size > 12_000*8 {
				t.Errorf("a call has %d bytes of messages", size)
			}
		}
	}
}

// TestSummaryTravels takes a session out and in again: the summary goes with it.
func TestSummaryTravels(t *testing.T) {
	model := &enginetest.Scribe{}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true}`)
	k.Say("dashboard", 1, 41)
	k.Ask(enginetest.Unbounded)
	k.Drain()
	before := k.Ask(enginetest.Unbounded)
	f, err := k.Sessions.Export(t.Context(), k.Admin, ident.DefaultProject, "dashboard")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "dashboard"); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	if _, err := k.Sessions.Import(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, f); err != nil {
		t.Fatal(err)
	}
	if after := k.Ask(enginetest.Unbounded); !slices.EqualFunc(before.Messages, after.Messages, func(a, b json.RawMessage) bool {
		return string(a) == string(b)
	}) {
		t.Errorf("the window was %s and is %s", before.Raw, after.Raw)
	}
	f.Summary.Covers = 42
	f.Session.ID = "other"
	if _, err := k.Sessions.Import(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, f); err == nil {
		t.Error("a summary of messages that are not there was taken")
	}
}

// Long messages are summarised before the budget is full: of 38 messages of 600 tokens none is lost.
func TestSummariesByTokens(t *testing.T) {
	scribe := &enginetest.Scribe{}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(scribe))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true}`)
	text := strings.Repeat("about twelve hundred short words in each two of the messages ", 50)
	for i := range 19 {
		k.Post("s", enginetest.User(fmt.Sprint("#", i, " ", text)), enginetest.Assistant(text))
		w := k.Ask(`{"session_id":"s","explain":true}`)
		for _, row := range w.Report {
			if row.Action == "drop" {
				t.Fatalf("turn %d: %+v", i+1, row)
			}
		}
		k.Drain()
	}
	w := k.Ask(`{"session_id":"s"}`)
	if n := scribe.Calls(); n == 0 || n > 8 || w.Usage["tokens"] > 8000 || w.Usage["considered_tokens"] < 38*500 {
		t.Errorf("%d calls, %v", n, w.Usage)
	}
	k.SetIn(ident.DefaultProject, `{"summary_threshold_tokens":1000000}`)
	k.Ask(`{"session_id":"s"}`)
	before := scribe.Calls()
	for range 4 {
		k.Post("s", enginetest.User("more"+text), enginetest.Assistant(text))
		k.Ask(`{"session_id":"s"}`)
		k.Drain()
	}
	if scribe.Calls() != before {
		t.Error("a setting of a million tokens is passed over")
	}
}
