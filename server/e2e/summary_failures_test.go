package e2e

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/openai/openaitest"
)

// failures are the ways in which a provider can fail, one call each.
func failures() map[string]openaitest.Behaviour {
	return map[string]openaitest.Behaviour{
		"429":         openaitest.Status(http.StatusTooManyRequests, "rate_limit_exceeded"),
		"500":         openaitest.Status(http.StatusInternalServerError, "server_error"),
		"502 page":    openaitest.Raw(http.StatusBadGateway, "text/html", "<html>bad gateway</html>"),
		"cut":         openaitest.Cut,
		"dropped":     openaitest.Drop,
		"slow to cut": openaitest.After(200*time.Millisecond, openaitest.Cut),
		"empty":       openaitest.Say(""),
		"blank":       openaitest.Say(" \n "),
		"rubbish":     openaitest.Raw(http.StatusOK, "application/json", "%%% no JSON %%%"),
		"wrong JSON":  openaitest.Raw(http.StatusOK, "application/json", `{"choices":{"text":"x"}}`),
		"nothing":     openaitest.Raw(http.StatusOK, "application/json", ""),
		"cut short":   openaitest.Finish("length", "mark-1. to mark-29. and th"),
		"endless":     openaitest.Endless,
	}
}

// Whatever the provider does, windows are valid and nothing is lost or summarised twice. Afterwards the summary catches
// up.
func testFailures(t *testing.T, w *world) {
	sessions := map[string]*summarised{}
	for name, failure := range failures() {
		t.Run(name, func(t *testing.T) {
			s := w.begin(t, nil)
			s.Next(failure)
			s.talk(append(repeated(2, 20), 1)...)
			s.covered(ask{})
			s.asked(1)
			s.covered(ask{})
			sessions[name] = s
		})
	}
	for name, s := range sessions {
		t.Run(name+", later", func(t *testing.T) {
			s := s.in(t)
			s.talk(2, 2) // the conversation continues
			s.covered(ask{maxMessages: new(7)})
			text := s.await(29)
			s.covered(ask{})
			if got := s.Requests(); len(got) != 2 || !slices.Equal(told(got[1]), upTo(1, 29)) ||
				text != got[1].Answer ||
				got[1].Previous != "" {
				t.Errorf("asked %d times; the summary is %q", len(got), text)
			}
			s.onceEach()
		})
	}
}

// A provider fails every other time, each time in another way, while the conversation continues.
func testFailingAgain(t *testing.T, w *world) {
	s := w.begin(t, object{"summary_threshold": 8, "summary_keep_last": 3})
	names := []string{"500", "cut", "empty", "rubbish"}
	last := 0
	s.talk(2)
	for _, name := range names {
		s.Next(failures()[name])
		for range 4 {
			s.talk(2)
			s.covered(ask{})
			s.covered(ask{maxTokens: new(400)})
		}
		text, count := "", 0
		await(t, func() bool {
			s.covered(ask{})
			text, count = s.state()
			return count >= len(s.history.messages)-8
		}, func() string { return sprintf("after %q only %d messages are covered:\n%s", name, count, s.log) })
		if got := openaitest.Marks(text); count <= last || !slices.Equal(got, upTo(1, count)) {
			t.Errorf("after %q the summary of %d messages covers %v", name, count, got)
		}
		last = count
	}
	failed := 0
	for _, r := range s.Requests() {
		if blank(r.Answer) {
			failed++
		}
	}
	if failed != len(names) {
		t.Errorf("%d calls failed, %d were to", failed, len(names))
	}
	s.onceEach()
}

