package e2e

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/openai/openaitest"
	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// TestSummaries shares one server and one provider among the tests that stop neither.
func TestSummaries(t *testing.T) {
	p := provider(t)
	server := summarising(t, t.TempDir(), p)
	for name, test := range map[string]func(t *testing.T, w *world){
		"threshold": testThreshold, "up to the threshold": testUpToTheThreshold, "cuts": testCuts, "chunks": testChunks,
		"burst": testBurst, "wait": testWait, "wait in vain": testWaitInVain, "failures": testFailures,
		"failing again and again": testFailingAgain, "delegations": testDelegations, "refresh": testRefresh,
		"reset": testReset,
		"off":   testOff, "hard transcripts": testHardTranscripts, "usage": testUsage,
		"beside memories": testBesideMemories,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &world{server, p})
		})
	}
}

// world is what the tests of summaries share.
type world struct {
	server   *process
	provider *openaitest.Server
}

// begin begins a conversation in a new tenant, with summaries on and with further settings.
func (w *world) begin(t testing.TB, settings object) *summarised {
	t.Helper()
	return summarise(t, w.server, w.provider, settings)
}

// With 41 messages, one call summarises the oldest 29. There is no other call until more than 40 are uncovered again,
// and that call continues from the previous summary.
func testThreshold(t *testing.T, w *world) {
	s := w.begin(t, nil)
	s.talk(repeated(2, 20)...)
	s.covered(ask{})
	s.talk(1)
	if win := s.covered(ask{}); win.Summary != nil {
		t.Errorf("a summary without a call: %+v", win.Summary)
	}
	first := s.await(29)
	if win := s.covered(ask{}); win.Summary == nil || win.Summary.Text != first ||
		!slices.Equal(win.Summary.CoversTurns, []int{1, 15}) ||
		win.Usage.HistoryMessages != 12 {
		t.Errorf("%d messages of history beside the summary %+v", win.Usage.HistoryMessages, win.Summary)
	}
	for len(s.history.messages) < 69 {
		s.talk(2)
		s.covered(ask{})
	}
	if n := len(s.Requests()); n != 1 {
		t.Fatalf("%d calls before more than 40 messages were uncovered again", n)
	}
	s.talk(1)
	s.covered(ask{})
	second := s.await(58)
	got := s.Requests()
	if len(got) != 2 || !slices.Equal(told(got[0]), upTo(1, 29)) || got[0].Previous != "" ||
		!slices.Equal(told(got[1]), upTo(30, 58)) || got[1].Previous != first || got[1].Model != "small" {
		t.Errorf("the calls: %s", s.brief(got))
	}
	if !slices.Equal(openaitest.Marks(second), upTo(1, 58)) {
		t.Errorf("the second summary is %q", second)
	}
	for _, format := range hard.Formats() {
		s.covered(ask{format: format})
	}
	s.onceEach()
}

// Memories follow the summary, each in a message of its own, or both in Anthropic's system text.
func testBesideMemories(t *testing.T, w *world) {
	s := w.begin(t, nil)
	known := s.knowledge()
	s.talk(repeated(2, 21)...)
	s.covered(ask{})
	summary := s.await(30)
	for _, format := range hard.Formats() {
		win := s.covered(ask{format: format, system: "Be brief.", memories: &remembering{query: "Ada Lisbon", limit: 4,
			known: known}})
		if win.Summary == nil || win.Summary.Text != summary || len(win.Memories) == 0 || !win.Memories[0].Injected {
			t.Errorf("%s: summary %+v, memories %+v", format, win.Summary, win.Memories)
		}
		s.replay(t, win)
	}
}

// With 13 to 40 messages the whole transcript is in the window, and the provider is not called.
func testUpToTheThreshold(t *testing.T, w *world) {
	for _, first := range []int{1, 2} {
		s := w.begin(t, nil)
		for s.talk(first); ; s.talk(2) {
			if win := s.covered(ask{}); win.Usage.HistoryMessages != len(s.history.messages) || win.Summary != nil {
				t.Errorf("%d of %d messages, summary %v", win.Usage.HistoryMessages, len(s.history.messages),
					win.Summary)
			}
			if len(s.history.messages) >= 39 {
				break
			}
		}
		if n := len(s.Requests()); n != 0 {
			t.Errorf("%d calls", n)
		}
	}
}

