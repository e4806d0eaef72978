package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// TestIdempotentTurns: repeating a key and body gives the same answer; another body is refused.
func TestIdempotentTurns(t *testing.T) {
	c := own(t)
	body := object{"session_id": "s", "messages": []object{user("once")}}
	first := c.do("POST", c.path("/turns"), body, "Idempotency-Key", "k1").want(201)
	again := c.do("POST", c.path("/turns"), body, "Idempotency-Key", "k1").want(201)
	if string(first.body) != string(again.body) {
		t.Errorf("answers differ:\n%s\n%s", first.body, again.body)
	}
	other := object{"session_id": "s", "messages": []object{user("twice")}}
	c.do("POST", c.path("/turns"), other, "Idempotency-Key", "k1").problem(422)
	equal(t, "window", spoken(t, c.assemble(object{"session_id": "s"})), []string{"user: once"})
	c.do("POST", c.path("/turns"), other, "Idempotency-Key", "k2").want(201)
}

// TestIdempotentRace: of many simultaneous requests with one key, one turn is stored.
func TestIdempotentRace(t *testing.T) {
	c := own(t)
	body := encodeJSON(t, object{"session_id": "s", "messages": []object{user("once")}})
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			r, err := c.try("POST", c.path("/turns"), body, "Idempotency-Key", "race")
			if err != nil || r.status != 201 && r.status != 409 {
				t.Errorf("%d %v %s", r.status, err, r.body)
			}
		})
	}
	group.Wait()
	equal(t, "window", spoken(t, c.assemble(object{"session_id": "s"})), []string{"user: once"})
}

// TestConcurrentTurns: writers of one session get distinct, consecutive turn numbers, and no turn is split.
func TestConcurrentTurns(t *testing.T) {
	c := own(t)
	const writers, each = 8, 20
	var mu sync.Mutex
	said := map[int]string{} // turn number to its text
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := range each {
				text := fmt.Sprintf("writer %d turn %d", w, n)
				body := encodeJSON(t, object{"session_id": "s", "messages": []object{user(text), assistant(text)}})
				r, err := c.try("POST", c.path("/turns"), body)
				if err != nil || r.status != 201 {
					t.Errorf("%d %v %s", r.status, err, r.body)
					return
				}
				var answer turnAnswer
				r.into(&answer)
				mu.Lock()
				said[answer.Turn] = text
				mu.Unlock()
			}
		})
	}
	group.Wait()
	var want []string
	for turn := 1; turn <= writers*each; turn++ {
		if said[turn] == "" {
			t.Fatalf("no writer was given turn %d of %d", turn, writers*each)
		}
		want = append(want, "user: "+said[turn], "assistant: "+said[turn])
	}
	w := c.assemble(object{"session_id": "s", "budget": object{"max_messages": 0, "max_tokens": 0},
		"pipeline": []object{{"policy": "delegation-filter"}}})
	if got := spoken(t, w); !slices.Equal(got, want) {
		t.Errorf("%d messages in the window, want %d in the order of turns", len(got), len(want))
	}
}
