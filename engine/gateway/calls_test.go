package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/gateway"
	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/insight/stats"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// rows returns the newest decisions of the agent's session.
func (a *agent) rows() []decision.Row {
	a.Helper()
	list, err := a.Decisions.List(a.Context(), a.Admin, "default", decision.Filter{Session: a.session}, records.Page{Limit: 1000})
	if err != nil {
		a.Fatal(err)
	}
	return list.Data
}

// TestObserve checks that a call's own bytes are sent, and that the outcome is recorded.
func TestObserve(t *testing.T) {
	a := newAgent(t, chat.OpenAIChat, "gpt-4o", gateway.Observe)
	a.turn(1, 1, false)
	raw := a.body()
	a.ask("and now?")
	a.call(providers.Say("Nothing."))
	if bytes.Equal(a.sent[2], raw) || !bytes.Equal(a.sent[2], a.out.Body) {
		t.Fatal("the test sends something else than it thinks")
	}
	a.history = a.history[:len(a.history)-1]
	if want := a.body(); !bytes.Equal(a.sent[2], want) {
		t.Errorf("%s went on, the client had sent %s", a.sent[2], want)
	}
	rows := a.rows()
	if len(rows) != 3 || rows[0].Stored == nil || !*rows[0].Stored || rows[0].Call.Turn != 2 || rows[1].Call.Turn != 1 ||
		rows[2].Stored != nil || !strings.HasPrefix(rows[2].Reason, "open") || rows[0].Call.Mode != "observe" ||
		rows[0].Call.Usage == nil || rows[0].Call.Usage.Input == 0 || !rows[0].Proxied {
		t.Errorf("the decisions are %s", encode(t, rows))
	}
	shown, err := a.Trials.Decision(t.Context(), a.Admin, "default", rows[0].ID)
	if err != nil || shown.Report != nil || !shown.Proxied || shown.Call.Model != "gpt-4o" || shown.Settings.TokenScale != 1 {
		t.Errorf("%+v, %v", shown, err)
	}
	_, err = a.Windows.Replay(t.Context(), a.Admin, "default", rows[0].ID, nil)
	enginetest.RefusedWith(t, err, fault.Gone, "no_window")
}

// TestReplayOfWhatClientsWrite replays a window of messages whose bytes an encoder would change.
func TestReplayOfWhatClientsWrite(t *testing.T) {
	a := newAgent(t, chat.OpenAIChat, "gpt-4o", gateway.Assemble)
	a.turn(1, 0, false)
	a.ask("q")
	raw := json.RawMessage(`{ "role": "user", "content": "if a < b && b > c: \u003c" }`)
	out := a.prepare(func(ask *gateway.Ask) { ask.Pending = transcript.ElementsOf([]json.RawMessage{raw}) })
	if !bytes.Contains(out.Body, raw) {
		t.Fatalf("%s does not have the client's bytes", out.Body)
	}
	a.Replay(out.DecisionID)
}

// TestUnstored checks that each call that is not stored has a recorded reason.
func TestUnstored(t *testing.T) {
	for _, mode := range []string{gateway.Observe, gateway.Assemble} {
		a := newAgent(t, chat.OpenAIChat, "gpt-4o", mode)
		a.turn(1, 0, false)
		a.ask("again")
		out := a.prepare(nil)
		if err := a.Outbound.Finish(t.Context(), out, gateway.End{Status: 500, Reason: "upstream_error"}); err != nil {
			t.Fatal(err)
		}
		row := a.rows()[0]
		if row.ID != out.DecisionID || row.Stored == nil || *row.Stored || row.Reason != "upstream_error" || row.Call.Status != 500 {
			t.Errorf("%s: %s", mode, encode(t, row))
		}
	}
}

// prepare prepares the next call without sending it.
func (a *agent) prepare(change func(*gateway.Ask)) *gateway.Outgoing {
	a.Helper()
	out, err := a.tryPrepare(change)
	if err != nil {
		a.Fatal(err)
	}
	return out
}

func (a *agent) tryPrepare(change func(*gateway.Ask)) (*gateway.Outgoing, error) {
	a.Helper()
	b, err := wire.Read(a.format, a.body())
	if err != nil {
		a.Fatal(err)
	}
	ask := a.asking(b)
	if change != nil {
		change(ask)
	}
	return a.Outbound.Prepare(a.Context(), ask)
}

