package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/openai/openaitest"
	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// providerKey is the key of every summary provider in these tests. Only the provider may ever see it.
const providerKey = "sk-provider-key-of-the-acceptance-tests"

// summarising starts a new server on a data folder, which uses the provider for summaries.
func summarising(t testing.TB, data string, provider *openaitest.Server) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mneme.yaml")
	config := "openai_summary_api_key: " + providerKey + "\nopenai_summary_url: " + provider.URL +
		"\nopenai_model: small\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, data, "--config", file)
}

func provider(t testing.TB) *openaitest.Server {
	t.Helper()
	p := openaitest.Start()
	t.Cleanup(p.Close)
	return p
}

// summarised is a conversation whose messages are marked with their numbers, so that a summary's text tells which
// messages it covers, and the provider's script for it.
type summarised struct {
	*conversation
	*openaitest.Script
	topic string
	sizes []int // of the turns said so far
}

// summarise begins a conversation in a new tenant, with summaries on and with further settings.
func summarise(t testing.TB, server *process, p *openaitest.Server, settings object) *summarised {
	t.Helper()
	root := server.client(t).as(rootKey)
	tenant := mneme.unique("tenant")
	var made struct {
		AdminKey string `json:"admin_key"`
	}
	root.post("/api/v1/tenants", object{"id": tenant, "name": tenant}).want(201).into(&made)
	all := object{"summary_enabled": true}
	for k, v := range settings {
		all[k] = v
	}
	c := root.as(made.AdminKey)
	c.do("PATCH", "/api/v1/projects/default/settings", all).want(200)
	s := &summarised{conversation: converse(c, "s"), topic: mneme.unique("topic")}
	s.Script = p.About(s.topic + ".")
	return s
}

// in returns the same conversation, reporting to a subtest.
func (s *summarised) in(t testing.TB) *summarised {
	c := *s.conversation
	c.t = t
	return &summarised{&c, s.Script, s.topic, s.sizes}
}

// text returns the text of the n-th message.
func (s *summarised) text(n int) string {
	return "About " + s.topic + ". this was said: " + openaitest.Mark(n) + " Remember it."
}

// talk posts turns with the given numbers of messages, which alternate between user and assistant.
func (s *summarised) talk(sizes ...int) {
	s.t.Helper()
	for _, size := range sizes {
		var messages []*hard.Message
		for n := len(s.history.messages) + 1; len(messages) < size; n++ {
			messages = append(messages, message([]string{"assistant", "user"}[n%2], s.text(n)))
		}
		s.sayAll("", messages...)
	}
}

// sayAll posts messages as one turn, in a delegation or in none.
func (s *summarised) sayAll(delegation string, messages ...*hard.Message) {
	s.t.Helper()
	turn := hard.Turn{Number: s.history.turns + 1, Format: hard.Chat, Delegation: delegation, Messages: messages}
	for _, m := range messages {
		m.Seq, m.Turn, m.Delegation = len(s.history.messages)+len(turn.Input)+1, turn.Number, delegation
		m.Atom += m.Seq
		if m.Parts == nil && m.Calls == nil {
			s.t.Fatalf("message %d says nothing", m.Seq)
		}
		turn.Input = append(turn.Input, m.Posted)
	}
	s.say(turn)
	s.sizes = append(s.sizes, len(messages))
}

// message returns one message of a turn. Its Atom is the distance back to the message that it belongs to.
func message(role, text string) *hard.Message {
	posted, _ := json.Marshal(object{"role": role, "content": text})
	return &hard.Message{Role: role, Parts: []hard.Part{{Text: text}}, Posted: posted}
}

// toolCall returns a call. answer returns the result of a call that many messages back.
func toolCall(id string) *hard.Message {
	posted, _ := json.Marshal(calling(id, "look", "{}"))
	return &hard.Message{Role: "assistant", Calls: []hard.Call{{ID: id, Name: "look", Arguments: "{}"}}, Posted: posted}
}

func toolResult(id string, back int, text string) *hard.Message {
	posted, _ := json.Marshal(result(id, text))
	return &hard.Message{Role: "tool", CallID: id, Atom: -back, Parts: []hard.Part{{Text: text}}, Posted: posted}
}

// covered asks for a window, checks it, and checks the promise of summaries by content: each stored message is in the
// window, or covered by the summary shown, or dropped with a reason.
func (s *summarised) covered(a ask) *window {
	s.t.Helper()
	w := s.window(a)
	if w == nil {
		return nil
	}
	if faults := s.promised(a, w); len(faults) > 0 {
		s.t.Fatalf("%d messages:\n  %s\nsummary: %+v\nwindow: %s\nreport: %s", len(s.history.messages),
			strings.Join(faults, "\n  "), w.Summary, s.brief(w.Messages), s.brief(w.Report))
	}
	return w
}

