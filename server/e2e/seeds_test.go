package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSeeds carries out the worked examples of the five documents on which Mneme is based, each under the document's
// number. The commands of 002 and the conversations of 003 have separate tests, TestSeed002… and TestSeed003….
func TestSeeds(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"000 what page did you just visit":             seed000Visit,
		"000 what gets stored":                         seed000Stored,
		"000 the system prompt is rebuilt each turn":   seed000System,
		"000 fifty messages, never splitting a pair":   seed000Cap,
		"000 fifty messages at the defaults":           seed000Fifty,
		"000 restarts and session files":               seed000Persistence,
		"000 sessions do not interfere":                seed000Sessions,
		"000 long-term memory by its three tools":      seed000Memory,
		"000 a failed turn leaves no trace":            seed000Errors,
		"000 background tasks start empty":             seed000Background,
		"001 what is included":                         seed001Included,
		"001 default limits":                           seed001Defaults,
		"001 windows fill up to the limits":            seed001Fills,
		"001 the environment sets the default":         seed001Environment,
		"001 the newest that fit":                      seed001Newest,
		"001 parallel delegations":                     seed001Delegations,
		"001 tool results as printed":                  seed001ToolResults,
		"002 standard tags":                            seed002Tags,
		"002 mention parsing":                          seed002Mentions,
		"002 control commands reach all agents":        seed002Control,
		"002 automatic source":                         seed002Source,
		"002 snippets of 800":                          seed002Snippets,
		"002 query patterns":                           seed002Queries,
		"002 manual cleanup of chat":                   seed002Cleanup,
		"002 archived boards":                          seed002Archived,
		"002 content must not be blank":                seed002Blank,
		"002 monitoring and export":                    seed002Monitoring,
		"003 suggested depths":                         seed003Depths,
		"003 thirty turns at a depth of twenty":        seed003Thirty,
		"003 the questions of older turns":             seed003Questions,
		"003 the boundary moves":                       seed003Boundary,
		"003 follow-up questions":                      seed003FollowUps,
		"003 whole conversations alone can be deleted": seed003Hard,
		"004 settings and their defaults":              seed004Defaults,
		"004 summarisation disabled":                   seed004Disabled,
		"004 the memory manager's four steps":          seed004Manager,
		"004 a failing summary":                        seed004Failure,
		"004 the summary's own model and URL":          seed004Overrides,
		"004 replays are deterministic":                seed004Replays,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t) })
	}
}

// "If you ask “visit x.com” and then follow up with “what page did you just visit?”, the agent knows the answer."
func seed000Visit(t *testing.T) {
	c := own(t)
	c.turn("", user("visit x.com"), calling("call_1", "navigate", `{"url":"https://x.com"}`),
		result("call_1", "Title: X. It's what's happening"), assistant("Done, I am on x.com.")).want(201)
	equal(t, "what the model sees",
		spoken(t, c.assemble(object{"pending": []object{user("what page did you just visit?")}})),
		[]string{"user: visit x.com", `assistant: {"url":"https://x.com"}`, "tool: Title: X. It's what's happening",
			"assistant: Done, I am on x.com.", "user: what page did you just visit?"})
}

// The log has the user's messages, the agent's messages with their reasoning, tool calls by name, arguments and id, and
// results.
func seed000Stored(t *testing.T) {
	c := own(t)
	reply := assistant("There are two files.")
	reply["reasoning"] = "The listing has two lines."
	posted := []any{user("what is in the folder?"), calling("call_7", "shell", `{"command":"ls"}`),
		result("call_7", "a.txt\nb.txt"), reply}
	c.turn("webhook", posted...).want(201)
	stored := pages(t, c, "webhook", "asc", 10)
	if len(stored) != len(posted) {
		t.Fatalf("%d messages are stored", len(stored))
	}
	for i := range posted {
		if want := encodeJSON(t, posted[i]); !sameJSON(stored[i]["message"], want) {
			t.Errorf("message %d is stored as %s, was %s", i, stored[i]["message"], want)
		}
	}
	// A project may show the reasoning in its windows, too.
	shown := func() bool {
		return strings.Contains(list(c.assemble(object{"session_id": "webhook"}).Messages), `"reasoning_content":"The listing has two lines."`)
	}
	if shown() {
		t.Error("reasoning is shown by default")
	}
	c.do("PATCH", c.path("/settings"), object{"reasoning": "content"}).want(200)
	if !shown() {
		t.Error("reasoning is not shown where the project says so")
	}
}

