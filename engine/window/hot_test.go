package window_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// What an engine has in memory never shows: a fresh one over the same store gives the same windows, at every turn.
func TestMemoryNeverShows(t *testing.T) {
	k := enginetest.New(t)
	r := rand.New(rand.NewPCG(3, 3))
	open := 0
	for i := range 120 {
		var turn []string
		for range 1 + r.IntN(8) {
			switch n := r.IntN(5); {
			case n == 0:
				turn = append(turn, enginetest.Call(fmt.Sprint("c", r.IntN(3)), "tool"))
				open++
			case n == 1:
				turn = append(turn, enginetest.Assistant(fmt.Sprint("answer ", i)))
			default:
				turn = append(turn, enginetest.User(fmt.Sprint("question ", i)))
			}
		}
		id := fmt.Sprint("c", r.IntN(3))
		if open > 0 { // answers, often turns later, whatever call of that id is open
			if _, err := k.TryPost(session.TurnRequest{SessionID: "s"}, enginetest.Result(id, fmt.Sprint("late ", i))); err == nil {
				open--
			}
		}
		k.Post("s", turn...)
		request := fmt.Sprintf(`{"session_id":"s","explain":true,"budget":{"max_messages":%d,"max_tokens":0}}`, 20*r.IntN(40))
		hot := k.Ask("%s", request)
		if i%10 != 0 {
			continue
		}
		cold := enginetest.Open(t, k.Store).Ask("%s", request)
		if len(hot.Messages) != len(cold.Messages) || len(hot.Report) != len(cold.Report) {
			t.Fatalf("turn %d: %d messages and %d rows in memory, %d and %d from the store", i, len(hot.Messages),
				len(hot.Report), len(cold.Messages), len(cold.Report))
		}
		for j := range hot.Messages {
			if !bytes.Equal(hot.Messages[j], cold.Messages[j]) {
				t.Fatalf("turn %d, message %d: %s in memory, %s from the store", i, j, hot.Messages[j], cold.Messages[j])
			}
		}
		k.Replay(hot.DecisionID)
	}
}

// Appends and windows at once: every acknowledged turn has its own number, every window is a prefix.
func TestConcurrentTurnsAndWindows(t *testing.T) {
	k := enginetest.New(t)
	const writers, each = 8, 25
	seen := make([]bool, writers*each+1)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				got, err := k.TryPost(session.TurnRequest{SessionID: "s"}, enginetest.User(fmt.Sprint(w, " ", i)), enginetest.Assistant("ok"))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[got.Turn] || got.Revision != uint64(got.Turn) {
					t.Errorf("turn %d revision %d, twice: %t", got.Turn, got.Revision, seen[got.Turn])
				}
				seen[got.Turn] = true
				mu.Unlock()
			}
		})
	}
	for range 4 {
		wg.Go(func() {
			for range each {
				w, err := k.TryAsk(`{"session_id":"s","explain":true,"budget":{"max_messages":0,"max_tokens":0}}`)
				if err != nil {
					t.Error(err)
					return
				}
				rows := 0
				for _, r := range w.Report {
					if r.Action != "inject" { // the marker
						rows++
					}
				}
				if rows != w.Usage["considered_messages"] || rows%2 != 0 {
					t.Errorf("%d rows for %d messages", rows, w.Usage["considered_messages"])
				}
			}
		})
	}
	wg.Wait()
	list, err := k.Sessions.ListMessages(t.Context(), k.Admin, ident.DefaultProject, "s", records.Page{Limit: 1000},
		session.MessageOrder{})
	if err != nil || len(list.Data) != 2*writers*each {
		t.Fatalf("%d messages: %v", len(list.Data), err)
	}
}
