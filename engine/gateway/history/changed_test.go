package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
)

// TestChangedHistories edits a message, deletes turns and sends them again. No query finds and no window shows what was
// removed. What was restored is found again, the counts and the index are consistent, and earlier decisions replay.
func TestChangedHistories(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	found := func(word string) bool {
		hits := c.Found(recall.Query{Query: word, Scope: "transcript"})
		return slices.ContainsFunc(hits, func(text string) bool { return strings.Contains(text, word) })
	}
	is := func(want align.Case, question, reply string) {
		t.Helper()
		x, s := c.exchange(assistant(reply), user(question))
		if x.Match.Case != want || s.Session != "s" || s.Turn == 0 {
			t.Fatalf("%s: %+v %+v, wanted %s", question, x.Match, s, want)
		}
	}
	finds := func(gone []string, there ...string) {
		t.Helper()
		for _, drained := range []bool{false, true} {
			if drained {
				c.Drain()
			}
			for _, word := range gone {
				if found(word) {
					t.Fatalf("%q is found, drained %t", word, drained)
				}
			}
			if !drained {
				continue
			}
			for _, word := range there {
				if !found(word) {
					t.Fatalf("%q is not found", word)
				}
			}
		}
		c.Sound()
	}
	found("anything") // From now on messages are indexed.
	is(align.New, "Keep my key hunter2 in mind", "I shall keep the key in mind for you.")
	is(align.Extend, "Which river flows through Turin?", "The river Po flows through the city of Turin.")
	is(align.Extend, "And through Florence?", "That is the Arno, which ends near Pisa.")
	is(align.Extend, "Thank you", "You are welcome, ask whatever you like.")
	finds(nil, "hunter2", "Turin", "Florence")
	first := c.Ask(`{"session_id":"s"}`)

	c.history[0] = user("Keep my key [removed] in mind")
	is(align.Edit, "Go on", "With pleasure, what is next?")
	finds([]string{"hunter2"}, "Turin", "Florence")
	c.Lives("s", "Keep my key [removed] in mind", "I shall keep the key in mind for you.", "Which river flows through Turin?",
		"The river Po flows through the city of Turin.", "And through Florence?", "That is the Arno, which ends near Pisa.",
		"Thank you", "You are welcome, ask whatever you like.", "Go on", "With pleasure, what is next?")
	second := c.Ask(`{"session_id":"s"}`)

	turin := slices.Clone(c.history[2:4])
	c.history = slices.Delete(slices.Clone(c.history), 2, 4)
	is(align.Gap, "More", "There is a lot more to tell.")
	finds([]string{"hunter2", "Turin"}, "Florence")
	is(align.Extend, "And more", "That was all of it.")
	finds([]string{"hunter2", "Turin"}, "Florence")
	third := c.Ask(`{"session_id":"s"}`)
	if got := c.GetSession("s"); got.Messages != 12 || got.Turns != 6 {
		t.Fatalf("%+v", got)
	}

	c.history = slices.Insert(slices.Clone(c.history), 2, turin...)
	is(align.Extend, "Turin is back", "So it is.")
	finds([]string{"hunter2"}, "Turin", "Florence")
	if got := c.GetSession("s"); got.Messages != 16 || got.Turns != 8 {
		t.Fatalf("%+v", got)
	}
	for _, w := range []enginetest.Window{first, second, third} {
		c.Replay(w.DecisionID)
	}
}

// TestTrimmingIsAHabit has a client that sends only its newest messages. Once that is evident, every message is stored
// once, is not removed and is found, and the window brings older turns back.
func TestTrimmingIsAHabit(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	var all []string
	for n := range 9 {
		question := user(fmt.Sprintf("question %d about the harvest of apples", n))
		reply := assistant(fmt.Sprintf("answer %d: the harvest was better than last year", n))
		all = append(all, question)
		sent := c.at()
		sent.history = all[max(0, len(all)-7):]
		x := sent.begin()
		if s := sent.commit(x, reply); s.Session != "s" || s.Turn == 0 {
			t.Fatalf("%d: %+v %+v", n, x.Match, s)
		}
		all = append(all, reply)
		if n == 8 && (x.Match.Case != align.Tail || x.AsOf == nil || *x.AsOf != 5 || len(x.Pending()) != 7) {
			t.Fatalf("%+v as of %v with %d messages", x.Match, x.AsOf, len(x.Pending()))
		}
	}
	if got := c.GetSession("s"); got.Messages != 18 || got.Turns != 9 {
		t.Fatalf("%+v", got)
	}
	c.Sound()
}