// promised checks the promise of summaries for a valid window.
func (s *summarised) promised(a ask, w *window) (faults []string) {
	bad := func(format string, args ...any) { faults = append(faults, sprintf(format, args...)) }
	list, _ := flatten(a.target(), w.Messages)
	said, noticed := "", w.System
	for _, e := range list {
		if e.role == "system" || e.role == "developer" {
			noticed += e.text
		} else {
			said += e.text + "\n"
		}
	}
	summary := ""
	if w.Summary != nil {
		if summary = w.Summary.Text; !strings.Contains(noticed, summary) {
			bad("the summary %q is told, but not in the window", summary)
		}
	}
	inWindow, inSummary := openaitest.Marks(said), openaitest.Marks(summary)
	rows := map[string]row{}
	beyond := 0
	for _, r := range w.Report {
		rows[r.MessageID] = r
		beyond += r.Count
	}
	for i, m := range s.history.messages {
		marks := openaitest.Marks(joined(m))
		if len(marks) == 0 {
			continue // a call is treated with its results
		}
		shown, summed := slices.Contains(inWindow, marks[0]), slices.Contains(inSummary, marks[0])
		r, considered := rows[s.history.ids[i]]
		switch {
		case m.Delegation != "" && summed:
			bad("message %d of %q is in the summary", i+1, m.Delegation)
		case !considered:
			beyond--
		case r.Action == "summarise" && (!summed || shown):
			bad("message %d counts as covered; in the summary: %v, in the window: %v", i+1, summed, shown)
		case r.Action == "drop" && r.ReasonCode == "":
			bad("message %d is dropped without a reason", i+1)
		case stays(r.Action) && !shown:
			bad("message %d is %s, and not in the window", i+1, r.Action)
		}
	}
	if beyond != 0 {
		bad("%d messages beyond the horizon are not told", -beyond)
	}
	return faults
}

func joined(m *hard.Message) string { return strings.Join(texts(m), "\n") }

// state returns the summary and the number of messages that it covers, as the session shows them.
func (s *summarised) state() (text string, count int) {
	s.t.Helper()
	var session struct {
		Summary         *string
		SummarizedCount int `json:"summarized_count"`
	}
	s.get(s.path("/sessions/" + s.session)).want(200).into(&session)
	if (session.Summary == nil) != (session.SummarizedCount == 0) {
		s.t.Fatalf("summary %v and count %d do not go together", session.Summary, session.SummarizedCount)
	}
	if session.Summary != nil {
		text = *session.Summary
	}
	return text, session.SummarizedCount
}

// await waits until the session's summary covers the given number of messages.
func (s *summarised) await(count int) (text string) {
	s.t.Helper()
	got := 0
	awaitFor(s.t, patience, func() bool { text, got = s.state(); return got == count }, func() string {
		return sprintf("the summary covers %d messages, want %d; the provider was asked %d times:\n%s",
			got, count, len(s.Requests()), s.log)
	})
	return text
}

// await waits until a condition holds. The condition depends on background work that sends no signal.
func await(t testing.TB, holds func() bool, fault func() string) {
	t.Helper()
	awaitFor(t, patience, holds, fault)
}

func awaitFor(t testing.TB, most time.Duration, holds func() bool, fault func() string) {
	t.Helper()
	for end := time.Now().Add(most); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(fault())
		}
	}
}

// asked waits until the provider was called the given number of times, and returns the requests.
func (s *summarised) asked(times int) []openaitest.Request {
	s.t.Helper()
	await(s.t, func() bool { return len(s.Requests()) >= times }, func() string {
		return sprintf("the provider was asked %d times, want %d:\n%s", len(s.Requests()), times, s.log)
	})
	return s.Requests()
}

// told returns the marks of the messages in a request to the provider, in order.
func told(r openaitest.Request) (marks []int) {
	for _, m := range r.Messages {
		marks = append(marks, openaitest.Marks(m.Text)...)
	}
	return marks
}

// onceEach checks that no message is in two summaries that were answered, except through the previous summary.
func (s *summarised) onceEach() {
	s.t.Helper()
	seen := map[int]int{}
	for i, r := range s.Requests() {
		if blank(r.Answer) {
			continue
		}
		before := openaitest.Marks(r.Previous)
		for _, n := range told(r) {
			if first, twice := seen[n]; twice || slices.Contains(before, n) {
				s.t.Errorf("request %d summarises message %d again (first in %d; the summary before has it: %v)",
					i, n, first, slices.Contains(before, n))
			}
			seen[n] = i
		}
	}
}

// upTo returns the numbers from first to last.
func upTo(first, last int) (out []int) {
	for n := first; n <= last; n++ {
		out = append(out, n)
	}
	return out
}

// repeated returns n turns of the same size.
func repeated(size, n int) []int { return slices.Repeat([]int{size}, n) }
