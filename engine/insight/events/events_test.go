package events_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/events"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler/compilertest"
)

func TestMain(m *testing.M) { os.Exit(compilertest.Main(m)) }

func follow(k *enginetest.Kit, id, after string) records.Feed {
	k.Helper()
	f, err := k.Tail.Follow(k.Context(), k.Admin, ident.DefaultProject, id, after)
	if err != nil {
		k.Fatal(err)
	}
	return f
}

func next(k *enginetest.Kit, f records.Feed) []records.Event {
	k.Helper()
	events, err := f.Next(k.Context())
	if err != nil {
		k.Fatal(err)
	}
	return events
}

// shown is a short form of an event: a turn with its messages, a rewind with what is left, a decision with its id.
func shown(e records.Event) string {
	switch data := e.Data.(type) {
	case events.Turn:
		return fmt.Sprintf("turn %d +%d", data.Turn, data.Messages)
	case events.Rewind:
		return fmt.Sprintf("rewind to %d", data.LastTurn)
	case events.Summary:
		return fmt.Sprintf("summary %d", data.Version)
	case decision.Row:
		return data.ID
	}
	return fmt.Sprintf("%+v", e)
}

// TestFollowersSeeAllOnce compares what was done with what followers see that read at any time and reconnect with any
// event's id.
func TestFollowersSeeAllOnce(t *testing.T) {
	for seed := range uint64(12) {
		k, r := enginetest.New(t), rand.New(rand.NewPCG(seed, 3))
		k.Post("other", enginetest.User("elsewhere"))
		k.Post("s", enginetest.User("before"))
		k.Advance(time.Second)
		k.Ask(`{"session_id":"s"}`)
		f := follow(k, "s", "")
		var want, got, ids []string
		seen := map[string]int{}
		look := func() {
			for _, e := range next(k, f) {
				got, ids = append(got, shown(e)), append(ids, e.ID)
				seen[shown(e)]++
			}
			if r.IntN(3) == 0 && len(ids) > 0 { // the reader reconnects
				f = follow(k, "s", ids[len(ids)-1])
			}
		}
		turn := 1
		for range 40 {
			switch r.IntN(6) {
			case 0, 1:
				turn++
				n := 1 + r.IntN(3)
				k.Post("s", slices.Repeat([]string{enginetest.User("more")}, n)...)
				want = append(want, fmt.Sprintf("turn %d +%d", turn, n))
			case 2, 3:
				want = append(want, k.Ask(`{"session_id":"s"}`).DecisionID)
			case 4:
				k.Ask(`{"session_id":"s","record":false}`)
				k.Ask(`{"session_id":"other"}`)
				k.Post("other", enginetest.User("elsewhere"))
			case 5:
				k.Advance(time.Duration(r.IntN(20_000)) * time.Millisecond)
			}
			k.Advance(time.Millisecond)
			if r.IntN(2) == 0 {
				look()
			}
		}
		look()
		if !slices.Equal(got, want) {
			slices.Sort(got)
			slices.Sort(want)
			t.Fatalf("seed %d: the events are\n%v\nnot\n%v", seed, got, want)
		}
		// After any event, a new reader gets the rest.
		for at := range ids {
			var rest []string
			for _, e := range next(k, follow(k, "s", ids[at])) {
				rest = append(rest, shown(e))
			}
			slices.Sort(rest)
			left := slices.Sorted(slices.Values(want[at+1:]))
			if !slices.Equal(rest, left) {
				t.Fatalf("seed %d: behind event %d come\n%v\nnot\n%v", seed, at, rest, left)
			}
		}
	}
}

// TestRewindsSummariesAndEnds expects the other events of a session, and the end of a stream when the session is
// deleted.
func TestRewindsSummariesAndEnds(t *testing.T) {
	scribe := new(enginetest.Scribe)
	k := enginetest.Open(t, enginetest.New(t).Store, enginetest.SummariseWith(scribe))
	k.SetIn(ident.DefaultProject, `{"summary_enabled":true,"summary_threshold":4,"summary_keep_last":2}`)
	for i := range 6 {
		k.Post("s", enginetest.User(fmt.Sprint("question #", i)), enginetest.Assistant("answer"))
	}
	f := follow(k, "s", "")
	if events := next(k, f); len(events) != 0 {
		t.Errorf("nothing happened: %+v", events)
	}
	w := k.Ask(`{"session_id":"s"}`)
	if _, err := k.Summaries.ActOn(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "s",
		summary.Action{Action: "refresh"}); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	var got []string
	for _, e := range next(k, f) {
		got = append(got, shown(e))
	}
	if !slices.Equal(got, []string{w.DecisionID, "summary 1"}) {
		t.Errorf("a window and a summary: %v", got)
	}
	two := uint32(2)
	if _, err := k.Sessions.Rewind(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "s",
		session.RewindRequest{ToTurn: &two}); err != nil {
		t.Fatal(err)
	}
	k.Post("s", enginetest.User("another way"))
	events := next(k, f)
	if got := []string{shown(events[0]), shown(events[1])}; got[0] != "rewind to 7" || got[1] != "turn 7 +1" {
		t.Errorf("a rewind and a turn: %v", got)
	}
	if b, err := json.Marshal(events[1].Data); err != nil || len(b) == 0 {
		t.Error(err)
	}
	last := events[len(events)-1].ID
	_, err := k.Tail.Follow(t.Context(), k.Admin, ident.DefaultProject, "s", "evt_1")
	enginetest.RefusedWith(t, err, fault.Invalid, "invalid_id")
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "s"); err != nil {
		t.Fatal(err)
	}
	k.Post("s", enginetest.User("a later one of the same name"))
	_, err = f.Next(t.Context())
	enginetest.RefusedWith(t, err, fault.NotFound, "not_found")
	_, err = k.Tail.Follow(t.Context(), k.Admin, ident.DefaultProject, "s", last)
	enginetest.RefusedWith(t, err, fault.Invalid, "invalid_id")
	_, err = k.Tail.Follow(t.Context(), k.Admin, ident.DefaultProject, "none", "")
	enginetest.RefusedWith(t, err, fault.NotFound, "not_found")
	// dashboard exists before its first turn.
	f = follow(k, ident.DefaultSession, "")
	k.Post("", enginetest.User("hello"))
	if events := next(k, f); len(events) != 1 || shown(events[0]) != "turn 1 +1" {
		t.Errorf("the first turn: %+v", events)
	}
}
