package history_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

var user, assistant, call, result = enginetest.User, enginetest.Assistant, enginetest.Call, enginetest.Result

// at returns a copy of the client, for a request beside others.
func (c *client) at(messages ...string) *client {
	other := *c
	other.history = slices.Concat(c.history, messages)
	return &other
}

// TestRequestsAtOnce begins two requests before either has a reply. Of two equal requests one turn remains; of two
// different ones the second goes to a copy of the session as it was when it began.
func TestRequestsAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name          string
		stored        []string // the session before
		first, second []string
		bodies        [2]byte
		lives, forks  []string
	}{
		{name: "equal, in a new session", first: []string{user("Hi")}, second: []string{user("Hi")}, lives: []string{"Hi", "two"}},
		{name: "equal", stored: []string{user("Hi"), assistant("Hello.")}, first: []string{user("More")}, second: []string{user("More")},
			lives: []string{"Hi", "Hello.", "More", "two"}},
		{name: "equal messages of different bodies", stored: []string{user("Hi"), assistant("Hello.")}, first: []string{user("More")},
			second: []string{user("More")}, bodies: [2]byte{1, 2}, lives: []string{"Hi", "Hello.", "More", "one"},
			forks: []string{"Hi", "Hello.", "More", "two"}},
		{name: "different", stored: []string{user("Hi"), assistant("Hello.")}, first: []string{user("This")}, second: []string{user("That")},
			lives: []string{"Hi", "Hello.", "This", "one"}, forks: []string{"Hi", "Hello.", "That", "two"}},
		{name: "different, in a new session", first: []string{user("This")}, second: []string{user("That")},
			lives: []string{"This", "one"}, forks: []string{"That", "two"}},
		{name: "different, with the same question first", first: []string{user("Hi"), assistant("Hello."), user("This")},
			second: []string{user("Hi"), assistant("Hello."), user("That")}, lives: []string{"Hi", "Hello.", "This", "one"},
			forks: []string{"Hi", "Hello.", "That", "two"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &client{Kit: enginetest.New(t), session: "s"}
			if tc.stored != nil {
				c.Post("s", tc.stored...)
				c.history = tc.stored
			}
			one, two := c.at(tc.first...), c.at(tc.second...)
			one.body, two.body = [32]byte{tc.bodies[0]}, [32]byte{tc.bodies[1]}
			x, y := one.begin(), two.begin()
			if s := one.commit(x, assistant("one")); s.Turn == 0 || s.Session != "s" {
				t.Fatalf("%+v", s)
			}
			s := two.commit(y, assistant("two"))
			c.Lives("s", tc.lives...)
			if tc.forks == nil {
				if s.Session != "s" || s.Turn == 0 {
					t.Fatalf("%+v", s)
				}
				return
			}
			if s.Session != "s~1" || s.Turn == 0 {
				t.Fatalf("%+v", s)
			}
			c.Lives("s~1", tc.forks...)
			// Each continues where it is.
			for _, c := range []struct {
				*client
				session string
			}{{one, "s"}, {two, "s~1"}} {
				if x, s := c.exchange(assistant("Bye."), user("Bye")); x.Match.Case != align.Extend || s.Session != c.session {
					t.Fatalf("%+v %+v", x.Match, s)
				}
			}
		})
	}
}

