package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// newTenant returns the admin of a new tenant.
func newTenant(t *testing.T) client {
	t.Helper()
	root := shared(t).as(rootKey)
	var made struct {
		AdminKey string `json:"admin_key"`
	}
	root.post("/api/v1/tenants", object{"id": mneme.unique("boards")}).want(201).into(&made)
	return root.as(made.AdminKey)
}

// TestMentions: what is written in a chat determines which agents are notified.
func TestMentions(t *testing.T) {
	c := newTenant(t)
	const board = "/api/v1/boards/b"
	c.do("PUT", board+"/agents/devops", object{"display_name": "Dana Ops"}).want(201)
	c.do("PUT", board+"/agents/backend-1", object{"display_name": "Backend Engineer"}).want(201)
	c.do("PUT", board+"/agents/chief", object{"lead": true}).want(201)
	keys := map[string]string{"": c.key}
	for _, id := range []string{"devops", "chief"} {
		var key struct{ Key string }
		c.post("/api/v1/keys", object{"name": id, "role": "agent", "agent": id}).want(201).into(&key)
		keys[id] = key.Key
	}
	for _, test := range []struct {
		sender, content string
		chat            bool
		heard           string // agent:kind, by agent
	}{
		{"", "@devops look", true, "chief:chat devops:mention"},
		{"", "@DEVOPS, look", true, "chief:chat devops:mention"},
		{"", "@dana look", true, "chief:chat devops:mention"},
		{"", "@Ops look", true, "chief:chat"},
		{"", "(@backend) and @backend-1", true, "backend-1:mention chief:chat"},
		{"", "@backend-1x", true, "chief:chat"},
		{"", "@lead need approval for deployment", true, "chief:mention"},
		{"", "@chief and @devops", true, "chief:mention devops:mention"},
		{"", "nobody @ all, @-devops, @_devops", true, "chief:chat"},
		{"", "@" + strings.Repeat("x", 70), true, "chief:chat"},
		{"", "@devops look", false, ""},
		{"devops", "@devops @backend", true, "backend-1:mention chief:chat"},
		{"chief", "@lead @devops", true, "devops:mention"},
		{"", "  /PAUSE\n", true, "backend-1:control chief:control devops:control"},
		{"chief", "/resume", true, "backend-1:control devops:control"},
		{"", "/pause @devops", true, "chief:chat devops:mention"},
		{"", "/pause", false, ""},
	} {
		for _, id := range []string{"backend-1", "chief", "devops"} {
			c.ackAll(board, id)
		}
		c.as(keys[test.sender]).post(board+"/memory", object{"content": test.content, "is_chat": test.chat}).want(201)
		var heard []string
		for _, id := range []string{"backend-1", "chief", "devops"} {
			for _, n := range c.unread(board, id) {
				heard = append(heard, id+":"+n.Kind)
			}
		}
		if got := strings.Join(heard, " "); got != test.heard {
			t.Errorf("%q by %q (chat %t): heard by %s, want %s", test.content, test.sender, test.chat, got, test.heard)
		}
	}
	var stats struct {
		Entries, ChatEntries int
		Agents               []struct {
			Agent    string
			Mentions int
		}
	}
	c.get(board + "/stats").want(200).into(&stats)
	mentions := map[string]int{}
	for _, a := range stats.Agents {
		mentions[a.Agent] = a.Mentions
	}
	if stats.Entries != 17 || mentions["devops"] != 6 || mentions["backend-1"] != 2 || mentions["chief"] != 2 {
		t.Errorf("stats %+v", stats)
	}
}

type notice struct {
	ID, Kind, Command, Snippet, Text string
	Read                             bool
}

func (c client) unread(board, agent string) []notice {
	c.t.Helper()
	var inbox struct{ Items []notice }
	c.get(board + "/agents/" + agent + "/notifications?unread=true").want(200).into(&inbox)
	return inbox.Items
}

func (c client) ackAll(board, agent string) {
	c.t.Helper()
	if items := c.unread(board, agent); len(items) > 0 {
		c.post(board+"/agents/"+agent+"/notifications/ack", object{"up_to": items[len(items)-1].ID}).want(200)
	}
}

