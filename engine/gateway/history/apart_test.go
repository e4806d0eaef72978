package history_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
)

// TestRunTwice runs a program that keeps no history several times. Each run continues the session, whether it asks one
// question or, within the run, sends its own messages again. What the runs before said stays in the session.
func TestRunTwice(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s", ask: history.Ask{Kind: "k"}}
	run := func(want align.Case, pending int, reply string, messages ...string) {
		t.Helper()
		x := c.at(messages...).begin()
		if x.Match.Case != want || len(x.Pending()) != pending {
			t.Fatalf("%q is %+v with %d pending messages", messages, x.Match, len(x.Pending()))
		}
		if s := c.commit(x, reply); s.Session != "s" || s.Turn == 0 && !s.Open {
			t.Fatalf("%+v", s)
		}
		c.history = nil
	}
	run(align.New, 1, assistant("Noted."), user("My order is number 17."))
	run(align.Delta, 1, assistant("17."), user("Which number is my order?"))
	run(align.Tail, 3, assistant("18."), user("Which number is my order?"), assistant("17."), user("And the next?"))
	run(align.Delta, 1, call("a", "f"), user("Look it up."))
	run(align.Tail, 3, assistant("Found."), user("Look it up."), call("a", "f"), result("a", "ok"))
	run(align.Tail, 5, assistant("Sure."), user("Look it up."), call("a", "f"), result("a", "ok"), assistant("Found."),
		user("Sure?"))
	run(align.Rewind, 3, assistant("No."), user("Look it up."), call("a", "f"), result("a", "ok"))
	want := []string{"My order is number 17.", "Noted.", "Which number is my order?", "17.", "And the next?", "18.",
		"Look it up.", "", "ok", "No."}
	c.Lives("s", want...)

	c.ask.Resend = true
	if x := c.at(user("Which day is it?")).begin(); x.Match.Case != align.None || x.Session != "s~1" {
		t.Fatalf("a client that sends its history: %+v in %s", x.Match, x.Session)
	}
}

// TestSideCalls makes a call for a title before, beside and after a conversation. The conversation has the session's
// name, and the side call is a turn of another session, which is deleted with the first one.
func TestSideCalls(t *testing.T) {
	k := enginetest.New(t)
	title := &client{Kit: k, ask: history.Ask{Kind: "title"}}
	ask := user("Title for: plan my trip")
	for _, tc := range []struct {
		name  string
		tools bool // the conversation has tools
		text  string
	}{
		{"quoted", false, "plan my trip"}, {"tools", true, "What is the time?"},
	} {
		for _, order := range []string{"before", "after", "title first", "conversation first"} {
			t.Run(tc.name+" "+order, func(t *testing.T) {
				c := &client{Kit: k, ask: history.Ask{Kind: "chat", Tools: tc.tools}}
				c.session = ident.Hashed(tc.name + order)
				title.session, title.history = c.session, nil
				var side history.Stored
				call := func() { side = title.commit(title.at(ask).begin(), assistant("Trip")) }
				switch order {
				case "before":
					call()
					c.exchange(assistant("Where to?"), user(tc.text))
				case "after":
					c.exchange(assistant("Where to?"), user(tc.text))
					call()
				default:
					x, y := title.at(ask).begin(), c.at(user(tc.text)).begin()
					if order == "title first" {
						title.commit(x, assistant("Trip"))
					}
					c.history = append(c.history, user(tc.text))
					if s := c.commit(y, assistant("Where to?")); s.Session != c.session {
						t.Fatalf("%+v", s)
					}
					if order != "title first" {
						side = title.commit(x, assistant("Trip"))
					}
				}
				if x, s := c.exchange(assistant("Fine."), user("To Turin.")); x.Match.Case != align.Extend || s.Session != c.session {
					t.Fatalf("%+v %+v", x.Match, s)
				}
				c.Lives(c.session, tc.text, "Where to?", "To Turin.", "Fine.")
				if order == "before" || order == "title first" {
					return
				}
				name := ident.ForkOf(c.session, ident.Side)
				if side.Session != name || side.Turn == 0 {
					t.Fatalf("%+v", side)
				}
				c.Lives(name, "Title for: plan my trip", "Trip")
				if err := c.Sessions.Delete(c.Context(), c.Admin, ident.DefaultProject, c.session); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Sessions.Get(c.Context(), c.Admin, ident.DefaultProject, name); err == nil {
					t.Error("the side call is still there")
				}
			})
		}
	}
}

// TestSideCallsThatGoOn continues what looked like a side call. It is a conversation, and is stored whole: under the
// session's name if only a side call has that, else in a fork.
func TestSideCallsThatGoOn(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		first := &client{Kit: enginetest.New(t), session: "s", ask: history.Ask{Kind: "one"}}
		second := &client{Kit: first.Kit, session: "s", ask: history.Ask{Kind: "two"}}
		first.exchange(assistant("It is late."), user("What is the time?"))
		if goesOn {
			first.exchange(assistant("Friday."), user("And the day?"))
		}
		if x, s := second.exchange(assistant("It is cold."), user("How is the weather?")); x.Match.Case != align.SideCall || s.Session != "s~side" {
			t.Fatalf("%+v %+v", x.Match, s)
		}
		_, s := second.exchange(assistant("Warmer."), user("And tomorrow?"))
		want := "s"
		if goesOn {
			want = "s~1"
			first.Lives("s", "What is the time?", "It is late.", "And the day?", "Friday.")
		}
		if s.Session != want {
			t.Fatalf("%+v", s)
		}
		first.Lives(want, "How is the weather?", "It is cold.", "And tomorrow?", "Warmer.")
		first.Sound()
	}
}
