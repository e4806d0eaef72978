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