// If covering 29 would split an atom, or include the newest question, fewer are covered.
func testCuts(t *testing.T, w *world) {
	for _, c := range []struct {
		name string
		say  func(s *summarised)
		want int
	}{
		{"a call and its results", func(s *summarised) {
			s.talk(repeated(2, 13)...)
			s.sayAll("", message("user", s.text(27)), toolCall("c"), toolResult("c", 1, s.text(29)))
			s.sayAll("", toolCall("d"), toolResult("d", 1, s.text(31)), message("assistant", s.text(32)))
			s.sayAll("", message("user", s.text(33)))
			s.talk(repeated(2, 4)...)
		}, 29},
		{"a result behind the cut", func(s *summarised) {
			s.talk(repeated(2, 13)...)
			s.sayAll("", message("user", s.text(27)), toolCall("c"))
			s.sayAll("", message("user", s.text(29)))
			s.sayAll("", toolResult("c", 2, s.text(30)), message("user", s.text(31)), message("assistant", s.text(32)))
			s.sayAll("", message("user", s.text(33)))
			s.talk(repeated(2, 4)...)
		}, 27},
		{"the newest question", func(s *summarised) {
			s.talk(repeated(2, 9)...)
			s.sayAll("", message("user", s.text(19)))
			for n := 20; n <= 41; n++ {
				s.sayAll("", message("assistant", s.text(n)))
			}
		}, 18},
	} {
		s := w.begin(t, nil)
		c.say(s)
		if n := len(s.history.messages); n != 41 {
			t.Fatalf("%s: %d messages", c.name, n)
		}
		s.covered(ask{})
		text := s.await(c.want)
		s.covered(ask{})
		if got := openaitest.Marks(text); got[len(got)-1] > c.want || slices.ContainsFunc(told(s.Requests()[0]),
			func(n int) bool { return n > c.want }) {
			t.Errorf("%s: the summary of %d messages is %q", c.name, c.want, text)
		}
		s.onceEach()
		s.Next(openaitest.Say("Made anew.")) // a refresh cuts at the same place, without a policy
		s.act("refresh")
		count := 0
		await(t, func() bool { text, count = s.state(); return text == "Made anew." },
			func() string { return "no refresh" })
		if count != c.want {
			t.Errorf("%s: a refresh covers %d messages, want %d", c.name, count, c.want)
		}
	}
}

// Messages that are too many for one call are summarised in chunks. Very long messages are cut between characters, with
// a mark.
func testChunks(t *testing.T, w *world) {
	s := w.begin(t, object{"summary_threshold_tokens": 1 << 30})
	for n := 1; n <= 41; n++ {
		long := s.text(n)
		for range 120 {
			long += " žlutý kůň běží přes 草原."
		}
		if n == 3 {
			for range 12 {
				long += long[len(long)/2:]
			}
			long = strings.ToValidUTF8(clip(long, 200_000), "")
		}
		s.sayAll("", message([]string{"assistant", "user"}[n%2], long))
	}
	s.covered(ask{})
	text := s.await(29)
	s.covered(ask{})
	got := s.Requests()
	if len(got) < 2 || !slices.Equal(openaitest.Marks(text), upTo(1, 29)) {
		t.Errorf("%d calls made %q", len(got), text)
	}
	for i, r := range got[1:] {
		if r.Previous != got[i].Answer {
			t.Errorf("call %d goes on from %q, not from %q", i+1, r.Previous, got[i].Answer)
		}
	}
	third := got[0].Messages[2].Text
	if posted := joined(s.history.messages[2]); len(third) >= len(posted)/2 ||
		strings.ContainsRune(third, utf8.RuneError) ||
		!strings.Contains(third, " bytes left out …]") ||
		!slices.Equal(openaitest.Marks(third), []int{3}) {
		t.Errorf("of %d bytes the provider got %d: %s", len(posted), len(third), clip(third, 300))
	}
	s.onceEach()
}

// Without summary_enabled the provider is not called, whatever is stored, and an existing summary is no longer shown.
func testOff(t *testing.T, w *world) {
	s := w.begin(t, nil)
	s.talk(append(repeated(2, 20), 1)...)
	s.covered(ask{})
	s.await(29)
	s.do("PATCH", s.path("/settings"), object{"summary_enabled": false}).want(200)
	s.talk(repeated(2, 20)...)
	if win := s.covered(ask{}); win.Summary != nil {
		t.Errorf("summary %+v", win.Summary)
	}
	if n := len(s.Requests()); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// Difficult transcripts in every format, with summaries on: every window is valid and replays, and every summarised
// message was sent to the provider and belongs to no delegation.
func testHardTranscripts(t *testing.T, w *world) {
	for i, format := range hard.Formats() {
		s := w.begin(t, object{"summary_threshold": 12, "summary_keep_last": 4, "summary_mode": "wait"})
		transcript := hard.Generate(hard.Knobs{Seed: uint64(i), Format: format, Messages: 160, Longest: 3000,
			Delegations: true})
		summaries := 0
		for i, turn := range transcript.Turns {
			s.say(turn)
			a := ask{format: hard.Formats()[i%3]}
			if named := transcript.Delegations(); i%4 == 3 && len(named) > 0 {
				a.viewer = named[i%len(named)]
			}
			win := s.window(a)
			if win == nil || win.Summary == nil {
				continue
			}
			summaries++
			s.replay(t, win)
			told := provided(w.provider.Requests()) // their texts are random and have no topic
			for _, m := range s.summarised(win) {
				if text := clip(strings.TrimSpace(joined(m)), 20); m.Delegation != "" ||
					!strings.Contains(told, strings.ToValidUTF8(strings.TrimSuffix(text, "…"), "")) {
					t.Fatalf("%s: message %d of delegation %q is summarised: %q", format, m.Seq, m.Delegation, text)
				}
			}
		}
		if _, count := s.state(); count == 0 || summaries == 0 {
			t.Errorf("%s: nothing was summarised", format)
		}
	}
}

// provided returns everything that was sent to the provider.
func provided(requests []openaitest.Request) string {
	var b strings.Builder
	for _, r := range requests {
		for _, m := range r.Messages {
			b.WriteString(m.Text + "\n")
		}
	}
	return b.String()
}

// summarised returns the messages that a window's report calls covered.
func (s *summarised) summarised(w *window) (out []*hard.Message) {
	rows := map[string]row{}
	for _, r := range w.Report {
		rows[r.MessageID] = r
	}
	for i, m := range s.history.messages {
		if rows[s.history.ids[i]].Action == "summarise" {
			out = append(out, m)
		}
	}
	return out
}