// Fifty simultaneous windows call the provider once. In the background mode none of them waits for it.
func testBurst(t *testing.T, w *world) {
	for _, mode := range []string{"background", "wait"} {
		s := w.begin(t, object{"summary_mode": mode, "summary_wait_ms": 60_000})
		s.talk(append(repeated(2, 20), 1)...)
		release := make(chan struct{})
		s.Next(openaitest.Hold(release, openaitest.Digest))
		var group sync.WaitGroup
		windows := make([]*window, 50)
		for i := range windows {
			group.Go(func() {
				var win window
				r, err := s.try("POST", s.path("/context"), encodeJSON(t, ask{}.body(s.session)))
				if err != nil || r.status != 200 {
					t.Errorf("%v %d %s", err, r.status, r.body)
					return
				}
				r.into(&win)
				windows[i] = &win
			})
		}
		if mode == "wait" {
			s.asked(1)
			close(release)
		}
		group.Wait() // in the background mode, while the provider's answer is still held back
		for _, win := range windows {
			if win == nil {
				t.FailNow()
			}
			if faults := append(check(&s.history, ask{}, win), s.promised(ask{}, win)...); len(faults) > 0 {
				t.Fatalf("%s: %s", mode, strings.Join(faults, "\n"))
			}
			if (win.Summary != nil) != (mode == "wait") {
				t.Errorf("%s: summary %+v", mode, win.Summary)
			}
		}
		if mode == "background" {
			s.asked(1)
			close(release)
		}
		s.await(29)
		s.covered(ask{})
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%s: %d calls", mode, n)
		}
	}
}

// In the mode wait, the window that requests a summary shows it.
func testWait(t *testing.T, w *world) {
	s := w.begin(t, object{"summary_mode": "wait"})
	s.talk(append(repeated(2, 20), 1)...)
	win := s.covered(ask{})
	if win.Summary == nil || !slices.Equal(openaitest.Marks(win.Summary.Text), upTo(1, 29)) ||
		win.Usage.HistoryMessages != 12 {
		t.Errorf("%d messages beside %+v", win.Usage.HistoryMessages, win.Summary)
	}
	s.replay(t, win)
}

// A window waits no longer than its limit, and does not wait for a provider that failed until that is called again.
func testWaitInVain(t *testing.T, w *world) {
	s := w.begin(t, object{"summary_mode": "wait", "summary_wait_ms": 300})
	s.talk(append(repeated(2, 20), 1)...)
	release := make(chan struct{})
	s.Next(openaitest.Hold(release, openaitest.Status(http.StatusServiceUnavailable, "")))
	from := time.Now()
	win := s.covered(ask{})
	if took := time.Since(from); win.Summary != nil || took < 300*time.Millisecond || took > 10*time.Second {
		t.Errorf("after %v: summary %+v", took, win.Summary)
	}
	close(release)
	for win = s.covered(ask{}); win.Summary == nil; win = s.covered(ask{}) {
		if time.Since(from) > patience {
			t.Fatalf("never caught up:\n%s", s.log)
		}
	}
	if n := len(s.Requests()); n != 2 {
		t.Errorf("%d calls", n)
	}
	s.onceEach()
}

// Messages of a delegation never reach the provider. They stay, or are dropped with a reason. They do not count, and
// only their own viewers and the main agent see them.
func testDelegations(t *testing.T, w *world) {
	s := w.begin(t, nil)
	look := func() {
		for _, a := range []ask{{}, {viewer: "del_1"}, {viewer: "del_2"}} {
			win := s.covered(a)
			for _, m := range s.summarised(win) {
				if m.Delegation != "" {
					t.Fatalf("message %d of %s is summarised", m.Seq, m.Delegation)
				}
			}
		}
	}
	for n := range 20 {
		s.talk(2)
		last := len(s.history.messages)
		if n%3 == 2 {
			s.sayAll(sprintf("del_%d", n%2+1), message("user", s.text(last+1)+" top secret"),
				toolCall("c"), toolResult("c", 1, s.text(last+3)+" top secret"),
				message("assistant", s.text(last+4)+" top secret"))
		}
		look()
	}
	s.talk(1)
	look()
	s.await(29)
	look()
	for _, r := range s.Requests() {
		if strings.Contains(string(r.Body), "top secret") {
			t.Errorf("the provider was told %s", r.Body)
		}
	}
	s.onceEach()
}
