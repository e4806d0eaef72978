package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/openai/openaitest"
)

// lines returns the lines of a session as flat text.
func (c *conversation) lines(session string) (out []string) {
	c.t.Helper()
	for l := range strings.SplitSeq(c.assemble(object{"session_id": session, "format": "text",
		"budget": object{"max_messages": 0}}).Text, "\n") {
		if l != "" {
			out = append(out, l)
		}
	}
	return out
}

// These are the depths of the document's table, and the ends of the range: that many turns are in full, and of the
// others the newest questions are shown, as far as a sixteenth of the budget holds them.
func seed003Depths(t *testing.T) {
	c := own(t)
	for n := 1; n <= 55; n++ {
		c.turn("s", user(fmt.Sprint("q", n)), assistant(fmt.Sprint("a", n))).want(201)
	}
	for _, depth := range []int{1, 5, 10, 15, 20, 30, 50, 100} {
		c.do("PATCH", c.path("/settings"), object{"session_history_depth": depth}).want(200)
		full, early, oldest := 0, 0, 0
		for _, l := range c.lines("s") {
			n := 0
			if strings.HasPrefix(l, "Assistant: ") {
				full++
			} else if strings.HasPrefix(l, "[earlier question] (turn ") {
				if _, err := fmt.Sscanf(l, "[earlier question] (turn %d): q%d", &n, &n); err != nil || oldest > 0 && n != oldest+early {
					t.Errorf("depth %d: %s after %d", depth, l, early)
				}
				if early++; early == 1 {
					oldest = n
				}
			}
		}
		if full != min(depth, 55) || early < min(55-full, 27) || early > 0 && oldest+early+full != 56 {
			t.Errorf("depth %d: %d turns in full, %d as their question, from %d on", depth, full, early, oldest)
		}
	}
	for _, depth := range []int{0, 101, -1} {
		c.do("PATCH", c.path("/settings"), object{"session_history_depth": depth}).problem(422)
	}
}

// "The boundary moves as the conversation grows."
func seed003Boundary(t *testing.T) {
	c := own(t)
	c.do("PATCH", c.path("/settings"), object{"session_history_depth": 2}).want(200)
	for n := 1; n <= 4; n++ {
		c.turn("s", user(fmt.Sprint("q", n)), assistant(fmt.Sprint("a", n))).want(201)
		var want []string
		for turn := 1; turn <= n; turn++ {
			if turn <= n-2 {
				want = append(want, fmt.Sprintf("[earlier question] (turn %d): q%d", turn, turn))
			} else {
				want = append(want, fmt.Sprintf("User (turn %d): q%d", turn, turn), fmt.Sprint("Assistant: a", turn))
			}
		}
		equal(t, fmt.Sprint("after turn ", n), c.lines("s"), want)
	}
}

// The window has what the model needs to answer "what about last quarter?" and "show me that by region".
func seed003FollowUps(t *testing.T) {
	c := own(t)
	c.turn("s", user("what was revenue this quarter?"), assistant("4.2 million")).want(201)
	c.turn("s", user("what about last quarter?"), assistant("3.9 million")).want(201)
	w := c.assemble(object{"session_id": "s", "pending": []object{user("show me that by region")}})
	equal(t, "window", spoken(t, w), []string{"user: what was revenue this quarter?", "assistant: 4.2 million",
		"user: what about last quarter?", "assistant: 3.9 million", "user: show me that by region"})
}

// "The purge operates at the conversation level: individual turns cannot be selectively deleted."
func seed003Hard(t *testing.T) {
	c := own(t)
	var made turnAnswer
	c.turn("s", user("x"), assistant("y")).want(201).into(&made)
	for _, path := range []string{"/sessions/s/messages", "/sessions/s/messages/" + made.Messages[0].ID,
		"/sessions/s/turns/1", "/turns/1"} {
		if r := c.do("DELETE", c.path(path), nil); r.status != 404 && r.status != 405 {
			t.Errorf("DELETE %s: %d", path, r.status)
		}
	}
	equal(t, "still there", spoken(t, c.assemble(object{"session_id": "s"})), []string{"user: x", "assistant: y"})
}

// "Defaults to false", 40, 12, and the primary model.
func seed004Defaults(t *testing.T) {
	c := own(t)
	var s struct {
		Enabled   bool `json:"summary_enabled"`
		Threshold int  `json:"summary_threshold"`
		KeepLast  int  `json:"summary_keep_last"`
		Model     any  `json:"summary_model"`
	}
	c.get(c.path("/settings")).want(200).into(&s)
	if s.Enabled || s.Threshold != 40 || s.KeepLast != 12 || s.Model != nil && s.Model != "" {
		t.Errorf("settings %+v", s)
	}
}

