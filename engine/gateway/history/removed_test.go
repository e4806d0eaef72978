package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// removing is a client whose user deletes single messages, and calls with their results, and takes that back.
type removing struct {
	*client
	all     []string // the conversation, including what was deleted
	words   []string // by message, a word that only it has
	deleted map[int]bool
}

func (c *removing) add(kind string, format string, args ...any) string {
	word := fmt.Sprintf("word%dx", len(c.all))
	text := fmt.Sprintf(format, args...) + " " + word
	for i := range 12 { // Otherwise all messages would be versions of each other.
		text += fmt.Sprintf(" %sof%d", word, i)
	}
	var m string
	switch kind {
	case "user":
		m = user(text)
	case "call":
		m = strings.Replace(enginetest.Call(word, "f"), `"content":null`, `"content":"`+text+`"`, 1)
	case "result":
		m = enginetest.Result(c.words[len(c.words)-1], text)
	default:
		m = assistant(text)
	}
	c.all, c.words = append(c.all, m), append(c.words, word)
	return m
}

// sends returns what the client sends now.
func (c *removing) sends() (out []string) {
	for i, m := range c.all {
		if !c.deleted[i] {
			out = append(out, m)
		}
	}
	return out
}

func (c *removing) isCall(i int) bool {
	return i+1 < len(c.all) && strings.Contains(c.all[i+1], "tool_call_id")
}

// TestSingleMessagesAreRemoved has a client that deletes messages from the middle of turns and sends some of them again. Nothing is
// stored twice, windows, recall, counts and forks have what lives, and every decision replays.
func TestSingleMessagesAreRemoved(t *testing.T) {
	c := &removing{client: &client{Kit: enginetest.New(t), session: "s"}, deleted: map[int]bool{}}
	r := rand.New(rand.NewPCG(29, 1))
	c.has("anything") // From now on messages are indexed.
	var decisions []string
	removals := 0
	for turn := range 40 {
		for range r.IntN(3) {
			if n := len(c.all); n > 6 {
				i := 1 + r.IntN(n-3) // The first message and the newest reply stay.
				if strings.Contains(c.all[i], "tool_call_id") {
					i--
				}
				c.deleted[i] = !c.deleted[i]
				if c.isCall(i) {
					c.deleted[i+1] = c.deleted[i]
				}
				removals++
			}
		}
		c.history = c.sends()
		first := c.add("user", "question %d about the harvest in the valley", turn)
		if r.IntN(2) == 0 {
			call := c.add("call", "looking at %d", turn)
			c.exchange(call, first)
			first = c.add("result", "the answer to call %d is written here", turn)
		}
		_, s := c.exchange(c.add("reply", "reply %d tells of the harvest at length", turn), first)
		if s.Session != "s" || s.Turn != uint32(turn+1) {
			t.Fatalf("turn %d: %+v", turn, s)
		}
		decisions = append(decisions, c.Ask(`{"session_id":"s"}`).DecisionID)
		if r.IntN(4) == 0 {
			c.Drain()
		}
		i := r.IntN(len(c.all))
		if found := c.has(c.words[i]); found == c.deleted[i] {
			t.Fatalf("turn %d: message %d is found: %t", turn, i, found)
		}
		if n := c.GetSession("s").Messages; n != uint64(len(c.sends())) {
			t.Fatalf("turn %d: %d messages live, %d were sent", turn, n, len(c.sends()))
		}
	}
	c.Drain()
	c.Sound()
	for i, word := range c.words {
		if c.has(word) == c.deleted[i] {
			t.Errorf("message %d is found: %t", i, !c.deleted[i])
		}
	}
	if _, err := c.Sessions.Fork(t.Context(), c.Admin, ident.Once{}, ident.DefaultProject, "s", session.ForkRequest{As: "fork"}); err != nil {
		t.Fatal(err)
	}
	at := uint32(20)
	if _, err := c.Sessions.Fork(t.Context(), c.Admin, ident.Once{}, ident.DefaultProject, "s", session.ForkRequest{As: "early", AtTurn: &at}); err != nil {
		t.Fatal(err)
	}
	c.Sound()
	c.isCopy("fork")
	for _, id := range decisions {
		c.Replay(id)
	}
	c.filesHold()
	if len(c.deleted) < 10 || removals < 20 {
		t.Errorf("only %d messages were removed", len(c.deleted))
	}
	for _, id := range []string{"early", "copy"} { // They have some of what is removed from the session.
		if err := c.Sessions.Delete(t.Context(), c.Admin, ident.DefaultProject, id); err != nil {
			t.Fatal(err)
		}
	}
	c.Drain()
	if _, err := c.Sessions.Erase(t.Context(), c.Admin, ident.DefaultProject, "s"); err != nil {
		t.Fatal(err)
	}
	c.Drain()
	c.Sound()
	c.isCopy("fork")
	for i, word := range c.words {
		if c.deleted[i] && c.Holds("default", word) {
			t.Errorf("message %d is stored after it was erased", i)
		}
	}
	c.exchange(assistant("that was all"), user("one more question"))
	c.Drain()
	c.Sound()
}

// isCopy checks that another session lives with the same messages.
func (c *removing) isCopy(id string) {
	c.Helper()
	if a, b := c.texts("s"), c.texts(id); !slices.Equal(a, b) {
		c.Fatalf("%q has %q, want %q", id, b, a)
	}
}

// texts returns the living messages of a session, in the form in which they were posted.
func (c *removing) texts(id string) (out []string) {
	f, err := c.Sessions.Export(c.Context(), c.Admin, ident.DefaultProject, id)
	if err != nil {
		c.Fatal(err)
	}
	for _, turn := range f.Turns {
		for i := range turn.Messages {
			if m := &turn.Messages[i]; !turn.Superseded && !m.Removed {
				out = append(out, string(m.Message))
			}
		}
	}
	return out
}

// filesHold exports the session and imports it. The copy lives with the same messages, says so in its own file, and takes
// back what the client sends again.
func (c *removing) filesHold() {
	c.Helper()
	f, err := c.Sessions.Export(c.Context(), c.Admin, ident.DefaultProject, "s")
	if err != nil {
		c.Fatal(err)
	}
	f.Session.ID = "copy"
	copied, err := c.Sessions.Import(c.Context(), c.Admin, ident.Once{}, ident.DefaultProject, f)
	if err != nil {
		c.Fatal(err)
	}
	if was := c.GetSession("s"); copied.Messages != was.Messages || copied.Tokens != was.Tokens {
		c.Fatalf("%+v became %+v", was, copied.Session)
	}
	again, err := c.Sessions.Export(c.Context(), c.Admin, ident.DefaultProject, "copy")
	if err != nil || fmt.Sprint(again.Turns) != fmt.Sprint(f.Turns) {
		c.Fatalf("the file of the copy differs, %v", err)
	}
	c.Sound()
	c.isCopy("copy")
	client := &client{Kit: c.Kit, session: "copy", history: slices.Clone(c.all)}
	client.exchange(assistant("so it is"), user("all of it is back"))
	if n := client.GetSession("copy").Messages; n != uint64(len(c.all))+2 {
		c.Fatalf("%d messages live after all %d were sent again", n, len(c.all))
	}
	c.Sound()
}