// TestReminders shows memories before the message that they were recalled for, and again in later calls: in recall mode
// among the client's own bytes, in assemble mode within the window. The client never sees them.
func TestReminders(t *testing.T) {
	for _, tt := range []struct {
		format chat.Format
		model  string
	}{{chat.OpenAIChat, "gpt-4o"}, {chat.OpenAIResponses, "gpt-5.6"}, {chat.AnthropicMessages, "claude-fable-5-2"}} {
		for _, mode := range []string{gateway.Recall, gateway.Assemble} {
			a := newAgent(t, tt.format, tt.model, mode)
			a.Keep("favourite_tea", "The user drinks jasmine tea.")
			thinks := tt.format == chat.AnthropicMessages
			a.ask("Which tea do I drink?")
			a.call(providers.Use("lookup", `{"order":1}`))
			a.answer("nothing found")
			a.call(providers.Say("Jasmine tea."))
			for n := 2; n < 6; n++ {
				a.turn(n, 1, thinks)
			}
			for i, body := range a.sent {
				if n := strings.Count(string(body), reminder.Title); n < 1 || i < 2 && n != 1 {
					t.Errorf("%v %s: call %d shows %d reminders: %s", tt.format, mode, i, n, body)
				}
			}
			if got := shared(t, a); got != 1 {
				t.Errorf("%v %s: prompts go on from the one before by %.3f", tt.format, mode, got)
			}
			if refused := a.provider.Refusals(); len(refused) > 0 {
				t.Errorf("%v %s: %v", tt.format, mode, refused[0])
			}
			for _, m := range a.history {
				if strings.Contains(string(m), reminder.Title) {
					t.Errorf("the client has %s", m)
				}
			}
			if mode == gateway.Recall { // without the reminders, the body is the client's own
				a.history = a.history[:len(a.history)-1]
				want := a.body()
				a.sent = append(a.sent[:0], withoutReminders(t, a.sent[len(a.sent)-1]), want)
				if x, y := canonical(t, a.sent[0]), canonical(t, want); x != y {
					t.Errorf("%v: %s\nwent on, the client sent\n%s", tt.format, x, y)
				}
			}
		}
	}
}

// withoutReminders removes the reminder messages from a body.
func withoutReminders(t testing.TB, raw []byte) []byte {
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"messages", "input"} {
		list, _ := body[name].([]any)
		if list == nil {
			continue
		}
		body[name] = slices.DeleteFunc(list, func(m any) bool { return strings.Contains(string(encode(t, m)), reminder.Title) })
	}
	return encode(t, body)
}

// canonical returns a body with sorted members and without null refusals, which windows leave out.
func canonical(t testing.TB, raw []byte) string {
	var v any
	if err := json.Unmarshal(bytes.ReplaceAll(raw, []byte(`"refusal":null,`), nil), &v); err != nil {
		t.Fatal(err)
	}
	return string(encode(t, v))
}

// TestNoWindow sends the client's own bytes if no window can be made, unless the project wants an error.
func TestNoWindow(t *testing.T) {
	a := newAgent(t, chat.OpenAIChat, "gpt-4o", gateway.Assemble)
	a.turn(1, 0, false)
	a.ask("next")
	failing := func(ask *gateway.Ask) { ask.Body.Tools = []json.RawMessage{json.RawMessage(`7`)} }
	out := a.prepare(failing)
	if out.Mode != gateway.Bypass || !bytes.Equal(out.Body, a.body()) || out.Windowed || out.HideUsage {
		t.Errorf("%s: %s", out.Mode, out.Body)
	}
	if err := a.Outbound.Finish(t.Context(), out, gateway.End{Status: 200, Turn: 2}); err != nil {
		t.Fatal(err)
	}
	if row := a.rows()[0]; row.Call.Mode != "bypass" || row.Call.Bypassed == "" {
		t.Errorf("the decision says %s", encode(t, row))
	}
	_, err := a.tryPrepare(func(ask *gateway.Ask) { failing(ask); ask.Closed = true })
	if _, ok := errors.AsType[*fault.Error](err); !ok {
		t.Errorf("a closed project's call ended with %v", err)
	}
}

// TestTooLong reports what does not fit, based on the sizes of the model.
func TestTooLong(t *testing.T) {
	a := newAgent(t, chat.OpenAIChat, "gpt-4o", gateway.Assemble)
	a.ask(strings.Repeat("far too long ", 5000))
	_, err := a.tryPrepare(func(ask *gateway.Ask) { ask.ContextTokens, ask.OutputTokens = 5000, 1000 })
	long, ok := errors.AsType[*gateway.TooLong](err)
	if !ok || long.Maximum != 4000 || long.Tokens < 15_000 || long.Tokens > 16_000 {
		t.Errorf("%v", err)
	}
}