// "When summarisation is disabled the manager simply returns all stored messages verbatim."
func seed004Disabled(t *testing.T) {
	p := provider(t)
	s := summarise(t, summarising(t, t.TempDir(), p), p, object{"summary_enabled": false, "session_history_depth": 100})
	s.talk(repeated(2, 30)...)
	none := 0
	if w := s.covered(ask{maxMessages: &none, maxTokens: &none, depth: 100}); w.Summary != nil ||
		w.Usage.HistoryMessages != 60 {
		t.Errorf("%d of 60 messages, summary %+v", w.Usage.HistoryMessages, w.Summary)
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// The manager loads all turns. Above the threshold, it makes one call for everything but the newest keepLast, persists
// text and count, and returns the summary as a system message with the unsummarised turns. The session shows text and
// count, and a restart loses neither.
func seed004Manager(t *testing.T) {
	p, data := provider(t), t.TempDir()
	server := summarising(t, data, p)
	s := summarise(t, server, p, nil)
	s.talk(repeated(2, 20)...)
	if w := s.covered(ask{}); w.Summary != nil || w.Usage.HistoryMessages != 40 || len(s.Requests()) != 0 {
		t.Fatalf("at the threshold: %d messages, %+v", w.Usage.HistoryMessages, w.Summary)
	}
	s.talk(2)
	s.covered(ask{})
	text := s.await(30)
	if calls := s.Requests(); len(calls) != 1 || !slices.Equal(told(calls[0]), upTo(1, 30)) {
		t.Errorf("the calls: %s", s.brief(calls))
	}
	check := func() {
		t.Helper()
		w := s.covered(ask{})
		got := spoken(t, w)
		if len(got) != 13 || !strings.HasPrefix(got[0], "system: ") || !strings.Contains(got[0], text) ||
			w.Usage.HistoryMessages != 12 {
			t.Errorf("the working context is %q", got)
		}
		if shown, count := s.state(); shown != text || count != 30 {
			t.Errorf("the session shows %q over %d messages", shown, count)
		}
	}
	check()
	server.stop(t)
	again := summarising(t, data, p)
	s.url = again.url
	check()
}

// "Summarisation failures leave the existing summary untouched and fall back to the full transcript."
func seed004Failure(t *testing.T) {
	p := provider(t)
	s := summarise(t, summarising(t, t.TempDir(), p), p, nil)
	s.Next(openaitest.Status(500, "server_error"))
	s.talk(repeated(2, 21)...)
	s.covered(ask{})
	s.asked(1)
	if w := s.covered(ask{}); w.Summary != nil || w.Usage.HistoryMessages != 42 {
		t.Errorf("%d of 42 messages, summary %+v", w.Usage.HistoryMessages, w.Summary)
	}
	text := s.await(30) // it is tried again automatically
	calls := len(s.Requests())
	s.Always(openaitest.Status(500, "server_error"))
	s.talk(repeated(2, 15)...)
	s.covered(ask{})
	s.asked(calls + 1)
	if w := s.covered(ask{}); w.Summary == nil || w.Summary.Text != text || w.Usage.HistoryMessages != 42 {
		t.Errorf("%d of 42 messages, summary %+v", w.Usage.HistoryMessages, w.Summary)
	}
	if now, count := s.state(); now != text || count != 30 {
		t.Errorf("a failed call left %q over %d", now, count)
	}
}

// These models are named in requests, depending on what is overridden.
func seed004Overrides(t *testing.T) {
	p, unused := provider(t), provider(t)
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	for want, variables := range map[string][]string{
		"primary": {"OPENAI_API_KEY=" + providerKey, "OPENAI_BASE_URL=" + p.URL, "OPENAI_MODEL=primary"},
		"summariser": {"OPENAI_API_KEY=" + providerKey, "OPENAI_BASE_URL=" + unused.URL, "OPENAI_MODEL=primary",
			"OPENAI_SUMMARY_URL=" + p.URL, "OPENAI_SUMMARY_MODEL=summariser"},
	} {
		server, err := launchWith(binary, t.TempDir(), variables)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.kill)
		s := summarise(t, server, p, nil)
		s.talk(repeated(2, 21)...)
		s.covered(ask{})
		s.await(30)
		if calls := s.Requests(); len(calls) != 1 || calls[0].Model != want {
			t.Errorf("%s: the calls: %s", want, s.brief(calls))
		}
	}
}

// "Session replays are deterministic."
func seed004Replays(t *testing.T) {
	p := provider(t)
	s := summarise(t, summarising(t, t.TempDir(), p), p, nil)
	var windows []*window
	for range 4 {
		s.talk(repeated(2, 11)...)
		windows = append(windows, s.covered(ask{}))
	}
	s.await(76)
	for _, w := range append(windows, s.covered(ask{})) {
		for range 2 {
			s.replay(t, w)
		}
	}
}