// TestAnswersDoNotBringBackWhatWasTakenOut edits a message while the answer to the old version is still awaited.
func TestAnswersDoNotBringBackWhatWasTakenOut(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	c.exchange(assistant("I shall keep the key in mind for you."), user("Keep my key hunter2 in mind"))
	c.exchange(assistant("The river Po flows through the city of Turin."), user("Which river flows through Turin?"))
	old := c.at(user("And through Florence?"))
	x := old.begin()
	c.history[0] = user("Keep my key [removed] in mind")
	c.exchange(assistant("With pleasure, what is next?"), user("Go on"))
	if s := old.commit(x, assistant("That is the Arno.")); s.Turn != 0 || s.Reason != "changed_meanwhile" {
		t.Fatalf("%+v", s)
	}
	c.Lives("s", "Keep my key [removed] in mind", "I shall keep the key in mind for you.", "Which river flows through Turin?",
		"The river Po flows through the city of Turin.", "Go on", "With pleasure, what is next?")
	if got := c.SessionIDs(); !slices.Equal(got, []string{"s"}) {
		t.Errorf("%q", got)
	}
}

// TestRemovedTurnsInFiles exports a session of which a client has removed a turn and edited a message. The imported session
// holds the same, and the removed turn lives again once the client sends it again.
func TestRemovedTurnsInFiles(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	c.exchange(assistant("I shall keep the key in mind for you."), user("Keep my key hunter2 in mind"))
	c.exchange(assistant("The river Po flows through the city of Turin."), user("Which river flows through Turin?"))
	c.exchange(assistant("That is the Arno, which ends near Pisa."), user("And through Florence?"))
	turin := slices.Clone(c.history[2:4])
	c.history = slices.Delete(slices.Clone(c.history), 2, 4)
	c.history[0] = user("Keep my key [removed] in mind")
	c.exchange(assistant("There is a lot more to tell."), user("More"))
	f, err := c.Sessions.Export(t.Context(), c.Admin, ident.DefaultProject, "s")
	if err != nil || !f.Turns[1].Removed || !f.Turns[1].Superseded || f.Turns[0].Removed || f.Turns[2].Removed {
		t.Fatalf("%+v, %v", f.Turns, err)
	}
	f.Session.ID = "copy"
	if _, err := c.Sessions.Import(t.Context(), c.Admin, ident.Once{}, ident.DefaultProject, f); err != nil {
		t.Fatal(err)
	}
	kept := []string{"Keep my key [removed] in mind", "I shall keep the key in mind for you.", "And through Florence?",
		"That is the Arno, which ends near Pisa.", "More", "There is a lot more to tell."}
	c.Lives("copy", kept...)
	c.Sound()
	c.session = "copy"
	c.history = slices.Insert(slices.Clone(c.history), 2, turin...)
	c.exchange(assistant("So it is."), user("Turin is back"))
	c.Lives("copy", slices.Concat(kept[:2], []string{"Which river flows through Turin?", "The river Po flows through the city of Turin."},
		kept[2:], []string{"Turin is back", "So it is."})...)
	c.Sound()
}

// TestRemovedTurnOfSeveralCommits has a client remove a turn that was stored in two commits. The turn is superseded whole.
func TestRemovedTurnOfSeveralCommits(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	c.exchange(assistant("I shall keep the key in mind for you."), user("Keep my key in mind"))
	c.exchange(enginetest.Call("call-1", "look"), user("Which river flows through Turin?"))
	c.exchange(assistant("The river Po flows through the city of Turin."), enginetest.Result("call-1", "the Po, says the map"))
	c.exchange(assistant("That is the Arno, which ends near Pisa."), user("And through Florence?"))
	c.history = slices.Delete(slices.Clone(c.history), 2, 6)
	c.exchange(assistant("There is a lot more to tell."), user("More"))
	if s := c.GetSession("s"); s.Turns != 3 || s.Messages != 6 {
		t.Errorf("%+v", s)
	}
	f, err := c.Sessions.Export(t.Context(), c.Admin, ident.DefaultProject, "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range f.Turns {
		if turn.Superseded != (turn.Turn == 2) {
			t.Errorf("%+v", turn)
		}
	}
	c.Sound()
}
