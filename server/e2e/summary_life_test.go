package e2e

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/openai/openaitest"
)

// act performs an action on the session's summary and reports whether one will be made.
func (s *summarised) act(action string) (queued bool) {
	s.t.Helper()
	var answer struct {
		ID     string
		Queued bool
	}
	s.post(s.path("/sessions/"+s.session+"/summary"), object{"action": action}).want(200).into(&answer)
	if answer.ID != s.session {
		s.t.Errorf("%s answers session %q", action, answer.ID)
	}
	return answer.Queued
}

// A refresh makes a new summary from the messages themselves, whatever the threshold is; the old one stays until then.
func testRefresh(t *testing.T, w *world) {
	s := w.begin(t, nil)
	s.Next(openaitest.Say("An answer that forgot everything."))
	s.talk(append(repeated(2, 20), 1)...)
	s.covered(ask{maxMessages: new(41)})
	s.await(29)
	s.talk(2, 2)
	release := make(chan struct{})
	s.Next(openaitest.Hold(release, openaitest.Digest))
	if !s.act("refresh") {
		t.Error("nothing is queued")
	}
	s.asked(2)
	if text, count := s.state(); count != 29 || text != "An answer that forgot everything." {
		t.Errorf("meanwhile %d messages: %q", count, text)
	}
	close(release)
	text := s.await(33)
	win := s.covered(ask{})
	if win.Summary == nil || win.Summary.Text != text || !slices.Equal(openaitest.Marks(text), upTo(1, 33)) {
		t.Errorf("summary %q, in the window %+v", text, win.Summary)
	}
	if got := s.Requests(); len(got) != 2 || got[1].Previous != "" || !slices.Equal(told(got[1]), upTo(1, 33)) {
		t.Errorf("asked %s", s.brief(got))
	}
	s.post(s.path("/sessions/"+s.session+"/summary"), object{"action": "forget"}).wantCode(422, "invalid_value")
	s.post(s.path("/sessions/"+s.session+"/summary"), object{"action": "reset", "now": true}).problem(422)
	s.post(s.path("/sessions/unknown/summary"), object{"action": "reset"}).problem(404)
	s.as(s.newKey("reader")).post(s.path("/sessions/"+s.session+"/summary"), object{"action": "reset"}).problem(403)
}

// A reset removes the summary: windows show the messages again. Decisions that used the summary still replay.
func testReset(t *testing.T, w *world) {
	s := w.begin(t, nil)
	s.talk(append(repeated(2, 20), 1)...)
	before := s.covered(ask{})
	s.await(29)
	with := s.covered(ask{})
	s.do("PATCH", s.path("/settings"), object{"summary_threshold": 100}).want(200)
	if s.act("reset") {
		t.Error("a reset queues a summary")
	}
	if text, count := s.state(); count != 0 {
		t.Errorf("after a reset %d messages: %q", count, text)
	}
	after := s.covered(ask{})
	if after.Summary != nil || !sameBytes(after.Messages, before.Messages) || with.Summary == nil {
		t.Errorf("summaries %+v, %+v; before %s\nafter %s", with.Summary, after.Summary, s.brief(before.Messages),
			s.brief(after.Messages))
	}
	for _, win := range []*window{before, with, after} {
		s.replay(t, win)
	}
	s.do("PATCH", s.path("/settings"), object{"summary_threshold": 40}).want(200)
	s.covered(ask{})
	s.await(29)
	if got := s.Requests(); len(got) != 2 || got[1].Previous != "" {
		t.Errorf("asked %s", s.brief(got))
	}
	s.act("reset")
	s.act("reset") // there is nothing to reset, which is not an error
}

// The tenant sees the usage of its summaries: of each call, including failed ones.
func testUsage(t *testing.T, w *world) {
	s := w.begin(t, nil)
	s.Next(failures()["500"], failures()["empty"])
	s.talk(append(repeated(2, 20), 1)...)
	s.covered(ask{})
	s.await(29)
	var usage struct {
		Summaries struct {
			Calls, Failures int
			TokensIn        int `json:"tokens_in"`
			TokensOut       int `json:"tokens_out"`
		}
	}
	s.get("/api/v1/usage").want(200).into(&usage)
	got := s.Requests()
	in := len(got[1].Body)/4 + len(got[2].Body)/4 // the empty answer had to be paid, too
	if u := usage.Summaries; u.Calls != 3 || u.Failures != 2 || u.TokensIn != in ||
		u.TokensOut != len(got[2].Answer)/4 {
		t.Errorf("%+v, want 3 calls, 2 failures, %d and %d tokens", u, in, len(got[2].Answer)/4)
	}
	s.as(s.newKey("agent")).get("/api/v1/usage").problem(403)
}