// TestManyAtOnce runs sub-agents and the main agent concurrently, and checks that each chain is complete at the end.
func TestManyAtOnce(t *testing.T) {
	k := enginetest.New(t)
	var all sync.WaitGroup
	clients := make([]*client, 6)
	for n := range clients {
		clients[n] = &client{Kit: k, session: "s", agent: fmt.Sprint("agent-", n)}
		if n == 0 {
			clients[n].agent = ""
		}
		all.Go(func() {
			c := clients[n]
			for i := range 10 {
				c.exchange(call(fmt.Sprint("c", n, i), "f"), user(fmt.Sprint("question ", n, i)))
				if _, s := c.exchange(assistant(fmt.Sprint("answer ", n, i)), result(fmt.Sprint("c", n, i), "ok")); s.Session != "s" || s.Turn == 0 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
	all.Wait()
	for _, c := range clients {
		c.history = append(c.history, user("Bye"))
		if x := c.begin(); x.Match.Case != align.Extend || x.Match.Keep != 40 || len(x.Pending()) != 1 {
			t.Errorf("%s: %+v", c.agent, x.Match)
		}
	}
}

// TestManyForks runs unrelated conversations under one name. Each has its own fork, and the ones used last continue
// there. One that has not been used for long is stored whole in another fork, so nothing is lost.
func TestManyForks(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s", ask: history.Ask{Resend: true}}
	clients := make([]*client, 40)
	for n := range clients {
		clients[n] = c.at(user(fmt.Sprint("Hello from ", n)))
		x := clients[n].begin()
		s := clients[n].commit(x, assistant(fmt.Sprint("Hello ", n)))
		want := history.Stored{Session: "s", Turn: 1, Revision: 1}
		if n > 0 {
			want.Session = ident.ForkOf("s", n)
		}
		if s != want || x.Unstored != "" {
			t.Fatalf("%d: %+v %q, wanted %+v", n, s, x.Unstored, want)
		}
	}
	for n := 39; n >= 39-session.MaxRecentForks+1; n-- {
		if x, s := clients[n].exchange(assistant("Bye."), user("Bye")); x.Match.Case != align.Extend || s.Turn != 2 ||
			s.Session != ident.ForkOf("s", n) {
			t.Fatalf("%d: %+v %+v", n, x.Match, s)
		}
	}
	x, s := clients[2].exchange(assistant("Bye."), user("Bye"))
	if x.Match.Case != align.None || s.Session != "s~40" {
		t.Fatalf("%+v %+v", x.Match, s)
	}
	c.Lives("s~40", "Hello from 2", "Hello 2", "Bye", "Bye.")
	// The name of a fork means the session with all its forks.
	clients[30].session = "s~7"
	if _, s := clients[30].exchange(assistant("x"), user("Again")); s.Session != "s~30" {
		t.Fatalf("%+v", s)
	}
}

// TestSubAgentsTakeBackTheirOwn repeats a sub-agent's request after another agent has talked. The other agent's turns
// stay in place.
func TestSubAgentsTakeBackTheirOwn(t *testing.T) {
	main := &client{Kit: enginetest.New(t), session: "s"}
	sub := &client{Kit: main.Kit, session: "s", agent: "sub"}
	main.exchange(assistant("Hello."), user("Hi"))
	sub.exchange(assistant("Found."), user("Look"))
	sub.history = sub.history[:1]
	if x, s := sub.exchange(assistant("Found more.")); x.Match.Case != align.Rewind || s.Session != "s" {
		t.Fatalf("%+v %+v", x.Match, s)
	}
	main.exchange(assistant("Bye."), user("Bye"))
	sub.history = sub.history[:1]
	if x, s := sub.exchange(assistant("Found nothing.")); x.Session != "s~1" || s.Session != "s~1" {
		t.Fatalf("%+v %+v", x, s)
	}
	main.Lives("s", "Hi", "Hello.", "Look", "Found more.", "Bye", "Bye.")
	main.Lives("s~1", "Look", "Found nothing.")
	sub.history = []string{user("Look"), assistant("Found more.")}
	sub.exchange(assistant("There."), user("Where?"))
	main.exchange(assistant("Good night."), user("Good night"))
	sub.history = sub.history[:3]
	x, s := sub.exchange(assistant("Here."))
	if x.Session != "s" || x.Fork != "s~2" || x.AsOf == nil || s.Session != "s~2" {
		t.Fatalf("%+v %+v", x, s)
	}
	main.Lives("s", "Hi", "Hello.", "Look", "Found more.", "Bye", "Bye.", "Where?", "There.", "Good night", "Good night.")
	main.Lives("s~2", "Hi", "Hello.", "Look", "Found more.", "Bye", "Bye.", "Where?", "Here.")
}

// TestTurnsOfAHistory has a client arrive with a history. It is stored as turns, each with a question and everything
// after it.
func TestTurnsOfAHistory(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	_, s := c.exchange(assistant("5"), `{"role":"system","content":"Be kind."}`, user("1"), user("1b"), call("a", "f"), result("a", "x"),
		user("hurry"), assistant("2"), assistant("2b"), user("3"), assistant("4"), `{"role":"developer","content":"Be brief."}`, user("5?"))
	if s.Turn != 3 {
		t.Fatalf("%+v", s)
	}
	list, err := c.Sessions.ListMessages(t.Context(), c.Admin, ident.DefaultProject, "s", enginetest.All, session.MessageOrder{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range list.Data {
		got = append(got, fmt.Sprint(list.Data[i].Turn, ":", list.Data[i].Content))
	}
	if want := "1:1 1:1b 1: 1:x 1:hurry 1:2 1:2b 2:3 2:4 3:5? 3:5"; strings.Join(got, " ") != want {
		t.Errorf("%q, wanted %q", got, want)
	}
}

// TestWhatIsNotStored lists replies that leave no trace, after which the client asks again.
func TestWhatIsNotStored(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	c.history = []string{user("Hi")}
	for _, tc := range []struct {
		reply history.Reply
		want  history.Stored
	}{
		{history.Reply{}, history.Stored{Session: "s", Reason: "unreadable_reply"}},
		{history.Reply{Messages: enginetest.Raw(`{"role":"nobody"}`)}, history.Stored{Session: "s", Reason: "unreadable_reply"}},
		{history.Reply{Messages: enginetest.Raw(`{"role":"assistant","content":""}`), Stop: "refusal"},
			history.Stored{Session: "s", Reason: "refusal"}},
		{history.Reply{Messages: enginetest.Raw(assistant("Let me see")), Stop: "pause_turn"}, history.Stored{Session: "s", Open: true}},
		{history.Reply{Messages: enginetest.Raw(assistant("I will")), Stop: "refusal"}, history.Stored{Session: "s", Turn: 1, Revision: 1}},
	} {
		x := c.begin()
		s, err := c.Dialogues.Commit(t.Context(), c.Admin, ident.DefaultProject, x, tc.reply)
		if err != nil || s != tc.want {
			t.Fatalf("%+v %v, wanted %+v", s, err, tc.want)
		}
	}
	x, err := c.Dialogues.Begin(t.Context(), c.Admin, ident.DefaultProject, history.Ask{Messages: enginetest.Raw(user("Hi"))})
	if err != nil || x.Unstored != "no_session" || len(x.Pending()) != 1 {
		t.Errorf("%+v %v", x, err)
	}
}

// TestLoops follows a loop of tool calls whose replies have decisions and hidden messages. The pending messages and the
// turn contain both, whatever the client does to its history.
func TestLoops(t *testing.T) {
	for variant := range 4 {
		trims, hides := variant%2 == 1, variant > 1
		step := 2
		if hides {
			step = 4
		}
		c := &client{Kit: enginetest.New(t), session: "s"}
		c.Post("s", user("Hi"), assistant("Hello."))
		c.history = []string{user("Hi"), assistant("Hello."), user("Look.")}
		var decisions []string
		for n := range 4 {
			sent := c.at()
			if trims && n > 1 {
				sent.history = c.history[len(c.history)-4:]
			}
			x := sent.begin()
			want, first := 1+step*n, 1
			if trims && n > 1 && !hides { // The client has left out the question, and so does the window.
				want, first = len(sent.history), 4-2*n
			}
			if len(x.Pending()) != want {
				t.Fatalf("call %d: %s, wanted %d messages", n, transcript.Raw(x.Pending()), want)
			}
			pending, err := json.Marshal(transcript.Raw(x.Pending()))
			if err != nil {
				t.Fatal(err)
			}
			decisions = append(decisions, c.Ask(`{"session_id":"s","pending":%s}`, pending).DecisionID)
			for i, id := range decisions[:n] {
				if first+step*i < 0 {
					continue
				}
				if at := x.Pending()[first+step*i].Raw; !strings.Contains(string(at), id) || strings.Contains(string(at), `"hidden":true`) != hides {
					t.Fatalf("call %d: pending message %s names no decision %s", n, at, id)
				}
			}
			r := history.Reply{DecisionID: decisions[n], Messages: enginetest.Raw(call(fmt.Sprint("c", n), "f")),
				Hidden: enginetest.Raw(call(fmt.Sprint("h", n), "recall"), result(fmt.Sprint("h", n), "known"))}
			if !hides {
				r.Hidden = nil
			}
			if n == 3 {
				r.Messages = enginetest.Raw(assistant("Found."))
			}
			s, err := c.Dialogues.Commit(t.Context(), c.Admin, ident.DefaultProject, x, r)
			if err != nil || s.Open != (n < 3) || s.Reason != "" {
				t.Fatalf("call %d: %+v %v", n, s, err)
			}
			c.history = append(c.history, string(r.Messages[0]), result(fmt.Sprint("c", n), "ok"))
		}
		c.history = append(c.history[:len(c.history)-1], user("Thanks"))
		if trims { // The first turn was left out in between, and comes back.
			if _, s := c.exchange(assistant("Bye.")); s.Turn != 3 || s.Session != "s" {
				t.Fatalf("%+v", s)
			}
			if got := c.GetSession("s").Turns; got != 3 {
				t.Fatalf("%d turns live", got)
			}
			continue
		}
		if x := c.begin(); x.Match.Case != align.Extend || x.Match.Keep != 10 || len(x.Pending()) != 1 {
			t.Fatalf("%+v %s", x.Match, transcript.Raw(x.Pending()))
		}
		if !hides {
			c.Lives("s", "Hi", "Hello.", "Look.", "", "ok", "", "ok", "", "ok", "Found.")
			continue
		}
		c.Lives("s", "Hi", "Hello.", "Look.", "", "known", "", "ok", "", "known", "", "ok", "", "known", "", "ok", "", "known", "Found.")
	}
}

// TestPostsJoin checks that messages that were posted, rewound, forked or added to a turn belong to the chain.
func TestPostsJoin(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	c.history = []string{user("1"), assistant("2"), user("3"), assistant("4")}
	c.Post("s", c.history[:2]...)
	c.Post("s", user("wrong"))
	rewind := uint32(1)
	if _, err := c.TryPost(session.TurnRequest{SessionID: "s", RewindTo: &rewind}, c.history[2]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryPost(session.TurnRequest{SessionID: "s", Continues: true}, c.history[3]); err != nil {
		t.Fatal(err)
	}
	x, s := c.exchange(assistant("6"), user("5"))
	if x.Match.Case != align.Extend || s.Turn != 4 {
		t.Fatalf("%+v %+v", x.Match, s)
	}
	if _, err := c.Sessions.Fork(t.Context(), c.Admin, ident.Once{}, ident.DefaultProject, "s", session.ForkRequest{As: "copy"}); err != nil {
		t.Fatal(err)
	}
	c.session = "copy"
	if x, _ := c.exchange(assistant("8"), user("7")); x.Match.Case != align.Extend {
		t.Fatalf("%+v", x.Match)
	}
}

// TestAnswersToFormerVersions has an answer under way when its client edits a message and rewrites the history behind it
// in one request. The answer does not come back with the former version, in the session or in a fork.
func TestAnswersToFormerVersions(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	c.ask.Resend = true
	c.exchange(assistant("The river Po flows through the city of Turin."), user("These are the files: main.go and go.mod"), assistant("Ok."),
		user("Keep my key hunter2 in mind and tell me of Turin"))
	inserted := []string{c.history[0], c.history[1], user("These are more files: README.md and LICENSE"), assistant("Very well.")}
	old := c.at(user("And through Florence?"))
	old.history = slices.Concat(inserted, old.history[2:])
	x := old.begin()
	now := c.at(user("Go on"))
	now.history = slices.Concat(inserted, []string{user("Keep my key [removed] in mind and tell me of Turin")}, now.history[3:])
	if s := now.commit(now.begin(), assistant("With pleasure, what is next?")); s.Session != "s" || s.Turn == 0 {
		t.Fatalf("%+v", s)
	}
	if s := old.commit(x, assistant("That is the Arno.")); s.Turn != 0 || s.Reason != "changed_meanwhile" {
		t.Fatalf("%+v", s)
	}
	if got := c.SessionIDs(); !slices.Equal(got, []string{"s"}) {
		t.Errorf("%q", got)
	}
}

// TestClearedResults clears the results of calls that were made at once. Whatever their order, the whole results stay.
func TestClearedResults(t *testing.T) {
	for n := range 8 { // The order of the hashes differs.
		c := &client{Kit: enginetest.New(t), session: "s"}
		c.ask.Resend = true
		one, two := fmt.Sprint("one", n), fmt.Sprint("two", 7*n)
		calls := fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"look",`+
			`"arguments":"{}"}},{"id":%q,"type":"function","function":{"name":"look","arguments":"{}"}}]}`, one, two)
		c.exchange(assistant("Both are in good order."), user("Look at both of them"), calls, result(one, "a long result of the first call"),
			result(two, "another long result, of the second call"))
		c.history[2], c.history[3] = result(one, "[cleared]"), result(two, "[cleared]")
		if x, s := c.exchange(assistant("You are welcome."), user("Thank you")); x.Match.Case != align.Edit || s.Turn != 2 {
			t.Errorf("%d: %+v %+v", n, x.Match, s)
		}
	}
}
