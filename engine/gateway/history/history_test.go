package history_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// client is a client that holds its whole history and sends it with each call.
type client struct {
	*enginetest.Kit
	session, agent string
	body           [32]byte
	history        []string
	ask            history.Ask // the other fields of its requests
}

func (c *client) begin() *history.Exchange {
	c.Helper()
	ask := c.ask
	ask.Session, ask.Agent, ask.Format = c.session, c.agent, chat.OpenAIChat
	ask.Body = func() [32]byte { return c.body }
	ask.Messages = enginetest.Raw(c.history...)
	x, err := c.Dialogues.Begin(c.Context(), c.Admin, ident.DefaultProject, ask)
	if err != nil {
		c.Fatal(err)
	}
	return x
}

func (c *client) commit(x *history.Exchange, reply string) history.Stored {
	c.Helper()
	s, err := c.Dialogues.Commit(c.Context(), c.Admin, ident.DefaultProject, x, history.Reply{Messages: enginetest.Raw(reply)})
	if err != nil {
		c.Fatal(err)
	}
	c.history = append(c.history, reply)
	return s
}

// exchange sends messages and gets a reply.
func (c *client) exchange(reply string, messages ...string) (*history.Exchange, history.Stored) {
	c.Helper()
	c.history = append(c.history, messages...)
	x := c.begin()
	return x, c.commit(x, reply)
}

// TestClientsThatSendTheirHistory follows one conversation through the changes that clients make.
func TestClientsThatSendTheirHistory(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	is := func(x *history.Exchange, s history.Stored, want align.Case, turn uint32, lives ...string) {
		t.Helper()
		if x.Match.Case != want || s.Turn != turn || s.Reason != "" {
			t.Fatalf("%+v %+v, wanted %s and turn %d", x.Match, s, want, turn)
		}
		c.Lives(s.Session, lives...)
	}
	const hello = "Hello. What can I do for you today?"
	x, s := c.exchange(assistant(hello), user("Hi"))
	is(x, s, align.New, 1, "Hi", hello)
	x, s = c.exchange(enginetest.Call("a", "f"), user("Look it up."))
	if x.Match.Case != align.Extend || !s.Open || s.Turn != 0 {
		t.Fatalf("%+v %+v", x.Match, s)
	}
	c.Lives("s", "Hi", hello)
	x, s = c.exchange(assistant("42."), enginetest.Result("a", "42"))
	is(x, s, align.Extend, 2, "Hi", hello, "Look it up.", "", "42", "42.")
	c.history = c.history[:3] // another reply is wanted
	x, s = c.exchange(assistant("43."))
	is(x, s, align.Rewind, 3, "Hi", hello, "Look it up.", "43.")
	c.history = c.history[:2]
	x, s = c.exchange(assistant("Sure, I will not look it up."), user("Do not."))
	is(x, s, align.Diverge, 4, "Hi", hello, "Do not.", "Sure, I will not look it up.")
	c.history = append([]string{user("What was said before, in short.")}, c.history[2:]...)
	x, s = c.exchange(assistant("Bye."), user("Bye"))
	is(x, s, align.Front, 5, "Do not.", "Sure, I will not look it up.", "Bye", "Bye.")
	if front := x.Front(); len(front) != 1 {
		t.Errorf("front %s", transcript.Raw(front))
	}
}