// TestSummaryOutlivesAKill kills the server during a call to the provider. The next server does the job again, once,
// and earlier decisions replay.
func TestSummaryOutlivesAKill(t *testing.T) {
	t.Parallel()
	if stores.start != nil {
		t.Skip("others may be at work on a shared database: the killed server's lease has to run out first, which " +
			"takes minutes; the engine's own tests hold that by their clock")
	}
	p := provider(t)
	data := t.TempDir()
	server := summarising(t, data, p)
	s := summarise(t, server, p, nil)
	s.talk(append(repeated(2, 20), 1)...)
	s.Next(openaitest.Hold(nil, openaitest.Digest))
	before := s.covered(ask{})
	s.asked(1)
	server.kill()
	server = summarising(t, data, p)
	s.client.url, s.client.log = server.url, server.log
	if text, count := s.state(); count != 0 && count != 29 { // the new process continues the job by itself
		t.Errorf("%d messages: %q", count, text)
	}
	s.covered(ask{}) // asks again, although a job is queued already
	s.await(29)
	if got := s.Requests(); len(got) != 2 || !got[0].Canceled || !slices.Equal(told(got[1]), upTo(1, 29)) {
		t.Errorf("asked %s", s.brief(got))
	}
	s.onceEach()
	s.replay(t, before)
	s.replay(t, s.covered(ask{}))
}

// TestDecisionsNameTheirSummary: a decision always shows the summary that it used, and replays equally after a later
// summary, after a refresh, and after a crash.
func TestDecisionsNameTheirSummary(t *testing.T) {
	t.Parallel()
	p := provider(t)
	data := t.TempDir()
	server := summarising(t, data, p)
	s := summarise(t, server, p, object{"summary_threshold": 10, "summary_keep_last": 4, "summary_mode": "wait"})
	type used struct {
		win  *window
		text string
	}
	var all []used
	decided := func() {
		t.Helper()
		for _, u := range all {
			s.replay(t, u.win)
			var d struct{ Summary *struct{ Text string } }
			s.get(s.path("/decisions/" + u.win.DecisionID)).want(200).into(&d)
			if d.Summary == nil && u.text != "" || d.Summary != nil && d.Summary.Text != u.text {
				t.Errorf("the decision shows %+v, it used %q", d.Summary, u.text)
			}
		}
	}
	versions := map[string]bool{}
	for range 20 {
		s.talk(2)
		win := s.covered(ask{})
		u := used{win: win}
		if win.Summary != nil {
			u.text = win.Summary.Text
			versions[u.text] = true
		}
		all = append(all, u)
	}
	if len(versions) < 3 {
		t.Fatalf("%d summaries", len(versions))
	}
	decided()
	s.Always(openaitest.Say("Made anew."))
	s.act("refresh")
	await(t, func() bool { text, _ := s.state(); return text == "Made anew." }, func() string { return "no refresh" })
	decided()
	server.kill()
	server = summarising(t, data, p)
	s.client.url, s.client.log = server.url, server.log
	decided()
	if text, _ := s.state(); text != "Made anew." {
		t.Errorf("after the crash the summary is %q", text)
	}
}

// TestSummariesAreFair: one tenant's many summaries do not delay another tenant's, and are all made in the end.
func TestSummariesAreFair(t *testing.T) {
	t.Parallel()
	p := provider(t)
	server := summarising(t, t.TempDir(), p)
	greedy, modest := summarise(t, server, p, nil), summarise(t, server, p, nil)
	release := make(chan struct{})
	greedy.Always(openaitest.Hold(release, openaitest.Digest))
	const sessions = 12
	for n := range sessions {
		one := *greedy
		one.conversation = converse(greedy.client, sprintf("s%d", n))
		one.talk(append(repeated(2, 20), 1)...)
		one.covered(ask{})
	}
	running := len(greedy.asked(2))
	modest.talk(append(repeated(2, 20), 1)...)
	modest.covered(ask{})
	modest.await(29) // while the other tenant's calls hang
	if n := len(greedy.Requests()); n >= sessions || n != running {
		t.Errorf("%d of %d calls of one tenant at once", n, sessions)
	}
	close(release)
	for n := range sessions {
		one := *greedy
		one.conversation = converse(greedy.client, sprintf("s%d", n))
		one.await(29)
	}
	if n := len(greedy.Requests()); n != sessions {
		t.Errorf("%d calls for %d sessions", n, sessions)
	}
}

