package e2e

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const infra = "/api/v1/boards/infra"

// note writes an entry to the test's board.
func (c client) note(content string, chat bool, tags ...string) (e boardEntry) {
	c.t.Helper()
	c.post(infra+"/memory", object{"content": content, "tags": tags, "is_chat": chat}).want(201).into(&e)
	return e
}

// found returns the contents of the entries that a query of the board finds.
func (c client) found(query string) (out []string) {
	c.t.Helper()
	var page boardPage
	c.get(infra + "/memory?" + query).want(200).into(&page)
	for _, e := range page.Items {
		out = append(out, e.Content)
	}
	if page.Total < len(out) {
		c.t.Errorf("%s: total %d of %d", query, page.Total, len(out))
	}
	return out
}

// Each standard tag is stored as given, and entries are found by it.
func seed002Tags(t *testing.T) {
	c := newTenant(t)
	for _, tag := range []string{"chat", "webhook", "webhook:wh-1", "payload:p-9", "task:42", "deployment", "alert",
		"observation", "blocker"} {
		e := c.note("entry with "+tag, false, tag)
		if !slices.Equal(e.Tags, []string{tag}) || e.IsChat != (tag == "chat") {
			t.Errorf("%s: %+v", tag, e)
		}
		equal(t, tag, c.found("tags="+url.QueryEscape(tag)), []string{"entry with " + tag})
	}
}

// extract_mentions gives {"devops", "backend"}, and an agent is matched by its name or its id.
func seed002Mentions(t *testing.T) {
	c := newTenant(t)
	c.do("PUT", infra+"/agents/devops", object{}).want(201)
	c.do("PUT", infra+"/agents/7", object{"display_name": "Backend"}).want(201)
	c.do("PUT", infra+"/agents/frontend", object{}).want(201)
	c.note("@devops @backend The API is returning 500 errors, need urgent help", true)
	c.note("@7 by your id", true)
	for agent, n := range map[string]int{"devops": 1, "7": 2, "frontend": 0} {
		if got := c.unread(infra, agent); len(got) != n {
			t.Errorf("%s hears %+v", agent, got)
		}
	}
}

// "All agents on the board receive the /pause command and suspend operations"; /resume likewise.
func seed002Control(t *testing.T) {
	c := newTenant(t)
	for _, id := range []string{"devops", "backend"} {
		c.do("PUT", infra+"/agents/"+id, object{}).want(201)
	}
	for i, command := range []string{"/pause", "/resume"} {
		c.note(command, true)
		for _, id := range []string{"devops", "backend"} {
			var agent struct{ Paused bool }
			c.get(infra + "/agents/" + id).want(200).into(&agent)
			if got := c.unread(infra, id); len(got) != i+1 || got[i].Kind != "control" || got[i].Command != command ||
				agent.Paused != (i == 0) {
				t.Errorf("%s after %s: paused %t, %+v", id, command, agent.Paused, got)
			}
		}
	}
}

// A chat without a source gets the agent's name, otherwise the user's preferred name, otherwise its name, otherwise
// "User".
func seed002Source(t *testing.T) {
	c := newTenant(t)
	c.do("PUT", infra+"/agents/devops", object{"display_name": "Dev Ops"}).want(201)
	for want, key := range map[string]object{
		"Dev Ops": {"name": "k", "agent": "devops"}, "Annie": {"name": "Ann Lee", "preferred_name": "Annie"},
		"Ann Lee": {"name": "Ann Lee"}, "User": {"name": ""},
	} {
		key["role"] = "agent"
		var made struct{ Key string }
		c.post("/api/v1/keys", key).want(201).into(&made)
		if e := c.as(made.Key).note("hello", true); e.Source == nil || *e.Source != want {
			t.Errorf("%v speaks as %v, want %s", key, e.Source, want)
		}
		if e := c.as(made.Key).note("an event", false); e.Source != nil {
			t.Errorf("an event without a source says %q", *e.Source)
		}
	}
}

// MAX_SNIPPET_LENGTH is 800: a longer stripped content is cut to 797 and "...". The entry is stored whole.
func seed002Snippets(t *testing.T) {
	c := newTenant(t)
	c.do("PUT", infra+"/agents/lead", object{"lead": true}).want(201)
	for i, content := range []string{"  " + strings.Repeat("x", 800) + "\n", strings.Repeat("y", 801)} {
		if e := c.note(content, true); e.Content != content {
			t.Errorf("stored %d of %d bytes", len(e.Content), len(content))
		}
		want := strings.TrimSpace(content)
		if len(want) > 800 {
			want = want[:797] + "..."
		}
		if got := c.unread(infra, "lead")[i].Snippet; got != want || utf8.RuneCountInString(got) != 800 {
			t.Errorf("snippet of %d characters", utf8.RuneCountInString(got))
		}
	}
}