// TestPauseAndResume: a command pauses or resumes the agents that it reaches. Changing an agent's name does not end its
// pause.
func TestPauseAndResume(t *testing.T) {
	c := newTenant(t)
	const board = "/api/v1/boards/b"
	c.do("PUT", board, object{"commanders": []string{"a"}}).want(201)
	for _, id := range []string{"a", "b"} {
		c.do("PUT", board+"/agents/"+id, object{"display_name": "Agent " + id}).want(201)
	}
	var key struct{ Key string }
	c.post("/api/v1/keys", object{"name": "a", "role": "agent", "agent": "a"}).want(201).into(&key)
	paused := func(id string) (paused bool) {
		var a struct{ Paused bool }
		c.get(board + "/agents/" + id).want(200).into(&a)
		return a.Paused
	}
	c.post(board+"/memory", object{"content": "/pause", "tags": []string{"chat"}}).want(201)
	if !paused("a") || !paused("b") {
		t.Error("after /pause one is not paused")
	}
	c.do("PUT", board+"/agents/a", object{"display_name": "Agent A"}).want(200)
	if !paused("a") {
		t.Error("a new name has ended a pause")
	}
	c.as(key.Key).post(board+"/memory", object{"content": "/Resume", "tags": []string{"chat"}}).want(201)
	if !paused("a") || paused("b") {
		t.Error("/resume reaches all but its sender")
	}
}

// TestSnippets: a notification shows at most 800 characters; the entry is stored in full.
func TestSnippets(t *testing.T) {
	c := newTenant(t)
	const board = "/api/v1/boards/b"
	c.do("PUT", board+"/agents/lead", object{"lead": true}).want(201)
	for _, n := range []int{799, 800, 801, 5000} {
		content := strings.Repeat("é", n)
		var e boardEntry
		c.post(board+"/memory", object{"content": content, "is_chat": true}).want(201).into(&e)
		if e.Content != content {
			t.Errorf("%d characters: stored %d bytes", n, len(e.Content))
		}
		items := c.unread(board, "lead")
		want := content
		if n > 800 {
			want = strings.Repeat("é", 797) + "..."
		}
		if got := items[len(items)-1].Snippet; got != want || utf8.RuneCountInString(got) > 800 {
			t.Errorf("%d characters: snippet of %d", n, utf8.RuneCountInString(got))
		}
	}
}

// TestSources: a chat entry without a source gets the name of its key's user or agent.
func TestSources(t *testing.T) {
	c := newTenant(t)
	const board = "/api/v1/boards/b"
	c.do("PUT", board+"/agents/known", object{"display_name": "Known Agent"}).want(201)
	for _, test := range []struct {
		key    object
		chat   bool
		source any
		want   string
	}{
		{object{"name": "k", "agent": "known"}, true, nil, "Known Agent"},
		{object{"name": "k", "agent": "stranger"}, true, nil, "stranger"},
		{object{"name": "Ann Lee", "preferred_name": "Ann"}, true, nil, "Ann"},
		{object{"name": "Ann Lee"}, true, nil, "Ann Lee"},
		{object{"name": ""}, true, nil, "User"},
		{object{"name": "Ann Lee"}, true, "CI/CD", "CI/CD"},
		{object{"name": "Ann Lee"}, true, " ", "Ann Lee"},
		{object{"name": "Ann Lee"}, false, nil, ""},
	} {
		test.key["role"] = "agent"
		var key struct{ Key string }
		c.post("/api/v1/keys", test.key).want(201).into(&key)
		var e boardEntry
		c.as(key.Key).post(board+"/memory", object{"content": "x", "is_chat": test.chat,
			"source": test.source}).want(201).into(&e)
		got := ""
		if e.Source != nil {
			got = *e.Source
		}
		if got != test.want {
			t.Errorf("%v, chat %t, source %v: %q, want %q", test.key, test.chat, test.source, got, test.want)
		}
	}
}

