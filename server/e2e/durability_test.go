package e2e

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
)

// TestAcknowledgedTurnsSurviveACrash kills the server amid eight writers: every acknowledged turn is there, whole
// and in order, and what was not acknowledged is there whole or not at all.
func TestAcknowledgedTurnsSurviveACrash(t *testing.T) {
	data := t.TempDir()
	server := start(t, data)
	const writers = 8
	acknowledged := make([]int, writers) // turns of each writer's session, and of the shared session
	shared := map[int]string{}
	var mu sync.Mutex
	enough := make(chan struct{})
	total := 0
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			c := server.client(t)
			for n := 1; ; n++ {
				for _, session := range []string{fmt.Sprintf("own-%d", w), "shared"} {
					text := fmt.Sprintf("writer %d turn %d", w, n)
					call := fmt.Sprintf("c%d-%d", w, n)
					body := encodeJSON(t, object{"session_id": session, "messages": []object{
						user(text), calling(call, "f", "{}"), result(call, text), assistant(text)}})
					r, err := c.try("POST", "/api/v1/projects/default/turns", body)
					if err != nil {
						return // the server is gone
					}
					if r.status != 201 {
						t.Errorf("%d %s", r.status, r.body)
						return
					}
					var answer turnAnswer
					if json.Unmarshal(r.body, &answer) != nil {
						return // cut off by the kill
					}
					mu.Lock()
					if session == "shared" {
						shared[answer.Turn] = text
					} else {
						acknowledged[w] = answer.Turn
					}
					if total++; total == 400 {
						close(enough)
					}
					mu.Unlock()
				}
			}
		})
	}
	<-enough
	server.kill()
	group.Wait()
	server = start(t, data)
	c := server.client(t)
	for w, turns := range acknowledged {
		got := stored(t, c, fmt.Sprintf("own-%d", w))
		if len(got) != turns && len(got) != turns+1 {
			t.Errorf("writer %d: %d turns acknowledged, %d stored", w, turns, len(got))
		}
		for i, text := range got {
			if want := fmt.Sprintf("writer %d turn %d", w, i+1); text != want {
				t.Errorf("writer %d: turn %d is %q", w, i+1, text)
			}
		}
	}
	got := stored(t, c, "shared")
	for turn, text := range shared {
		if turn > len(got) || got[turn-1] != text {
			t.Errorf("shared turn %d (%q) was acknowledged and is lost", turn, text)
		}
	}
	if len(got) > len(shared)+writers {
		t.Errorf("%d shared turns stored, %d acknowledged", len(got), len(shared))
	}
}

// stored reads a whole session page by page and returns each turn's text; turns must be whole and gapless.
func stored(t testing.TB, c client, session string) (turns []string) {
	t.Helper()
	cursor := ""
	place := 0
	for {
		var page struct {
			Data []struct {
				Turn    int    `json:"turn"`
				Role    string `json:"role"`
				Content string `json:"content"`
			} `json:"data"`
			HasMore    bool    `json:"has_more"`
			NextCursor *string `json:"next_cursor"`
		}
		c.get("/api/v1/projects/default/sessions/" + session + "/messages?limit=100&order=asc" +
			cursor).want(200).into(&page)
		for _, m := range page.Data {
			if want := []string{"user", "assistant", "tool", "assistant"}[place%4]; m.Role != want ||
				m.Turn != place/4+1 {
				t.Fatalf("%s: message %d is a %s of turn %d, want a %s of turn %d", session, place, m.Role, m.Turn,
					want, place/4+1)
			}
			if place%4 == 0 {
				turns = append(turns, m.Content)
			} else if place%4 != 1 && m.Content != turns[len(turns)-1] {
				t.Fatalf("%s: turn %d mixes %q and %q", session, m.Turn, turns[len(turns)-1], m.Content)
			}
			place++
		}
		if !page.HasMore {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if place%4 != 0 {
		t.Fatalf("%s: the last turn has %d messages", session, place%4)
	}
	return turns
}

// TestGracefulStop ends the server as an operator does: it exits cleanly, and the next one goes on where it was.
func TestGracefulStop(t *testing.T) {
	data := t.TempDir()
	server := start(t, data)
	c := server.client(t)
	turn := object{"messages": []object{user("before the stop")}}
	c.post("/api/v1/projects/default/turns", turn).want(201)
	server.stop(t)
	if _, err := c.try("GET", "/healthz", nil); err == nil {
		t.Error("a stopped server answers")
	}
	c = start(t, data).client(t)
	var answer turnAnswer
	c.post("/api/v1/projects/default/turns", turn).want(201).into(&answer)
	if answer.Turn != 2 {
		t.Errorf("the turn after a restart is %d, want 2", answer.Turn)
	}
}

// TestRelativeDataFolder starts the server the way the README does: its data in a folder named relative to where it
// runs.
func TestRelativeDataFolder(t *testing.T) {
	binary, err := mneme.build() // before the folder changes: it builds what lies beside this one
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for range 2 { // made anew, then found
		p, err := launch(binary, "mneme-data")
		if err != nil {
			t.Fatal(err)
		}
		c := p.client(t)
		c.post("/api/v1/projects/default/turns", object{"messages": []object{user("hello")}}).want(201)
		var w struct {
			Pipeline []struct{ Outcome string }
		}
		c.post("/api/v1/projects/default/context", object{}).want(200).into(&w)
		p.kill()
		for _, step := range w.Pipeline {
			if step.Outcome != "ok" {
				t.Errorf("a step ended with %s", step.Outcome)
			}
		}
		if len(w.Pipeline) == 0 {
			t.Error("no policy ran")
		}
	}
}
