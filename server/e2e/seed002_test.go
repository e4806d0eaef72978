package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// These are the commands of document 002, as printed there.
var seed002Commands = []struct {
	name, command string
	status        int
}{
	{"chat memory", `curl -X POST http://localhost:8000/api/v1/boards/<board-id>/memory \
  -H "X-Agent-Token: $AGENT_TOKEN" \
  -H "Content-Type: application/json" \
  -d '{
    "content": "@devops can you check the production logs?",
    "tags": ["chat"],
    "source": "User"
  }'`, 201},
	{"event memory", `curl -X POST http://localhost:8000/api/v1/boards/<board-id>/memory \
  -H "X-Agent-Token: $AGENT_TOKEN" \
  -H "Content-Type: application/json" \
  -d '{
    "content": "Deployment completed: v2.5.0 to production",
    "tags": ["deployment", "production"],
    "source": "CI/CD",
    "is_chat": false
  }'`, 201},
	{"context memory", `curl -X POST http://localhost:8000/api/v1/boards/<board-id>/memory \
  -H "X-Agent-Token: $AGENT_TOKEN" \
  -H "Content-Type: application/json" \
  -d '{
    "content": "Observed pattern: API response times spike during European morning hours",
    "tags": ["observation", "performance"],
    "source": "Monitoring Agent"
  }'`, 201},
	{"create", `curl -X POST http://localhost:8000/api/v1/boards/<board-id>/memory \
  -H "X-Agent-Token: $AGENT_TOKEN" \
  -H "Content-Type: application/json" \
  -d '{
    "content": "Task #1234 blocked by missing API credentials",
    "tags": ["blocker", "task:1234"],
    "source": "Backend Engineer",
    "is_chat": false
  }'`, 201},
	{"chat message", `curl -X POST http://localhost:8000/api/v1/boards/<board-id>/memory \
  -H "Authorization: Bearer $TOKEN" \
  -H "Content-Type: application/json" \
  -d '{
    "content": "@devops @backend The API is returning 500 errors, need urgent help",
    "tags": ["chat"]
  }'`, 201},
	{"custom tags", `curl -X POST http://localhost:8000/api/v1/boards/<board-id>/memory \
  -H "X-Agent-Token: $AGENT_TOKEN" \
  -H "Content-Type: application/json" \
  -d '{
    "content": "Database migration completed in 45 seconds",
    "tags": ["migration", "database", "performance", "success"]
  }'`, 201},
	{"pause", `curl -X POST http://localhost:8000/api/v1/boards/<board-id>/memory \
  -H "Authorization: Bearer $TOKEN" \
  -H "Content-Type: application/json" \
  -d '{
    "content": "/pause",
    "tags": ["chat"]
  }'`, 201},
	{"resume", `curl -X POST http://localhost:8000/api/v1/boards/<board-id>/memory \
  -H "Authorization: Bearer $TOKEN" \
  -H "Content-Type: application/json" \
  -d '{
    "content": "/resume",
    "tags": ["chat"]
  }'`, 201},
	{"agent access", `curl http://localhost:8000/api/v1/agent/boards/<board-id>/memory?is_chat=false \
  -H "X-Agent-Token: $AGENT_TOKEN"`, 200},
}

// curl carries out a command as a shell and curl would, as far as the document's commands need.
func (c client) curl(command string) reply {
	c.t.Helper()
	var args []string
	for rest := strings.ReplaceAll(command, "\\\n", " "); ; {
		rest = strings.TrimLeft(rest, " \n")
		if rest == "" {
			break
		}
		end := " "
		if rest[0] == '"' || rest[0] == '\'' {
			end, rest = rest[:1], rest[1:]
		}
		arg, after, _ := strings.Cut(rest, end)
		args, rest = append(args, arg), after
	}
	method, path := "GET", ""
	var body any
	var headers []string
	for i := 1; i < len(args); i++ {
		switch args[i] {
		case "-X":
			i++
			method = args[i]
		case "-H":
			i++
			name, value, _ := strings.Cut(args[i], ": ")
			headers = append(headers, name, value)
		case "-d":
			i++
			body = []byte(args[i])
		default:
			path = strings.TrimPrefix(args[i], c.url)
		}
	}
	return c.as("").do(method, path, body, headers...)
}

