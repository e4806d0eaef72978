package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/summary"
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
			model := &scribe{}
			model.fail = func(int) error {
				if broken {
					return failure
				}
				return nil
			}
			k := openKit(t, memstore.New(), summariseWith(model))
			k.setIn(ident.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
			for n := 1; n <= 60; n++ {
				k.say("dashboard", n, 1)
				if w := k.ask(unbounded); !slices.Equal(w.marks(), upTo(n)) {
					t.Fatalf("with %d messages the window holds %v", n, w.marks())
				}
				k.drain()
			}
			if model.calls() != 1 {
				t.Errorf("%d calls within no time", model.calls())
			}
			k.advance(16 * time.Minute)
			k.drain()
			if model.calls() != 2 {
				t.Errorf("%d calls after the longest wait", model.calls())
			}
			if s := k.session("dashboard"); s.Summary != nil || s.SummarizedCount != 0 {
				t.Errorf("a failure changed the session: %+v", s)
			}
			broken = false
			k.advance(16 * time.Minute)
			k.drain()
			for range 3 { // the job was asked for when there were 41
				k.ask(unbounded)
				k.drain()
			}
			s := k.session("dashboard")
			if s.Summary == nil || *s.Summary != strings.Join(upTo(int(s.SummarizedCount)), " ") || s.SummarizedCount < 20 {
				t.Errorf("not caught up: %+v", s)
			}
			u, err := k.Tenants.Usage(t.Context(), k.admin)
			if err != nil || u.Summaries.Failures != 2 || u.Summaries.Calls != int64(model.calls()) {
				t.Errorf("usage %+v %v of %d calls", u, err, model.calls())
			}
		})
	}
}

// TestSummaryBurst lets many windows ask at once for the same summary: one call is made.
func TestSummaryBurst(t *testing.T) {
	model := &scribe{gate: make(chan struct{})}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.setIn(ident.DefaultProject, `{"summary_enabled":true}`)
	k.say("dashboard", 1, 41)
	var windows, background sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	background.Go(func() { k.Run(ctx, nil) })
	for range 50 {
		windows.Go(func() {
			if _, err := k.tryAsk(unbounded); err != nil {
				t.Error(err)
			}
		})
	}
	windows.Wait()
	close(model.gate)
	k.setIn(ident.DefaultProject, `{"summary_mode":"wait"}`)
	for range 50 {
		windows.Go(func() {
			if _, err := k.tryAsk(unbounded); err != nil {
				t.Error(err)
			}
		})
	}
	windows.Wait()
	stop()
	background.Wait()
	k.drain()
	if s := k.session("dashboard"); model.calls() != 1 || s.SummarizedCount != 29 {
		t.Errorf("%d calls, %d summarised", model.calls(), s.SummarizedCount)
	}
}

// TestSummaryWait holds mode wait to its promise: the window has the summary that it asked for.
func TestSummaryWait(t *testing.T) {
	model := &scribe{}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.setIn(ident.DefaultProject, `{"summary_enabled":true,"summary_mode":"wait"}`)
	ctx, stop := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { k.Run(ctx, nil) })
	defer background.Wait()
	defer stop()
	k.say("dashboard", 1, 41)
	w := k.ask(`{"explain":true}`)
	var got struct {
		Summary *struct {
			Text  string
			Turns []int `json:"covers_turns"`
		}
	}
	if err := json.Unmarshal(w.raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Summary == nil || got.Summary.Text != strings.Join(upTo(29), " ") || !slices.Equal(got.Summary.Turns, []int{1, 1}) {
		t.Fatalf("the window's summary is %+v", got.Summary)
	}
	if !slices.Equal(w.marks(), upTo(41)) {
		t.Errorf("the window holds %v", w.marks())
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
	k.replay(w.DecisionID)
	model.mu.Lock()
	model.fail = func(int) error { return &summary.ProviderError{Code: "provider_error"} }
	model.mu.Unlock()
	k.say("dashboard", 42, 41)
	if w := k.ask(unbounded); !slices.Equal(w.marks(), upTo(82)) { // no wait for a model that fails
		t.Errorf("the window holds %v", w.marks())
	}
}

// killable is a store whose n-th commit from a moment on fails, before or after it was carried out, and all later ones too,
// as those of a process that was killed.
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

// TestSummaryKilled kills the process at every write from the window that asks for a summary to the end of the job. What
// is left is consistent, and the next process carries on to the same end, with no message summarised twice.
func TestSummaryKilled(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			disk := memstore.New()
			model := &scribe{}
			f := &killable{Store: disk, left: -1, after: after}
			k := openKit(t, f, summariseWith(model))
			k.setIn(ident.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
			k.say("dashboard", 1, 41)
			f.left = n
			_, err := k.tryAsk(unbounded)
			for more := true; more && err == nil; {
				more, err = k.Step(t.Context())
			}
			reached := f.left == 0
			again := openKit(t, disk, summariseWith(model))
			again.advance(time.Hour) // leases of the killed process run out
			if w := again.ask(unbounded); !slices.Equal(w.marks(), upTo(41)) {
				t.Fatalf("killed at write %d: the window holds %v", n, w.marks())
			}
			again.drain()
			s := again.session("dashboard")
			if s.SummarizedCount != 29 || *s.Summary != strings.Join(upTo(29), " ") {
				t.Fatalf("killed at write %d: %+v", n, s)
			}
			if w := again.ask(unbounded); !slices.Equal(w.marks(), upTo(41)) {
				t.Fatalf("killed at write %d: the next window holds %v", n, w.marks())
			}
			for it := range again.records() {
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
