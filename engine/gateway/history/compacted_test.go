package history_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
)

// TestCodexCompacts follows a session of Codex, which keeps only the user's messages when it compacts and appends its
// summary. It compacts twice: the second time the request begins as it did after the first summary, which is not an
// edit.
func TestCodexCompacts(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s", ask: history.Ask{Compacts: true}}
	is := is(t, c)
	x, s := c.exchange(assistant("Hello."), user("Here."), user("Hi"))
	is(x, s, align.New, "s", "Here.", "Hi", "Hello.")
	c.exchange(assistant("Two."), user("Second"))

	c.ask.Compacted = true
	c.history = []string{user("Hi"), user("Here."), user("Second"), user("Summary 1")}
	x, s = c.exchange(assistant("Three."), user("Third"))
	is(x, s, align.Tail, "s", "Here.", "Hi", "Hello.", "Second", "Two.", "Summary 1", "Third", "Three.")
	c.history = c.history[:len(c.history)-1] // The answer was lost on the way.
	x, s = c.exchange(assistant("3."))
	is(x, s, align.Rewind, "s", "Here.", "Hi", "Hello.", "Second", "Two.", "Summary 1", "Third", "3.")
	c.exchange(call("a", "f"), user("Fourth"))
	x, s = c.exchange(assistant("4."), result("a", "ok"))
	is(x, s, align.Tail, "s", "Here.", "Hi", "Hello.", "Second", "Two.", "Summary 1", "Third", "3.", "Fourth", "", "ok",
		"4.")

	c.history = []string{user("Hi"), user("Second"), user("Third"), user("Here."), user("Fourth"), user("Summary 2")}
	x, s = c.exchange(assistant("5."), user("Third")) // The user says something again.
	is(x, s, align.Tail, "s", "Here.", "Hi", "Hello.", "Second", "Two.", "Summary 1", "Third", "3.", "Fourth", "", "ok",
		"4.", "Summary 2", "Third", "5.")
}

// TestCodexCompactsInWindows makes windows from the stored history, where summarised messages must not come back. Each
// summary begins a fork and supersedes nothing.
func TestCodexCompactsInWindows(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s", ask: history.Ask{Compacts: true, Windowed: true}}
	is := is(t, c)
	c.exchange(assistant("Hello."), user("Here."), user("Hi"))
	c.ask.Compacted = true
	c.history = []string{user("Hi"), user("Summary 1")}
	x, s := c.exchange(assistant("Two."), user("Second"))
	is(x, s, align.None, "s~1", "Hi", "Summary 1", "Second", "Two.")
	c.history = []string{user("Hi"), user("Second"), user("Summary 2")}
	x, s = c.exchange(assistant("Three."), user("Third"))
	is(x, s, align.None, "s~2", "Hi", "Second", "Summary 2", "Third", "Three.")
	x, s = c.exchange(assistant("Four."), user("Fourth"))
	is(x, s, align.Extend, "s~2", "Hi", "Second", "Summary 2", "Third", "Three.", "Fourth", "Four.")
	c.Lives("s", "Here.", "Hi", "Hello.")
	c.Lives("s~1", "Hi", "Summary 1", "Second", "Two.")
}

// TestClaudeCodeCompacts follows a session of Claude Code, which keeps the newest answer after its summary.
func TestClaudeCodeCompacts(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s", ask: history.Ask{Compacts: true}}
	is := is(t, c)
	c.exchange(assistant("Done."), user("Hi"))
	c.exchange(assistant("Done."), user("Go on"))
	c.history = []string{user("Summary"), assistant("Done.")}
	x, s := c.exchange(assistant("Three."), user("Go on"))
	is(x, s, align.Tail, "s", "Hi", "Done.", "Go on", "Done.", "Go on", "Three.")
	c.history = c.history[:3]
	x, s = c.exchange(assistant("3."))
	is(x, s, align.Rewind, "s", "Hi", "Done.", "Go on", "Done.", "Go on", "3.")

	// A request that goes back further than the newest turn, or is edited, is not a summary.
	c.history = []string{user("Summary"), assistant("Done."), user("Go on"), assistant("Else."), user("Go on")}
	x, s = c.exchange(assistant("4."))
	is(x, s, align.None, "s~1", "Summary", "Done.", "Go on", "Else.", "Go on", "4.")
	c.history = []string{user("Hi"), assistant("Done."), user("Edited")}
	x, s = c.exchange(assistant("5."))
	is(x, s, align.Diverge, "s", "Hi", "Done.", "Edited", "5.")

	// If a client may mix conversations in a session, one answer proves nothing.
	c.ask.Compacts, c.history = false, []string{user("Other"), assistant("5.")}
	x, s = c.exchange(assistant("6."), user("Go on"))
	is(x, s, align.None, "s~2", "Other", "5.", "Go on", "6.")
}

// is returns a check that an exchange matched as a case, and that the session where it is stored then has the given
// messages.
func is(t *testing.T, c *client) func(x *history.Exchange, s history.Stored, want align.Case, session string,
	lives ...string) {
	return func(x *history.Exchange, s history.Stored, want align.Case, session string, lives ...string) {
		t.Helper()
		if x.Match.Case != want || s.Session != session || s.Turn == 0 {
			t.Fatalf("%+v %+v, wanted %s in %s", x.Match, s, want, session)
		}
		c.Lives(session, lives...)
	}
}
