package server

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// TestRunTwiceRemembers runs the README's example several times: a program that names a session and keeps no history.
// In mode assemble the model sees what earlier runs said, also where a run sends its own messages again.
func TestRunTwiceRemembers(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"auto", "observe", "recall", "assemble"} {
		c := newClient(t, chat.OpenAIChat, "gpt-4o")
		c.headers = []string{"X-Mneme-Mode", mode}
		var said []string
		run := func(texts ...string) {
			t.Helper()
			c.history = nil
			for _, text := range texts {
				c.ask(text)
				own := len(c.history)
				said = append(said, "user: "+text)
				c.call(providers.Say("Noted: " + text))
				want := said
				if mode == "observe" || mode == "recall" {
					want = said[len(said)-own:]
				}
				if got := c.sentMessages(); !slices.Equal(got, want) {
					t.Fatalf("%s: the provider got %q, wanted %q", mode, got, want)
				}
				said = append(said, "assistant: Noted: "+text)
				if h := c.last.header; h.Get("X-Mneme-Stored") != "yes" || h.Get("X-Mneme-Session") != "chat" {
					t.Fatal(h)
				}
			}
		}
		run("My order is number 17.")
		run("Which number is my order?")
		run("Is it on its way?", "And when will it be here?")
		run("Thanks.")
		if got := c.texts("chat"); len(got) != len(said) {
			t.Errorf("%s: the session holds %d messages, %d were said", mode, len(got), len(said))
		}
	}
}

// TestTitleCalls sends a call for a title before the conversation that it is for, in every mode. It is one message, or, as
// opencode's, the instruction and the question in two.
func TestTitleCalls(t *testing.T) {
	t.Parallel()
	for _, title := range [][]string{{"Title for: plan my trip"}, {"Generate a title for this conversation:", "plan my trip"}} {
		for _, mode := range []string{"observe", "recall", "assemble"} {
			titleCalls(t, mode, title)
		}
	}
}

func titleCalls(t *testing.T, mode string, asks []string) {
	t.Helper()
	c := newClient(t, chat.OpenAIChat, "gpt-4o")
	c.headers = []string{"X-Mneme-Mode", mode}
	c.extra = map[string]any{"tools": nil}
	title := func() {
		t.Helper()
		before := c.history
		c.history = []json.RawMessage{json.RawMessage(`{"role":"system","content":"You write titles."}`)}
		var want []string
		for _, text := range asks {
			c.ask(text)
			want = append(want, "user: "+text)
		}
		c.call(providers.Say("Trip"))
		if got := c.sentMessages(); !slices.Equal(got, want) {
			t.Errorf("%s: the provider got %q", mode, got)
		}
		c.history = before
	}
	say := func(text string) {
		t.Helper()
		c.ask(text)
		c.call(providers.Say("Where do you want to go?"))
		if got := c.last.header.Get("X-Mneme-Session"); got != "chat" {
			t.Errorf("%s: %q is in %q", mode, text, got)
		}
	}
	title()
	say("plan my trip")
	title()
	if h := c.last.header; h.Get("X-Mneme-Session") != "chat~side" || h.Get("X-Mneme-Matched") != "side_call" || h.Get("X-Mneme-Stored") != "yes" {
		t.Error(h)
	}
	say("To Turin.")
	if got := c.texts("chat"); len(got) != 4 {
		t.Errorf("%s: the session holds %q", mode, got)
	}
	if got := c.texts("chat~side"); len(got) != len(asks)+1 {
		t.Errorf("%s: the side calls are %q", mode, got)
	}
}
