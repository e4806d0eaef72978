package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// "Chat messages, tool results, agent communications."
func seed001Included(t *testing.T) {
	c := own(t)
	c.turn("", user("book a flight"), calling("c1", "search", "{}"), result("c1", "LX 8"),
		object{"role": "assistant", "type": "a2a", "from_agent": "planner", "to_agent": "booker",
			"content": "please book LX 8"},
		assistant("Booked.")).want(201)
	got := spoken(t, c.assemble(object{}))
	if len(got) != 5 || got[0] != "user: book a flight" || got[2] != "tool: LX 8" || got[4] != "assistant: Booked." {
		t.Errorf("window %q", got)
	}
	for _, part := range []string{"planner", "booker", "please book LX 8"} {
		if !strings.Contains(got[3], part) {
			t.Errorf("the transfer %q lacks %q", got[3], part)
		}
	}
}

// "50 messages. 8,000 tokens."
func seed001Defaults(t *testing.T) {
	c := own(t)
	var s struct {
		Messages int `json:"history_max_messages"`
		Tokens   int `json:"history_max_tokens"`
	}
	c.get(c.path("/settings")).want(200).into(&s)
	if s.Messages != 50 || s.Tokens != 8000 {
		t.Errorf("settings %+v", s)
	}
	for n := range 60 {
		c.turn("many", user(fmt.Sprint("short ", n))).want(201)
	}
	c.do("PATCH", c.path("/settings"), object{"session_history_depth": 100}).want(200)
	w := c.assemble(object{"session_id": "many"}) // messages that are not in full are earlier questions, which do not count as messages
	if u := w.Usage; u.HistoryMessages > 50 || u.HistoryMessages < 25 || u.HistoryMessages+u.CompressedMessages != 60 {
		t.Errorf("%d messages and %d questions", u.HistoryMessages, u.CompressedMessages)
	}
	for n := range 12 {
		c.turn("long", user(fmt.Sprint(n, strings.Repeat(" word", 1000)))).want(201)
	}
	if w := c.assemble(object{"session_id": "long"}); w.Usage.Tokens > 8000 || w.Usage.Tokens < 3500 {
		t.Errorf("%d messages of a thousand tokens, %d tokens", w.Usage.HistoryMessages, w.Usage.Tokens)
	}
}

// "Adjusted via the AGENTS_CONVERSATION_HISTORY_MAX_OUTPUT_TOKENS_DEFAULT environment variable."
func seed001Environment(t *testing.T) {
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := launchWith(binary, t.TempDir(), []string{"AGENTS_CONVERSATION_HISTORY_MAX_OUTPUT_TOKENS_DEFAULT=1234"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	var s struct {
		Tokens int `json:"history_max_tokens"`
	}
	p.client(t).get("/api/v1/projects/default/settings").want(200).into(&s)
	if s.Tokens != 1234 {
		t.Errorf("history_max_tokens %d", s.Tokens)
	}
}

// "Remaining messages are processed … older messages are excluded": a contiguous suffix, the newest first.
func seed001Newest(t *testing.T) {
	c := own(t)
	sizes := []int{10, 10, 900, 10, 10} // the message that does not fit ends the window, even if there is room for older ones
	for n, size := range sizes {
		c.turn("s", user(fmt.Sprint(n, strings.Repeat(" word", size)))).want(201)
	}
	w := c.assemble(object{"session_id": "s", "budget": object{"max_tokens": 400}, "explain": true})
	got := spoken(t, w)
	if len(got) != 3 || !strings.HasPrefix(got[1], "user: 3") || !strings.HasPrefix(got[2], "user: 4") ||
		!strings.HasPrefix(got[0], "system: ") {
		t.Errorf("window %q", got)
	}
	for i, r := range w.Report[:3] {
		if r.Action != "drop" || r.Reason == "" {
			t.Errorf("row %d: %+v", i, r)
		}
	}
}

// The main agent sees everything; delegated ones see their own tool results and the top level's, never those of
// unrelated delegations.
func seed001Delegations(t *testing.T) {
	c := own(t)
	in := func(delegation string, m object) object { m["delegation_id"] = delegation; return m }
	c.turn("", user("plan a trip"), calling("c0", "calendar", "{}"), result("c0", "free in May"),
		in("flights", calling("c1", "search", "{}")), in("flights", result("c1", "three flights")),
		in("hotels", calling("c2", "search", "{}")), in("hotels", result("c2", "two hotels")),
		assistant("done")).want(201)
	for viewer, want := range map[string]string{"": "free in May, three flights, two hotels",
		"flights": "free in May, three flights",
		"hotels":  "free in May, two hotels", "visa": "free in May"} {
		request := object{}
		if viewer != "" {
			request["viewer"] = object{"agent": "researcher", "delegation_id": viewer}
		}
		var results []string
		for _, line := range spoken(t, c.assemble(request)) {
			if text, ok := strings.CutPrefix(line, "tool: "); ok {
				results = append(results, text)
			}
		}
		if got := strings.Join(results, ", "); got != want {
			t.Errorf("viewer %q sees %q, want %q", viewer, got, want)
		}
	}
}

// This block is printed in the document, here with its results filled in.
func seed001ToolResults(t *testing.T) {
	c := own(t)
	c.turn("", user("how do clients log in?"), calling("c", "search_knowledge_base",
		`{"query":"API authentication methods"}`),
		result("c", `{"results":["OAuth"]}`)).want(201)
	const want = `## Tool: search_knowledge_base

**Input:**
{
  "query": "API authentication methods"
}

**Output:**
{
  "results": [
    "OAuth"
  ]
}`
	shows := func(ask object, want string) {
		t.Helper()
		w := c.assemble(ask)
		var shown struct{ Content string }
		if err := json.Unmarshal(w.Messages[len(w.Messages)-1], &shown); err != nil || shown.Content != want {
			t.Errorf("shown as\n%s\nwant\n%s", shown.Content, want)
		}
	}
	shows(object{"tool_results": "markdown"}, want)
	c.do("PATCH", c.path("/settings"), object{"tool_results": "markdown"}).want(200)
	shows(object{}, want)
	shows(object{"tool_results": "messages"}, `{"results":["OAuth"]}`)
}