// TestAgentsApart gives each agent of a session its own history. A sub-agent that has tools also sees the main agent's
// calls with their results, in the order of the conversation.
func TestAgentsApart(t *testing.T) {
	main := newAgent(t, chat.OpenAIChat, "gpt-4o", gateway.Assemble)
	sub := *main
	sub.name, sub.history, sub.sent, sub.system = "scout", nil, nil, "You scout."
	for n := 1; n <= 5; n++ {
		main.turn(n, 1, false)
		sub.turn(100+n, 1, false)
	}
	asked := sub.history
	sub.history = nil
	for n := range 5 {
		sub.history = append(append(sub.history, main.history[4*n+1:4*n+3]...), asked[4*n:4*n+4]...)
	}
	want := map[*agent]string{}
	for _, a := range []*agent{main, &sub} {
		a.ask("the end")
		want[a] = canonical(t, a.body())
	}
	sub.history = append(asked, sub.history[len(sub.history)-1])
	for _, a := range []*agent{main, &sub} {
		if got := canonical(t, a.prepare(nil).Body); got != want[a] {
			t.Errorf("%q: %s\nwent on, want\n%s", a.name, got, want[a])
		}
	}
}

// TestAgentsApartInEveryFormat has a main agent and a sub-agent that think and call tools in turns. Providers refuse none
// of the sub-agent's prompts, which have the main agent's calls with their results.
func TestAgentsApartInEveryFormat(t *testing.T) {
	for f, model := range map[chat.Format]string{chat.AnthropicMessages: "claude-fable-5-2", chat.OpenAIResponses: "gpt-5.6",
		chat.OpenAIChat: "gpt-4o"} {
		t.Run(f.String(), func(t *testing.T) {
			main := newAgent(t, f, model, gateway.Assemble)
			sub := *main
			sub.name, sub.history, sub.sent, sub.system = "scout", nil, nil, "You scout."
			for n := 1; n <= 5; n++ {
				main.turn(n, 2, f != chat.OpenAIChat)
				sub.turn(100+n, 2, f != chat.OpenAIChat)
			}
			sent := string(sub.sent[len(sub.sent)-1])
			for n := 1; n <= 5; n++ {
				if !strings.Contains(sent, fmt.Sprint(n*10)) || strings.Contains(sent, fmt.Sprintf("question %d:", n)) {
					t.Errorf("turn %d of the main agent in the sub-agent's prompt: %s", n, sent)
				}
			}
			if sent := string(main.sent[len(main.sent)-1]); strings.Contains(sent, "question 10") {
				t.Errorf("the main agent's prompt has the sub-agent's task: %s", sent)
			}
			if sub.retried+main.retried > 0 {
				t.Errorf("%d calls were refused and sent again", sub.retried+main.retried)
			}
		})
	}
}

// TestSystemMessagesStay keeps system messages between others where the client has them.
func TestSystemMessagesStay(t *testing.T) {
	a := newAgent(t, chat.OpenAIChat, "gpt-4o", gateway.Assemble)
	for n := 1; n <= 3; n++ {
		a.turn(n, 1, false)
		a.history = append(a.history, encode(t, map[string]any{"role": "system", "content": fmt.Sprintf("rule %d", n)}))
	}
	a.ask("the end")
	if got, want := canonical(t, a.prepare(nil).Body), canonical(t, a.body()); got != want {
		t.Errorf("%s\nwent on, the client has\n%s", got, want)
	}
}

// TestCalibration learns from a provider that counts 50 % more tokens.
func TestCalibration(t *testing.T) {
	a := newAgent(t, chat.OpenAIChat, "gpt-4o", gateway.Assemble)
	for n := 1; n <= 25; n++ {
		a.ask(strings.Repeat("some words to count ", n))
		out := a.prepare(nil)
		real := int64(out.After)*3/2 + 10
		if err := a.Outbound.Finish(t.Context(), out, gateway.End{Status: 200, Reason: "refusal",
			Usage: decision.Spent{Input: real, Cached: real / 2}}); err != nil {
			t.Fatal(err)
		}
		all, err := a.Decisions.Calibrations(t.Context(), "default", pinc(a))
		if err != nil || len(all) != 1 || all[0].Calls != uint64(n) || all[0].Sure != (n >= 20) {
			t.Fatalf("after %d calls: %+v, %v", n, all, err)
		}
		if n == 25 && (all[0].Ratio < 1.5 || all[0].Ratio > 1.53 || all[0].Spread > .05) {
			t.Errorf("%+v", all[0])
		}
	}
	counted, err := a.Stats.Series(t.Context(), a.Admin, "default", stats.Query{})
	figures := a.Outbound.Figures()
	if got := counted.Total.Calls; err != nil || got.Count != 25 || uint64(got.Usage.Input) != uint64(figures[0].Input) ||
		uint64(got.Usage.Cached) != uint64(figures[0].Cached) || got.Usage.Output != 0 {
		t.Errorf("%v, counted %+v, figures %+v", err, got, figures)
	}
	if len(figures) != 1 || figures[0].Cached == 0 || figures[0].Input/2 < figures[0].Cached || figures[0].Calls != 25 {
		t.Errorf("%+v", figures)
	}
}