// "The system prompt is not stored. It's rebuilt fresh each turn … without clearing history."
func seed000System(t *testing.T) {
	c := own(t)
	c.turn("", object{"role": "system", "content": "You are a pirate."}, user("hello"), assistant("Ahoy!")).want(201)
	for _, persona := range []string{"You are a poet.", "You are a clerk."} {
		equal(t, "window", spoken(t, c.assemble(object{"system": persona})),
			[]string{"system: " + persona, "user: hello", "assistant: Ahoy!"})
	}
	if body := c.get(c.path("/sessions/dashboard/messages")).want(200).body; strings.Contains(string(body), "pirate") {
		t.Errorf("the system prompt is stored: %s", body)
	}
}

// "Capped at 50 messages. When the cap is reached, the oldest messages are trimmed first … it never splits an assistant
// message from its tool result."
func seed000Cap(t *testing.T) {
	c := own(t)
	c.do("PATCH", c.path("/settings"), object{"session_history_depth": 100}).want(200)
	for n := range 40 { // turns of three messages, so that the cap of 50 would split one
		id := fmt.Sprint("call_", n)
		c.turn("s", user(fmt.Sprint("question ", n)), calling(id, "look", "{}"),
			result(id, fmt.Sprint("found ", n))).want(201)
		w := c.assemble(object{"session_id": "s"})
		if faults := providerFaults("openai.chat", w.Messages); len(faults) > 0 {
			t.Fatalf("after turn %d: %s", n, strings.Join(faults, "\n"))
		}
		got := spoken(t, w)
		// For messages that the cap does not hold in full, the newest questions are shown.
		u := w.Usage
		gone := n + 1 - u.HistoryMessages/3
		if u.HistoryMessages > 50 || n > 15 && u.HistoryMessages < 24 || u.CompressedMessages < min(gone, 25) ||
			got[len(got)-1] != fmt.Sprint("tool: found ", n) {
			t.Fatalf("after turn %d: %d messages, %d questions, the last %q", n, u.HistoryMessages, u.CompressedMessages,
				got[len(got)-1])
		}
		first := gone - u.CompressedMessages
		if first > 0 || strings.Contains(got[0], "[earlier messages left out]") {
			got = got[1:]
		}
		for i, line := range got[:u.CompressedMessages] {
			if turn := first + i; line != fmt.Sprintf("user: [earlier question] (turn %d): question %d", turn+1, turn) {
				t.Fatalf("the oldest did not go first: %q", got)
			}
		}
	}
}

// "Conversation history survives agent restarts", and importing the files state/sessions/<session_id>.json restores it
// elsewhere.
func seed000Persistence(t *testing.T) {
	data := t.TempDir()
	first := start(t, data)
	c := converse(first.client(t), "s")
	c.turn("morning", user("my name is Ada"), assistant("Hello Ada")).want(201)
	want := spoken(t, c.assemble(object{"session_id": "morning"}))
	file := filepath.Join(t.TempDir(), "state", "sessions", "morning.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, c.get(c.path("/sessions/morning/export")).want(200).body, 0o600); err != nil {
		t.Fatal(err)
	}
	first.kill()
	c = converse(start(t, data).client(t), "s")
	equal(t, "after a restart", spoken(t, c.assemble(object{"session_id": "morning"})), want)
	rebuilt := converse(start(t, t.TempDir()).client(t), "s")
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rebuilt.post(rebuilt.path("/sessions/import"), body).want(201)
	equal(t, "in a rebuilt container", spoken(t, rebuilt.assemble(object{"session_id": "morning"})), want)
}