// TestSeed002BoardMemory: every command of the document works as printed, except that host and ids differ.
func TestSeed002BoardMemory(t *testing.T) {
	admin := newTenant(t)
	var agent struct{ Key string }
	admin.post("/api/v1/keys", object{"name": "automation", "role": "agent"}).want(201).into(&agent)
	const board = "/api/v1/boards/infra-1"
	admin.do("PUT", board, object{"name": "Infrastructure"}).want(201)
	for _, id := range []string{"devops", "backend", "frontend"} {
		admin.do("PUT", board+"/agents/"+id, object{}).want(201)
	}
	fill := strings.NewReplacer("http://localhost:8000", admin.url, "http://72.62.201.147:8000", admin.url,
		"<board-id>", "infra-1", "$AGENT_TOKEN", agent.Key, "$TOKEN", admin.key)
	answers := map[string]boardEntry{}
	for _, seed := range seed002Commands {
		r := admin.curl(fill.Replace(seed.command)).want(seed.status)
		if seed.status == 201 {
			var e boardEntry
			r.into(&e)
			answers[seed.name] = e
		}
	}
	// This response is printed under "Create Memory Entry".
	e := answers["create"]
	if e.ID == "" || e.BoardID != "infra-1" || e.Content != "Task #1234 blocked by missing API credentials" ||
		!slices.Equal(e.Tags, []string{"blocker", "task:1234"}) || e.Source == nil || *e.Source != "Backend Engineer" ||
		e.IsChat || e.CreatedAt == "" {
		t.Errorf("created %+v", e)
	}
	if e := answers["chat message"]; !e.IsChat || *e.Source != "User" {
		t.Errorf("chat message %+v", e)
	}
	// This notification is printed under "Agent Notification", word for word.
	var inbox struct {
		Items []struct {
			Kind, Command, Text, Snippet, From string
			ReplyTo                            string `json:"reply_to"`
		}
	}
	admin.get(board + "/agents/backend/notifications").want(200).into(&inbox)
	want := fill.Replace(`BOARD CHAT MENTION
Board: Infrastructure
From: User

@devops @backend The API is returning 500 errors, need urgent help

Reply via board chat:
POST http://72.62.201.147:8000/api/v1/agent/boards/<board-id>/memory
Body: {"content":"...","tags":["chat"]}`)
	if len(inbox.Items) != 3 || inbox.Items[0].Text != want || inbox.Items[1].Command != "/pause" ||
		inbox.Items[2].Command != "/resume" {
		t.Errorf("inbox %+v, want first\n%s", inbox, want)
	}
	for query, total := range map[string]int{
		"?is_chat=false&limit=50&offset=0":                     4,
		"?is_chat=true&limit=20":                               4,
		"?tags=webhook&limit=50":                               0,
		"?tags=task:1234":                                      1,
		"?tags=performance&tags=success":                       1,
		"?since=2026-03-05T00:00:00&until=2026-03-06T00:00:00": 0,
		"?q=production":                                        2,
		"?q=API+errors&is_chat=true":                           1,
	} {
		var page boardPage
		admin.get(board + "/memory" + query).want(200).into(&page)
		if page.Total != total || len(page.Items) != total {
			t.Errorf("%s: total %d, %d items, want %d", query, page.Total, len(page.Items), total)
		}
	}
	if sent, err := admin.listen(t.Context(), board+"/memory/stream?since=2026-03-05T12:00:00Z&is_chat=true", "",
		func(e sseEvent) bool { return e.memory(t).Content != "/resume" }); err != nil {
		t.Errorf("stream: %d %v", sent, err)
	}
}

// TestSeed002AgentPatterns: how the document's agents keep their state and read what others left.
func TestSeed002AgentPatterns(t *testing.T) {
	c := newTenant(t)
	const board = "/api/v1/agent/boards/b"
	for analysed := range 10 {
		c.post(board+"/memory", object{"content": fmt.Sprintf("Working on task #7: analyzed %d/10 files", analysed+1),
			"tags": []string{"progress", "task:7"}, "source": "devops"}).want(201)
	}
	observation := "Observation: Database queries spike when cache expires.\nRecommendation: Implement cache " +
		"warming strategy."
	c.post(board+"/memory", object{"content": observation, "tags": []string{"observation", "performance",
		"database"}}).want(201)
	c.post(board+"/memory", object{"content": "@lead need approval for deployment", "tags": []string{"chat"}}).want(201)
	var page boardPage
	// Working memory: the latest progress comes first.
	c.get(board + "/memory?tags=progress&tags=task:7").want(200).into(&page)
	if page.Total != 10 || page.Items[0].Content != "Working on task #7: analyzed 10/10 files" {
		t.Errorf("progress %+v", page)
	}
	// Task context is oldest first; context accumulation is the newest entry that is not chat.
	c.get(board + "/memory?tags=task:7&order=asc").want(200).into(&page)
	if page.Total != 10 || page.Items[0].Content != "Working on task #7: analyzed 1/10 files" {
		t.Errorf("task %+v", page)
	}
	c.get(board + "/memory?is_chat=false&limit=1").want(200).into(&page)
	if page.Total != 11 || len(page.Items) != 1 || page.Items[0].Content != observation {
		t.Errorf("context %+v", page)
	}
	// A time range includes its beginning and excludes its end.
	at := page.Items[0].CreatedAt
	var within, before boardPage
	c.get(board + "/memory?tags=observation&since=" + at).want(200).into(&within)
	c.get(board + "/memory?tags=observation&until=" + at).want(200).into(&before)
	if within.Total != 1 || before.Total != 0 {
		t.Errorf("since %s: %d, until then: %d", at, within.Total, before.Total)
	}
	_, err := c.listen(t.Context(), board+"/memory/stream?since=2026-03-05T12:00:00Z&is_chat=true", "",
		func(e sseEvent) bool {
			if m := e.memory(t); m.Content != "@lead need approval for deployment" ||
				!slices.Equal(m.Tags, []string{"chat"}) {
				t.Errorf("event %+v", e)
			}
			return false
		})
	if err != nil {
		t.Error(err)
	}
}
