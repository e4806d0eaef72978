package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// scribe is a model whose summary is the list of the marks, #1 #2 …, that it was ever given, so that a summary tells by
// itself what it covers.
type scribe struct {
	mu       sync.Mutex
	requests []engine.SummaryRequest
	fail     func(call int) error // nil, or what the call ends with
	gate     chan struct{}        // nil, or what each call waits for
}

var mark = regexp.MustCompile(`#\d+`)

func (s *scribe) Summarise(ctx context.Context, r engine.SummaryRequest) (engine.SummaryReply, error) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	call, fail, gate := len(s.requests), s.fail, s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return engine.SummaryReply{}, &engine.SummaryError{Code: "provider_timeout"}
		}
	}
	if fail != nil {
		if err := fail(call); err != nil {
			return engine.SummaryReply{}, err
		}
	}
	marks := mark.FindAllString(r.Previous, -1)
	for _, m := range r.Messages {
		marks = append(marks, mark.FindAllString(m.Text, -1)...)
	}
	return engine.SummaryReply{Text: strings.Join(marks, " "), Model: "scribe", TokensIn: 100, TokensOut: 10}, nil
}

func (s *scribe) Prompt() string { return "test" }

func (s *scribe) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func (s *scribe) last() engine.SummaryRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[len(s.requests)-1]
}

func summariseWith(s engine.Summariser) func(*engine.Options) {
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
func (w window) marks() []string {
	return mark.FindAllString(string(w.raw[:strings.Index(string(w.raw), `,"usage":`)]), -1)
}

func upTo(n int) []string {
	var out []string
	for i := 1; i <= n; i++ {
		out = append(out, fmt.Sprintf("#%d", i))
	}
	return out
}

func (k *kit) session(id string) engine.Session {
	k.Helper()
	s, err := k.GetSession(k.Context(), k.admin, engine.DefaultProject, id)
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
	k.setIn(engine.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
	for n := 1; n <= 100; n++ {
		k.say("dashboard", n, 1)
		w := k.ask(unbounded)
		if got := w.marks(); !slices.Equal(got, upTo(n)) {
			t.Fatalf("with %d messages the window holds %v", n, got)
		}
		k.drain()
		// 41 messages fold 29, of which 28 end before the assistant's #29... the user's own never splits an atom.
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
	u, err := k.Usage(k.Context(), k.admin)
	if err != nil || u.Summaries != (engine.SummaryUsage{Calls: 3, TokensIn: 300, TokensOut: 30}) {
		t.Errorf("usage: %+v %v", u, err)
	}
}

// TestSummaryIsAnInput replays windows made with summaries that are no longer the session's.
func TestSummaryIsAnInput(t *testing.T) {
	model := &scribe{}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.setIn(engine.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
	var made []window
	for n := 1; n <= 160; n += 4 {
		k.say("dashboard", n, 4)
		made = append(made, k.ask(`{"explain":true}`))
		k.drain()
	}
	if _, err := k.ActOnSummary(k.Context(), k.admin, engine.Once{}, engine.DefaultProject, "dashboard",
		engine.SummaryAction{Action: "reset"}); err != nil {
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
	k.setIn(engine.DefaultProject, `{"summary_enabled":true}`)
	act := func(action string) engine.SummaryAnswer {
		a, err := k.ActOnSummary(k.Context(), k.admin, engine.Once{}, engine.DefaultProject, "dashboard",
			engine.SummaryAction{Action: action})
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
		k.setIn(engine.DefaultProject, `{"summary_enabled":true,"summary_threshold":20,"summary_keep_last":2}`)
		for i := 1; i <= 60; i += 2 {
			k.post("dashboard", fmt.Sprintf(`{"role":"user","content":"#%d %s"}`, i, strings.Repeat("many words ", 400)),
				fmt.Sprintf(`{"role":"assistant","content":"#%d"}`, i+1))
		}
		if anew {
			if _, err := k.ActOnSummary(t.Context(), k.admin, engine.Once{}, engine.DefaultProject, "dashboard",
				engine.SummaryAction{Action: "refresh"}); err != nil {
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

// TestSummaryFailures lets the model fail in every way that has a name: windows go on whole, nothing changes, and once
// it answers again everything is caught up.
func TestSummaryFailures(t *testing.T) {
	for _, failure := range []*engine.SummaryError{
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
			k.setIn(engine.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
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
			u, err := k.Usage(t.Context(), k.admin)
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
	k.setIn(engine.DefaultProject, `{"summary_enabled":true}`)
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
	k.setIn(engine.DefaultProject, `{"summary_mode":"wait"}`)
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
	k.setIn(engine.DefaultProject, `{"summary_enabled":true,"summary_mode":"wait"}`)
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
	model.fail = func(int) error { return &engine.SummaryError{Code: "provider_error"} }
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
			k.setIn(engine.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
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
	model := &scribe{}
	model.fail = func(int) error {
		if r.IntN(4) == 0 {
			return &engine.SummaryError{Code: "provider_error"}
		}
		return nil
	}
	k := openKit(t, memstore.New(), summariseWith(model))
	threshold := 5 + r.IntN(20)
	k.setIn(engine.DefaultProject, fmt.Sprintf(`{"summary_enabled":true,"session_history_depth":100,"summary_threshold":%d,"summary_keep_last":%d}`, threshold, 1+r.IntN(threshold)))
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
		k.post("dashboard", turn...)
		w := k.ask(unbounded)
		checkSummaryWindow(t, k, w, n, delegated)
		if r.IntN(3) > 0 {
			k.advance(20 * time.Minute)
			k.drain()
		}
		if r.IntN(10) == 0 {
			k.replay(w.DecisionID)
		}
	}
	if model.calls() == 0 {
		t.Error("no summary was ever asked for")
	}
}

func checkSummaryWindow(t *testing.T, k *kit, w window, n int, delegated map[string]bool) {
	t.Helper()
	seen := map[string]int{}
	for _, m := range w.marks() {
		seen[m]++
	}
	s := k.session("dashboard")
	summarised := map[string]bool{}
	if s.Summary != nil {
		for _, m := range mark.FindAllString(*s.Summary, -1) {
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

// TestSummaryTravels takes a session out and in again: the summary goes with it.
func TestSummaryTravels(t *testing.T) {
	model := &scribe{}
	k := openKit(t, memstore.New(), summariseWith(model))
	k.setIn(engine.DefaultProject, `{"summary_enabled":true}`)
	k.say("dashboard", 1, 41)
	k.ask(unbounded)
	k.drain()
	before := k.ask(unbounded)
	f, err := k.ExportSession(t.Context(), k.admin, engine.DefaultProject, "dashboard")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.DeleteSession(t.Context(), k.admin, engine.DefaultProject, "dashboard"); err != nil {
		t.Fatal(err)
	}
	k.drain()
	if _, err := k.ImportSession(t.Context(), k.admin, engine.Once{}, engine.DefaultProject, f); err != nil {
		t.Fatal(err)
	}
	if after := k.ask(unbounded); !slices.EqualFunc(before.Messages, after.Messages, func(a, b json.RawMessage) bool {
		return string(a) == string(b)
	}) {
		t.Errorf("the window was %s and is %s", before.raw, after.raw)
	}
	f.Summary.Covers = 42
	f.Session.ID = "other"
	if _, err := k.ImportSession(t.Context(), k.admin, engine.Once{}, engine.DefaultProject, f); err == nil {
		t.Error("a summary of messages that are not there was taken")
	}
}
