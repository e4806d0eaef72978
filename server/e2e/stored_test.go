package e2e

import "testing"

// stored reads the session at a path page by page and returns each turn's text. Turns must be complete and consecutive.
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
		c.get(session + "/messages?limit=100&order=asc" + cursor).want(200).into(&page)
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

// TestGracefulStop stops the server as an operator does: it exits cleanly, and the next one continues where it was.
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

// TestRelativeDataFolder starts the server as the README does: its data folder is relative to the working directory.
func TestRelativeDataFolder(t *testing.T) {
	binary, err := mneme.build() // before the working directory changes, because the build uses a relative path
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for range 2 { // the folder is created the first time, and found the second time
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
