package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// sentMessages returns the messages of the newest request that the provider got, without system messages.
func (c *apiClient) sentMessages() (out []string) {
	c.t.Helper()
	requests := c.provider.Requests()
	var body struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(requests[len(requests)-1].Body, &body); err != nil {
		c.t.Fatal(err)
	}
	for _, m := range body.Messages {
		o, _, _ := rawjson.ReadObject(m)
		if role := o.Text("role"); role != "system" {
			out = append(out, role+": "+o.Text("content"))
		}
	}
	return out
}

// TestReasoningContentGoesBack checks that a client of DeepSeek gets through a loop of tool calls: its provider refuses
// calls without the reasoning that led to them.
func TestReasoningContentGoesBack(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{false, true} {
		c := newClient(t, chat.OpenAIChat, "deepseek-v4")
		c.streams = streams
		for n := range 3 {
			c.turn(n, 2, true)
		}
		requests := c.provider.Requests()
		last := string(requests[len(requests)-1].Body)
		if got := strings.Count(last, `"reasoning_content"`); got != strings.Count(string(object(t, c.history)), `"reasoning_content"`)-1 {
			t.Errorf("the last of %d requests has reasoning %d times: %s", len(requests), got, last)
		}
		if d := c.decisions(); d[0].Call.Mode != "assemble" || !*d[0].Stored {
			t.Errorf("%+v", d[0])
		}
	}
}

// TestUsersOfOneAppStayApart checks that a prompt_cache_key, which the users of an application share, brings nothing of
// one user into the calls of another, and that a project can make it name sessions.
func TestUsersOfOneAppStayApart(t *testing.T) {
	t.Parallel()
	c := newClient(t, chat.OpenAIChat, "gpt-4o")
	c.extra = map[string]any{"prompt_cache_key": "app-v1", "user": "app", "safety_identifier": "app"}
	c.session = ""
	say := func(text string) {
		c.ask(text)
		c.call(providers.Say("Noted."))
	}
	say("My PIN is 4711.")
	c.history = nil
	say("What did I tell you?")
	if got := c.sentMessages(); !slices.Equal(got, []string{"user: What did I tell you?"}) {
		t.Errorf("the provider got %q", got)
	}
	if got := c.last.header.Get("X-Mneme-Stored"); got != "no; no_session" {
		t.Errorf("a call without a session was stored: %q", got)
	}
	c.patch(`{"proxy_session_fields":["prompt_cache_key"]}`)
	say("and now?")
	if got := c.last.header.Get("X-Mneme-Session"); got != "app-v1" {
		t.Errorf("the session is %q", got)
	}
}

// TestTheClientsRequestIsTheAuthority edits, deletes and decorates earlier messages, in every mode: the provider gets
// the client's messages and nothing that the client removed, and the session holds each message once.
func TestTheClientsRequestIsTheAuthority(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"observe", "recall", "assemble"} {
		t.Run(mode, func(t *testing.T) {
			c := newClient(t, chat.OpenAIChat, "gpt-4o")
			c.headers = []string{"X-Mneme-Mode", mode}
			message := func(role, text string) json.RawMessage {
				return object(t, map[string]any{"role": role, "content": text})
			}
			say := func(matched, question, reply string) {
				t.Helper()
				c.ask(question)
				want := make([]string, len(c.history))
				for i, m := range c.history {
					o, _, _ := rawjson.ReadObject(m)
					want[i] = o.Text("role") + ": " + o.Text("content")
				}
				c.call(providers.Say(reply))
				if got := c.last.header.Get("X-Mneme-Matched"); got != matched {
					t.Fatalf("%s is %s, wanted %s", question, got, matched)
				}
				if got := c.sentMessages(); !slices.Equal(got, want) {
					t.Fatalf("%s: the provider got %q, the client sent %q", question, got, want)
				}
				if got := c.last.header.Get("X-Mneme-Stored"); got != "yes" {
					t.Fatalf("%s: stored %q", question, got)
				}
			}
			holds := func(want ...string) {
				t.Helper()
				list := c.do("GET", "/api/v1/projects/default/sessions/"+c.session+"/messages?limit=100", "")
				var got struct {
					Data []struct{ Message struct{ Content string } }
				}
				if err := json.Unmarshal(list.body, &got); err != nil {
					t.Fatalf("%s %v", list.body, err)
				}
				var texts []string
				for _, m := range got.Data {
					texts = append(texts, m.Message.Content)
				}
				if !slices.Equal(texts, want) {
					t.Fatalf("the session holds %q, wanted %q", texts, want)
				}
			}
			say("new", "my key is hunter2, keep it", "I have noted the key, and shall keep it.")
			say("extend", "which city am I in?", "You are in the city of Turin, at the river Po.")
			say("extend", "and the river?", "That river is the Po, as was said before.")

			c.history[0] = message("user", "my key is [removed], keep it")
			say("edit", "thanks", "You are welcome.")
			holds("my key is [removed], keep it", "I have noted the key, and shall keep it.", "which city am I in?",
				"You are in the city of Turin, at the river Po.", "and the river?", "That river is the Po, as was said before.",
				"thanks", "You are welcome.")

			deleted := slices.Clone(c.history[2:4])
			c.history = slices.Delete(c.history, 2, 4)
			say("gap", "what else?", "Nothing else that I know of.")
			holds("my key is [removed], keep it", "I have noted the key, and shall keep it.", "and the river?",
				"That river is the Po, as was said before.", "thanks", "You are welcome.", "what else?", "Nothing else that I know of.")

			c.history = slices.Insert(c.history, 2, deleted...)
			say("extend", "it is back", "So it is.")
			holds("my key is [removed], keep it", "I have noted the key, and shall keep it.", "which city am I in?",
				"You are in the city of Turin, at the river Po.", "and the river?", "That river is the Po, as was said before.",
				"thanks", "You are welcome.", "what else?", "Nothing else that I know of.", "it is back", "So it is.")

			c.history = slices.Insert(c.history, 4, message("user", "NOTE: the author wants a calm voice"))
			say("front", "go on", "Gladly.")
		})
	}
}

// TestStaleFronts sends files before the conversation, as aider does, in another version each time: the provider gets
// the newest one.
func TestStaleFronts(t *testing.T) {
	t.Parallel()
	c := newClient(t, chat.OpenAIChat, "gpt-4o")
	var talk []json.RawMessage
	for version := range 6 {
		talk = append(talk, object(t, map[string]any{"role": "user", "content": "do step " + strings.Repeat("I", version+1)}))
		c.history = append([]json.RawMessage{
			object(t, map[string]any{"role": "user", "content": "Files:\napp.py: VERSION " + strings.Repeat("v", version+1)}),
			object(t, map[string]any{"role": "assistant", "content": "Ok."})}, talk...)
		r := c.call(providers.Say("That step is done, and the tests pass: " + strings.Repeat("x", version+1)))
		talk = append(talk, r.Messages...)
		sent := c.sentMessages()
		if len(sent) != len(talk)+1 || !strings.HasSuffix(sent[0], "VERSION "+strings.Repeat("v", version+1)) {
			t.Fatalf("version %d: %s: the provider got %q", version, c.last.header.Get("X-Mneme-Matched"), sent)
		}
		if c.last.header.Get("X-Mneme-Session") != "chat" {
			t.Fatal(c.last.header)
		}
	}
	// A front is not stored. The last version that was, is gone from the history, so it is removed.
	if got := c.texts("chat"); len(got) != len(talk)+1 {
		t.Errorf("the session holds %d messages, want %d: %q", len(got), len(talk)+1, got)
	}
}
