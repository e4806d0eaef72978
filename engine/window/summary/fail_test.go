package summary_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

// TestSummaryFailures lets the model fail in every way that has a name: windows go on whole, nothing changes, and once
// it answers again everything is caught up.
func TestSummaryFailures(t *testing.T) {
	for _, failure := range []*summary.ProviderError{
		{Code: "provider_timeout"}, {Code: "provider_rate_limited", RetryAfter: 3 * time.Second},
		{Code: "provider_refused", Permanent: true}, {Code: "bad_reply", TokensIn: 5},
	} {
		t.Run(failure.Code, func(t *testing.T) {
			broken := true
			model := &enginetest.Scribe{}
			model.Fail = func(int) error {
				if broken {
					return failure
				}
				return nil
			}
			k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
			k.SetIn(ident.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
			for n := 1; n <= 60; n++ {
				k.Say("dashboard", n, 1)
				if w := k.Ask(enginetest.Unbounded); !slices.Equal(w.Marks(), enginetest.UpTo(n)) {
					t.Fatalf("with %d messages the window holds %v", n, w.Marks())
				}
				k.Drain()
			}
			if model.Calls() != 1 {
				t.Errorf("%d calls within no time", model.Calls())
			}
			k.Advance(16 * time.Minute)
			k.Drain()
			if model.Calls() != 2 {
				t.Errorf("%d calls after the longest wait", model.Calls())
			}
			if s := k.GetSession("dashboard"); s.Summary != nil || s.SummarizedCount != 0 {
				t.Errorf("a failure changed the session: %+v", s)
			}
			broken = false
			k.Advance(16 * time.Minute)
			k.Drain()
			for range 3 { // the job was asked for when there were 41
				k.Ask(enginetest.Unbounded)
				k.Drain()
			}
			s := k.GetSession("dashboard")
			if s.Summary == nil || *s.Summary != strings.Join(enginetest.UpTo(int(s.SummarizedCount)), " ") || s.SummarizedCount < 20 {
				t.Errorf("not caught up: %+v", s)
			}
			u, err := k.Tenants.Usage(t.Context(), k.Admin)
			if err != nil || u.Summaries.Failures != 2 || u.Summaries.Calls != int64(model.Calls()) {
				t.Errorf("usage %+v %v of %d calls", u, err, model.Calls())
			}
		})
	}
}

// TestSummaryBurst lets many windows ask at once for the same summary: one call is made.
func TestSummaryBurst(t *testing.T) {
	model := &enginetest.Scribe{Gate: make(chan struct{})}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true}`)
	k.Say("dashboard", 1, 41)
	var windows, background sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	background.Go(func() { k.Run(ctx, nil) })
	for range 50 {
		windows.Go(func() {
			if _, err := k.TryAsk(enginetest.Unbounded); err != nil {
				t.Error(err)
			}
		})
	}
	windows.Wait()
	close(model.Gate)
	k.SetIn(ident.DefaultProject, `{"summary_mode":"wait"}`)
	for range 50 {
		windows.Go(func() {
			if _, err := k.TryAsk(enginetest.Unbounded); err != nil {
				t.Error(err)
			}
		})
	}
	windows.Wait()
	stop()
	background.Wait()
	k.Drain()
	if s := k.GetSession("dashboard"); model.Calls() != 1 || s.SummarizedCount != 29 {
		t.Errorf("%d calls, %d summarised", model.Calls(), s.SummarizedCount)
	}
}

// TestSummaryWait holds mode wait to its promise: the window has the summary that it asked for.
func TestSummaryWait(t *testing.T) {
	model := &enginetest.Scribe{}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true,"summary_mode":"wait"}`)
	ctx, stop := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { k.Run(ctx, nil) })
	defer background.Wait()
	defer stop()
	k.Say("dashboard", 1, 41)
	w := k.Ask(`{"explain":true}`)
	var got struct {
		Summary *struct {
			Text  string
			Turns []int `json:"covers_turns"`
		}
	}
	if err := json.Unmarshal(w.Raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Summary == nil || got.Summary.Text != strings.Join(enginetest.UpTo(29), " ") || !slices.Equal(got.Summary.Turns, []int{1, 1}) {
		t.Fatalf("the window's summary is %+v", got.Summary)
	}
	if !slices.Equal(w.Marks(), enginetest.UpTo(41)) {
		t.Errorf("the window holds %v", w.Marks())
	}
	summarised := 0
	for _, row := range w.Report {
		if row.Action == "summarise" {
			summarised++
		}
	}
	if summarised != 29 {
		t.Errorf("%d rows say summarise", summarised)
	}
	k.Replay(w.DecisionID)
	model.Mu.Lock()
	model.Fail = func(int) error { return &summary.ProviderError{Code: "provider_error"} }
	model.Mu.Unlock()
	k.Say("dashboard", 42, 41)
	if w := k.Ask(enginetest.Unbounded); !slices.Equal(w.Marks(), enginetest.UpTo(82)) { // no wait for a model that fails
		t.Errorf("the window holds %v", w.Marks())
	}
}

