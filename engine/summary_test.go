package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/summary"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// scribe is a model whose summary is the list of the marks, #1 #2 …, that it was ever given, so that a summary tells by
// itself what it covers.
type scribe struct {
	mu       sync.Mutex
	requests []summary.Request
	fail     func(call int) error // nil, or what the call ends with
	gate     chan struct{}        // nil, or what each call waits for
}

var mark = regexp.MustCompile(`#\d+`)

func (s *scribe) Summarise(ctx context.Context, r summary.Request) (summary.Reply, error) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	call, fail, gate := len(s.requests), s.fail, s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return summary.Reply{}, &summary.ProviderError{Code: "provider_timeout"}
		}
	}
	if fail != nil {
		if err := fail(call); err != nil {
			return summary.Reply{}, err
		}
	}
	marks := mark.FindAllString(r.Previous, -1)
	for _, m := range r.Messages {
		marks = append(marks, mark.FindAllString(m.Text, -1)...)
	}
	return summary.Reply{Text: strings.Join(marks, " "), Model: "scribe", TokensIn: 100, TokensOut: 10}, nil
}

func (s *scribe) Prompt() string { return "test" }

func (s *scribe) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func (s *scribe) last() summary.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[len(s.requests)-1]
}

func summariseWith(s summary.Summariser) func(*engine.Options) {
	return func(o *engine.Options) { o.Summariser = s }
}

// say posts one turn of n messages, user and assistant in turns, each with a mark of its own.
func (k *kit) say(session string, from, n int) {
	k.Helper()
	var messages []string
	for i := from; i < from+n; i++ {
		role := "user"
		if i%2 == 0 {
			role = "assistant"
		}
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":"message #%d"}`, role, i))
	}
	k.post(session, messages...)
}

// marks are those in a window's messages, with the summary's first.
func (w answer) marks() []string {
	return mark.FindAllString(string(w.raw[:strings.Index(string(w.raw), `,"usage":`)]), -1)
}

func upTo(n int) []string {
	var out []string
	for i := 1; i <= n; i++ {
		out = append(out, fmt.Sprintf("#%d", i))
	}
	return out
}

func (k *kit) session(id string) session.Session {
	k.Helper()
	s, err := k.Sessions.Get(k.Context(), k.admin, ident.DefaultProject, id)
	if err != nil {
		k.Fatal(err)
	}
	return s
}

const unbounded = `{"explain":true,"budget":{"max_messages":0,"max_tokens":0}}`