// "Separate threads of work without them interfering": `dashboard` if no session is named, others beside it, each
// deleted separately.
func seed000Sessions(t *testing.T) {
	c := own(t)
	c.turn("", user("from the dashboard")).want(201)
	c.turn("webhook-1", user("from a webhook")).want(201)
	equal(t, "dashboard", spoken(t, c.assemble(object{})), []string{"user: from the dashboard"})
	equal(t, "webhook", spoken(t, c.assemble(object{"session_id": "webhook-1"})), []string{"user: from a webhook"})
	c.do("DELETE", c.path("/sessions/webhook-1"), nil).want(204)
	equal(t, "deleted", spoken(t, c.assemble(object{"session_id": "webhook-1"})), nil)
	equal(t, "dashboard still", spoken(t, c.assemble(object{})), []string{"user: from the dashboard"})
}

// The document's facts are stored, recalled in another thread, kept when a session is cleared, and forgotten.
func seed000Memory(t *testing.T) {
	c := own(t)
	for key, fact := range map[string]string{"theme": "user prefers dark mode", "stack": "project uses React 19"} {
		if r := c.call("memory_store", object{"key": key, "content": fact, "category": "core"}); r.IsError {
			t.Fatalf("%+v", r)
		}
	}
	c.call("memory_store", object{"key": "today", "content": "fixed the login page today", "category": "daily"})
	c.call("memory_store", object{"key": "thread", "content": "we are talking about the login page",
		"category": "conversation"})
	c.turn("thread", user("which mode do I like?")).want(201)
	c.do("DELETE", c.path("/sessions/thread"), nil).want(204)
	if r := c.call("memory_recall", object{"query": "dark mode or light mode?"}); !strings.Contains(r.Content,
		"user prefers dark mode") {
		t.Errorf("recalled %+v", r)
	}
	var daily, core, thread memory
	c.get(c.path("/memories/today")).want(200).into(&daily)
	c.get(c.path("/memories/stack")).want(200).into(&core)
	c.get(c.path("/memories/thread")).want(200).into(&thread)
	if daily.ExpiresAt == nil || core.ExpiresAt != nil || thread.SessionID == nil || *thread.SessionID != "thread" {
		t.Errorf("daily %+v, core %+v, conversation %+v", daily, core, thread)
	}
	if at, err := time.Parse(time.RFC3339, *daily.ExpiresAt); err != nil ||
		time.Until(at).Round(24*time.Hour) != 7*24*time.Hour {
		t.Errorf("a daily memory expires at %s", *daily.ExpiresAt)
	}
	if r := c.call("memory_forget", object{"key": "theme"}); r.IsError {
		t.Errorf("%+v", r)
	}
	if r := c.call("memory_recall", object{"query": "dark mode"}); strings.Contains(r.Content, "dark mode\"") ||
		strings.Contains(r.Content, "prefers") {
		t.Errorf("recalled after it was forgotten: %+v", r)
	}
}

// "If an agent turn fails … the conversation history is not updated. The next turn retries from the last successful
// state."
func seed000Errors(t *testing.T) {
	c := own(t)
	c.turn("", user("first"), assistant("done")).want(201)
	before := spoken(t, c.assemble(object{}))
	c.turn("", user("second"), calling("call_1", "shell", "{}"), result("call_2", "a crashed tool's")).problem(422)
	equal(t, "after the failed turn", spoken(t, c.assemble(object{})), before)
	var again turnAnswer
	c.turn("", user("second"), calling("call_1", "shell", "{}"), result("call_1",
		"ok")).want(201).into(&again)
	if again.Turn != 2 {
		t.Errorf("the retried turn is numbered %d", again.Turn)
	}
}

// "Scheduled tasks run with fresh, empty history each time."
func seed000Background(t *testing.T) {
	c := own(t)
	c.turn("", user("our chat")).want(201)
	c.post(c.path("/sessions"), object{"id": "heartbeat", "kind": "background"}).want(201)
	for range 3 {
		equal(t, "tick", spoken(t, c.assemble(object{"session_id": "heartbeat",
			"pending": []object{user("all well?")}})),
			[]string{"user: all well?"})
		c.turn("heartbeat", user("all well?"), assistant("yes")).want(201)
	}
	equal(t, "chat", spoken(t, c.assemble(object{})), []string{"user: our chat"})
}