// TestBoardsAreApart: boards are separate for equal ids in two tenants, and for keys limited to projects.
func TestBoardsAreApart(t *testing.T) {
	red, blue := newTenant(t), newTenant(t)
	for _, c := range []client{red, blue} {
		c.do("PUT", "/api/v1/boards/same/agents/same", object{"lead": true}).want(201)
	}
	red.post("/api/v1/boards/same/memory", object{"content": "secret of red", "is_chat": true}).want(201)
	var page boardPage
	blue.get("/api/v1/boards/same/memory").want(200).into(&page)
	if page.Total != 0 || len(blue.unread("/api/v1/boards/same", "same")) != 0 {
		t.Errorf("blue sees %+v", page)
	}
	red.do("PUT", "/api/v1/projects/p1", object{}).want(201)
	red.do("PUT", "/api/v1/projects/p2", object{}).want(201)
	p1, p2 := red.as(red.newKey("agent", "p1")), red.as(red.newKey("agent", "p2"))
	p1.get("/api/v1/boards/same").problem(404)
	p1.post("/api/v1/boards/same/memory", object{"content": "x"}).problem(404)
	p1.post("/api/v1/boards/of-p1/memory", object{"content": "x"}).want(201)
	p2.get("/api/v1/boards/of-p1/memory").problem(404)
	p2.get("/api/v1/boards/of-p1/memory/stream").problem(404)
	p2.get("/api/v1/boards/of-p1/export").problem(404)
	p2.do("DELETE", "/api/v1/boards/of-p1", nil).problem(404)
	p1.do("PUT", "/api/v1/boards/of-p1", object{"projects": []string{"p1", "p2"}}).problem(404)
	red.do("PUT", "/api/v1/boards/of-p1", object{"projects": []string{"p1", "p2"}}).want(200)
	p2.get("/api/v1/boards/of-p1/memory").want(200)
	var list struct{ Data []struct{ ID string } }
	p2.get("/api/v1/boards").want(200).into(&list)
	if len(list.Data) != 1 || list.Data[0].ID != "of-p1" {
		t.Errorf("a narrowed key lists %+v", list)
	}
}

// TestBoardExport: an export has one entry in each line, all of them, the oldest first.
func TestBoardExport(t *testing.T) {
	c := newTenant(t)
	const board = "/api/v1/boards/b"
	for i := range 150 {
		c.post(board+"/memory", object{"content": fmt.Sprintf("entry %d\n<&>", i)}).want(201)
	}
	big := strings.Repeat("wörter und mehr ", 60_000)
	c.post(board+"/memory", object{"content": big}).want(201)
	r := c.get(board + "/export").want(200)
	lines := strings.Split(strings.TrimSuffix(string(r.body), "\n"), "\n")
	if kind := r.header.Get("Content-Type"); len(lines) != 151 || kind != "application/x-ndjson" {
		t.Fatalf("%d lines of %s", len(lines), kind)
	}
	for i, line := range lines {
		var e boardEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("entry %d\n<&>", i); i < 150 && e.Content != want || i == 150 && e.Content != big {
			t.Errorf("line %d: %s", i, clip(e.Content, 100))
		}
	}
	c.do("DELETE", board, nil).want(204)
	c.get(board + "/export").problem(404)
	c.get(board + "/agents/x/notifications").problem(404)
	c.post(board+"/memory", object{"content": "new"}).want(201)
	var page boardPage
	c.get(board + "/memory").want(200).into(&page)
	if page.Total != 1 {
		t.Errorf("the board made again holds %d entries", page.Total)
	}
}

// TestStreamsEnd: a stream ends when its board, its agent or its key is deleted.
func TestStreamsEnd(t *testing.T) {
	c := newTenant(t)
	var key struct{ ID, Key string }
	c.post("/api/v1/keys", object{"name": "k", "role": "reader"}).want(201).into(&key)
	for i, test := range []struct {
		name, key, path, ends string
	}{
		{"board", c.key, "/memory/stream", "/api/v1/boards/b0"},
		{"inbox", c.key, "/agents/a/notifications/stream", "/api/v1/boards/b1/agents/a"},
		{"key", key.Key, "/memory/stream", "/api/v1/keys/" + key.ID},
	} {
		board := fmt.Sprint("/api/v1/boards/b", i)
		c.do("PUT", board+"/agents/a", object{"lead": true}).want(201)
		c.post(board+"/memory", object{"content": "first", "is_chat": true}).want(201)
		open, ended := make(chan struct{}), make(chan error)
		go func() {
			_, err := c.as(test.key).listen(context.WithoutCancel(t.Context()),
				board+test.path+"?since=2026-01-01T00:00:00Z", "",
				func(sseEvent) bool { close(open); return true })
			ended <- err
		}()
		select {
		case <-open:
		case err := <-ended:
			t.Fatalf("%s: ended before its first event: %v", test.name, err)
		}
		c.do("DELETE", test.ends, nil).want(204)
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