// TestSummaryArithmetic is the rolling summary's worked example: no call up to the threshold, one behind it, then none
// until the threshold is passed again.
func TestSummaryArithmetic(t *testing.T) {
	model := &scribe{}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.setIn(ident.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
	for n := 1; n <= 100; n++ {
		k.say("dashboard", n, 1)
		w := k.ask(unbounded)
		if got := w.marks(); !slices.Equal(got, upTo(n)) {
			t.Fatalf("with %d messages the window holds %v", n, got)
		}
		k.drain()
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
		if s := k.session("dashboard"); model.calls() != wantCalls || s.SummarizedCount != wantCount {
			t.Fatalf("with %d messages: %d calls, %d summarised; want %d and %d", n, model.calls(), s.SummarizedCount,
				wantCalls, wantCount)
		}
	}
	if r := model.requests[1]; r.Previous != strings.Join(upTo(29), " ") || len(r.Messages) != 29 {
		t.Errorf("the second call has %d messages and the old summary %q", len(r.Messages), r.Previous)
	}
	u, err := k.Tenants.Usage(k.Context(), k.admin)
	if err != nil || u.Summaries != (tenant.SummaryUsage{Calls: 3, TokensIn: 300, TokensOut: 30}) {
		t.Errorf("usage: %+v %v", u, err)
	}
}

// TestSummaryIsAnInput replays windows made with summaries that are no longer the session's.
func TestSummaryIsAnInput(t *testing.T) {
	model := &scribe{}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.setIn(ident.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
	var made []answer
	for n := 1; n <= 160; n += 4 {
		k.say("dashboard", n, 4)
		made = append(made, k.ask(`{"explain":true}`))
		k.drain()
	}
	if _, err := k.Summaries.ActOn(k.Context(), k.admin, access.Once{}, ident.DefaultProject, "dashboard",
		summary.Action{Action: "reset"}); err != nil {
		t.Fatal(err)
	}
	if s := k.session("dashboard"); s.Summary != nil || s.SummarizedCount != 0 {
		t.Errorf("after a reset: %+v", s)
	}
	for _, w := range made {
		k.replay(w.DecisionID)
	}
	if w := k.ask(unbounded); !slices.Equal(w.marks(), upTo(160)) {
		t.Errorf("after a reset the window holds %v", w.marks())
	}
	k.advance(9 * 24 * time.Hour)
	k.drain()
	kept := 0
	for it := range k.records() {
		if len(it.Key) > 10 && it.Key[0] == 'm' && it.Key[10] == 's' {
			kept++
		}
	}
	if kept != 1 { // the one that the last window asked for
		t.Errorf("%d summaries are stored once no decision names the old ones", kept)
	}
}

// records walks over everything that is stored for the tenant, decoded.
func (k *kit) records() func(yield func(store.Item) bool) {
	return func(yield func(store.Item) bool) {
		r, err := store.Seal(k.store).Read(k.Context(), k.admin.Tenant, store.Query{Ranges: []store.Range{{}}})
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
	model := &scribe{}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.setIn(ident.DefaultProject, `{"summary_enabled":true}`)
	act := func(action string) summary.Answer {
		a, err := k.Summaries.ActOn(k.Context(), k.admin, access.Once{}, ident.DefaultProject, "dashboard",
			summary.Action{Action: action})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := act("refresh"); a.Queued {
		t.Error("there is nothing to summarise, and yet a summary is queued")
	}
	k.say("dashboard", 1, 30)
	if a := act("refresh"); !a.Queued {
		t.Error("a refresh queues nothing")
	}
	k.drain()
	if s := k.session("dashboard"); s.SummarizedCount != 18 || *s.Summary != strings.Join(upTo(18), " ") {
		t.Errorf("30 messages refreshed give %d, %v", s.SummarizedCount, s.Summary)
	}
	k.say("dashboard", 31, 50) // the model is asked for more than one call can take: see the next test
	act("refresh")
	if s := k.session("dashboard"); s.SummarizedCount != 18 {
		t.Errorf("before the refresh is through, %d are summarised", s.SummarizedCount)
	}
	k.drain()
	if s := k.session("dashboard"); *s.Summary != strings.Join(upTo(68), " ") || model.last().Previous != "" {
		t.Errorf("80 messages refreshed give %v, made from %q", *s.Summary, model.last().Previous)
	}
}

// TestSummaryInChunks folds more than one call takes, the count advancing with each.
func TestSummaryInChunks(t *testing.T) {
	for _, anew := range []bool{false, true} {
		model := &scribe{}
		k := openKit(t, memstore.New(), summariseWith(model))
		k.setIn(ident.DefaultProject, `{"summary_enabled":true,"summary_threshold":20,"summary_keep_last":2}`)
		for i := 1; i <= 60; i += 2 {
			k.post("dashboard", fmt.Sprintf(`{"role":"user","content":"#%d %s"}`, i, strings.Repeat("many words ", 400)),
				fmt.Sprintf(`{"role":"assistant","content":"#%d"}`, i+1))
		}
		if anew {
			if _, err := k.Summaries.ActOn(t.Context(), k.admin, access.Once{}, ident.DefaultProject, "dashboard",
				summary.Action{Action: "refresh"}); err != nil {
				t.Fatal(err)
			}
		} else {
			k.ask(`{"budget":{"max_messages":0,"max_tokens":0}}`)
		}
		k.drain()
		s := k.session("dashboard")
		if model.calls() < 2 || s.SummarizedCount != 58 || *s.Summary != strings.Join(upTo(58), " ") {
			t.Errorf("anew %v: %d calls made %d: %s", anew, model.calls(), s.SummarizedCount, *s.Summary)
		}
		for _, r := range model.requests {
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
	model := &scribe{}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.setIn(ident.DefaultProject, `{"summary_enabled":true}`)
	k.say("dashboard", 1, 41)
	k.ask(unbounded)
	k.drain()
	before := k.ask(unbounded)
	f, err := k.Sessions.Export(t.Context(), k.admin, ident.DefaultProject, "dashboard")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Sessions.Delete(t.Context(), k.admin, ident.DefaultProject, "dashboard"); err != nil {
		t.Fatal(err)
	}
	k.drain()
	if _, err := k.Sessions.Import(t.Context(), k.admin, access.Once{}, ident.DefaultProject, f); err != nil {
		t.Fatal(err)
	}
	if after := k.ask(unbounded); !slices.EqualFunc(before.Messages, after.Messages, func(a, b json.RawMessage) bool {
		return string(a) == string(b)
	}) {
		t.Errorf("the window was %s and is %s", before.raw, after.raw)
	}
	f.Summary.Covers = 42
	f.Session.ID = "other"
	if _, err := k.Sessions.Import(t.Context(), k.admin, access.Once{}, ident.DefaultProject, f); err == nil {
		t.Error("a summary of messages that are not there was taken")
	}
}