// TestRateLimitsAreHonoured: while the provider asks for a pause, no tenant's requests are sent to it.
func TestRateLimitsAreHonoured(t *testing.T) {
	t.Parallel()
	p := provider(t)
	server := summarising(t, t.TempDir(), p)
	first, second := summarise(t, server, p, nil), summarise(t, server, p, nil)
	first.Next(openaitest.Status(http.StatusTooManyRequests, "rate_limit_exceeded", "Retry-After", "2"))
	first.talk(append(repeated(2, 20), 1)...)
	first.covered(ask{})
	limited := first.asked(1)[0].At
	await(t, func() bool { return strings.Contains(server.log.String(), "provider_rate_limited") }, func() string {
		return "the log says nothing of the limit:\n" + server.log.String()
	})
	second.talk(append(repeated(2, 20), 1)...)
	second.covered(ask{})
	for _, s := range []*summarised{first, second} {
		s.await(29)
		got := s.Requests()
		if waited := got[len(got)-1].At.Sub(limited); waited < 2*time.Second {
			t.Errorf("asked again after %v", waited)
		}
	}
	if n, m := len(first.Requests()), len(second.Requests()); n != 2 || m != 1 {
		t.Errorf("%d and %d calls", n, m)
	}
}

// TestProviderKeyStaysHidden: the key is not revealed even by a provider that repeats it in its errors.
func TestProviderKeyStaysHidden(t *testing.T) {
	t.Parallel()
	p := provider(t)
	data := t.TempDir()
	server := summarising(t, data, p)
	s := summarise(t, server, p, nil)
	s.Next(openaitest.Status(http.StatusUnauthorized, providerKey))
	s.talk(append(repeated(2, 20), 1)...)
	win := s.covered(ask{})
	s.asked(1)
	await(t, func() bool { return strings.Contains(server.log.String(), "provider_refused") }, func() string {
		return "the log says nothing of the failure:\n" + server.log.String()
	})
	if got := s.Requests()[0]; got.Authorization != "Bearer "+providerKey {
		t.Fatalf("the provider got %q", got.Authorization)
	}
	host := strings.TrimSuffix(strings.TrimPrefix(p.URL, "http://"), "/v1")
	hidden := func(what, text string) {
		t.Helper()
		for _, secret := range []string{providerKey, host} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %q: %s", what, secret, clip(text, 2000))
			}
		}
	}
	hidden("the log", server.log.String())
	for _, path := range []string{s.path("/decisions/" + win.DecisionID), s.path("/sessions/s"), s.path("/sessions"),
		s.path("/settings"),
		"/api/v1/usage", "/metrics", "/readyz", "/openapi.json", s.path("/sessions/s/export")} {
		hidden(path, string(s.get(path).want(200).body))
	}
	hidden("the audit", string(s.get("/api/v1/audit").want(200).body))
	hidden("the answer", string(encodeJSON(t, win)))
	hidden("a refresh", string(s.post(s.path("/sessions/s/summary"), object{"action": "refresh"}).want(200).body))
	server.stop(t)
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		stored, err := os.ReadFile(path)
		hidden(entry.Name(), string(stored))
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestNoProvider: without a provider, everything about summaries is refused or left out, and nothing else fails.
func TestNoProvider(t *testing.T) {
	s := own(t)
	s.do("PATCH", s.path("/settings"), object{"summary_enabled": true, "summary_mode": "wait", "summary_threshold": 4,
		"summary_keep_last": 2}).want(200)
	for range 5 {
		s.turn("s", user("hello"), assistant("hello")).want(201)
	}
	win := s.assemble(object{"session_id": "s", "explain": true})
	if win.Summary != nil || len(win.Messages) != 10 {
		t.Errorf("%d messages beside %+v", len(win.Messages), win.Summary)
	}
	s.post(s.path("/sessions/s/summary"), object{"action": "refresh"}).wantCode(409, "no_summariser")
	s.post(s.path("/sessions/s/summary"), object{"action": "reset"}).want(200)
}