// TestSummaryOvertakesAWindow makes a summary after a window was made without it and before that window asks for one:
// its wish is out of date and makes no other task.
func TestSummaryOvertakesAWindow(t *testing.T) {
	model := &enginetest.Scribe{}
	k := enginetest.Open(t, memstore.New(), enginetest.SummariseWith(model))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true}`)
	k.Say("dashboard", 1, 41)
	k.Ask(enginetest.Unbounded)
	k.Say("dashboard", 42, 4)
	k.Windows.WantSummary = func(ctx context.Context, w window.SummaryWish) bool {
		k.Drain()
		if k.Summaries.MakeWanted(ctx, w) {
			t.Error("a window that may not wait is made again")
		}
		w.Wait = time.Hour
		if !k.Summaries.MakeWanted(ctx, w) {
			t.Error("a window that may wait is not told of the summary")
		}
		return false
	}
	if w := k.Ask(enginetest.Unbounded); !slices.Equal(w.Marks(), enginetest.UpTo(45)) {
		t.Errorf("the window holds %v", w.Marks())
	}
	k.Drain()
	if s := k.GetSession("dashboard"); model.Calls() != 1 || s.SummarizedCount != 29 {
		t.Errorf("%d calls, %d summarised", model.Calls(), s.SummarizedCount)
	}
}

// killable is a store whose n-th commit from a moment on fails, before or after it was carried out, and all later ones
// too, as those of a process that was killed.
type killable struct {
	store.Store
	mu    sync.Mutex
	left  int // commits until then; negative: none fails
	after bool
}

var errKilled = errors.New("killed")

func (f *killable) Commit(ctx context.Context, tenant string, b store.Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return errKilled
	}
	if f.left > 0 {
		if f.left--; f.left == 0 {
			if f.after {
				if err := f.Store.Commit(ctx, tenant, b); err != nil {
					return err
				}
			}
			return errKilled
		}
	}
	return f.Store.Commit(ctx, tenant, b)
}

// TestSummaryKilled kills the process at every write from the window that asks for a summary to the end of the job.
// What is left is consistent, and the next process carries on to the same end, with no message summarised twice.
func TestSummaryKilled(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			disk := memstore.New()
			model := &enginetest.Scribe{}
			f := &killable{Store: disk, left: -1, after: after}
			k := enginetest.Open(t, f, enginetest.SummariseWith(model))
			k.SetIn(ident.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
			k.Say("dashboard", 1, 41)
			f.left = n
			_, err := k.TryAsk(enginetest.Unbounded)
			for more := true; more && err == nil; {
				more, err = k.Step(t.Context())
			}
			reached := f.left == 0
			again := enginetest.Open(t, disk, enginetest.SummariseWith(model))
			again.Advance(time.Hour) // leases of the killed process run out
			if w := again.Ask(enginetest.Unbounded); !slices.Equal(w.Marks(), enginetest.UpTo(41)) {
				t.Fatalf("killed at write %d: the window holds %v", n, w.Marks())
			}
			again.Drain()
			s := again.GetSession("dashboard")
			if s.SummarizedCount != 29 || *s.Summary != strings.Join(enginetest.UpTo(29), " ") {
				t.Fatalf("killed at write %d: %+v", n, s)
			}
			if w := again.Ask(enginetest.Unbounded); !slices.Equal(w.Marks(), enginetest.UpTo(41)) {
				t.Fatalf("killed at write %d: the next window holds %v", n, w.Marks())
			}
			for it := range records(again) {
				if strings.HasPrefix(string(it.Key), "j\x00y") {
					t.Fatalf("killed at write %d: a job is left over", n)
				}
			}
			if !reached {
				if n < 4 {
					t.Fatalf("only %d writes were seen", n)
				}
				break
			}
		}
	}
}