// The document gives these four queries in SQL.
func seed002Queries(t *testing.T) {
	c := newTenant(t)
	for n := range 30 {
		c.note(fmt.Sprint("chat ", n), true)
	}
	c.note("push to main", false, "webhook", "webhook:wh-1")
	c.note("issue opened", false, "webhook")
	c.note("began task 7", false, "task:7")
	c.note("ended task 7", false, "task:7", "progress")
	last := c.found("is_chat=true&limit=20&order=desc")
	if len(last) != 20 || last[0] != "chat 29" || last[19] != "chat 10" {
		t.Errorf("last 20 chats: %q", last)
	}
	equal(t, "webhook events", c.found("tags=webhook&order=desc"), []string{"issue opened", "push to main"})
	equal(t, "task context", c.found("tags=task:7&order=asc"), []string{"began task 7", "ended task 7"})
	today := time.Now().UTC().Truncate(24 * time.Hour)
	day := func(n int) string { return today.AddDate(0, 0, n).Format("2006-01-02T15:04:05") } // no zone, as printed
	if got := c.found("since=" + day(0) + "&until=" + day(2) + "&order=asc&limit=1000"); len(got) != 34 ||
		got[0] != "chat 0" {
		t.Errorf("between today and tomorrow: %d", len(got))
	}
	if got := c.found("since=" + day(-2) + "&until=" + day(-1)); len(got) != 0 {
		t.Errorf("the day before yesterday: %q", got)
	}
}

// The manual cleanup deletes chat older than the given number of days; without a number, entries are kept indefinitely.
func seed002Cleanup(t *testing.T) {
	c := newTenant(t)
	var board struct {
		RetentionDays *int `json:"retention_days"`
	}
	c.note("chat", true)
	c.note("event", false)
	c.get(infra).want(200).into(&board)
	if board.RetentionDays != nil {
		t.Errorf("a new board keeps entries for %d days", *board.RetentionDays)
	}
	var purged struct {
		Deleted int `json:"deleted_entries"`
	}
	c.do("DELETE", infra+"/memory?older_than_days=90&is_chat=true",
		nil).want(200).into(&purged)
	if purged.Deleted != 0 {
		t.Errorf("of today, %d entries were older than 90 days", purged.Deleted)
	}
	c.do("DELETE", infra+"/memory?older_than_days=0&is_chat=true",
		nil).want(200).into(&purged)
	if purged.Deleted != 1 {
		t.Errorf("deleted %d", purged.Deleted)
	}
	equal(t, "left", c.found(""), []string{"event"})
}

// "When deleting boards, memory is cascade-deleted", so entries worth keeping are exported first.
func seed002Archived(t *testing.T) {
	c := newTenant(t)
	c.do("PUT", infra+"/agents/devops", object{"lead": true}).want(201)
	c.note("remember this", true)
	if archive := c.get(infra + "/export").want(200).body; !strings.Contains(string(archive), "remember this") {
		t.Errorf("the archive is %s", archive)
	}
	c.do("DELETE", infra, nil).want(204)
	for _, path := range []string{"", "/memory", "/agents/devops", "/agents/devops/notifications", "/stats"} {
		c.get(infra + path).problem(404)
	}
	c.note("a new board", false)
	equal(t, "the next board of that name", c.found(""), []string{"a new board"})
}

// CHECK (length(trim(content)) > 0).
func seed002Blank(t *testing.T) {
	c := newTenant(t)
	for _, content := range []string{"", " ", "\n\t "} {
		c.post(infra+"/memory", object{"content": content}).problem(422)
	}
	c.get(infra).problem(404)
}

// "Track entries per board", "identify frequently mentioned agents", "export important context".
func seed002Monitoring(t *testing.T) {
	c := newTenant(t)
	c.do("PUT", infra+"/agents/devops", object{}).want(201)
	for n := range 3 {
		c.note(fmt.Sprint("@devops look ", n), true)
	}
	c.note("deployed", false, "deployment")
	var stats struct {
		Entries int
		Chat    int `json:"chat_entries"`
		Agents  []struct {
			Agent    string
			Mentions int
		}
	}
	c.get(infra + "/stats").want(200).into(&stats)
	if stats.Entries != 4 || stats.Chat != 3 || len(stats.Agents) != 1 || stats.Agents[0].Mentions != 3 {
		t.Errorf("stats %+v", stats)
	}
	if lines := strings.Count(string(c.get(infra+"/export").want(200).body), "\n"); lines != 4 {
		t.Errorf("%d lines are exported", lines)
	}
}
