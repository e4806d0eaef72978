package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

const (
	statsPath = "/api/v1/admin/agent/conversations/stats?project_id="
	purgePath = "/api/v1/admin/agent/conversations/purge?project_id="
)

// ownTenant returns a conversation in the project default of a new tenant.
func ownTenant(t *testing.T) (c *conversation, id string) {
	t.Helper()
	c, id = converse(shared(t), "s"), mneme.unique("tenant")
	var made struct {
		Key string `json:"admin_key"`
	}
	c.as(rootKey).post("/api/v1/tenants", object{"id": id}).want(201).into(&made)
	c.key = made.Key
	return c, id
}

type statsAnswer struct {
	ProjectID string     `json:"project_id"`
	Total     int        `json:"total"`
	OldestAt  *time.Time `json:"oldest_at"`
}

func (c *conversation) stats() (s statsAnswer) {
	c.t.Helper()
	c.get(statsPath + c.project).want(200).into(&s)
	return s
}

func (c *conversation) purge(days int, more string) (deleted int) {
	c.t.Helper()
	var p struct {
		Deleted *int `json:"deleted_conversations"`
		Days    *int `json:"older_than_days"`
	}
	c.do("DELETE", fmt.Sprint(purgePath, c.project, "&older_than_days=", days, more), nil).want(200).into(&p)
	if p.Deleted == nil || p.Days == nil || *p.Days != days {
		c.t.Fatalf("purge answers %+v", p)
	}
	return *p.Deleted
}

// tenantFile joins records with their header and last line.
func tenantFile(t testing.TB, records ...object) []byte {
	t.Helper()
	counts := map[string]int{}
	var file []byte
	add := func(r object) { file = append(append(file, bytes.TrimSpace(encodeJSON(t, r))...), '\n') }
	add(object{"mneme_export": 1, "tenant": "x", "created_at": "2026-01-01T00:00:00Z"})
	for _, r := range records {
		counts[r["type"].(string)]++
		add(r)
	}
	sum := sha256.Sum256(file)
	add(object{"type": "end", "records": counts, "sha256": hex.EncodeToString(sum[:])})
	return file
}

// aged imports sessions whose last activity was the given number of days ago.
func (c *conversation) aged(days map[string]int) {
	c.t.Helper()
	records := []object{{"type": "project", "id": c.project, "name": "", "created_at": "2020-01-01T00:00:00Z"}}
	names := make([]string, 0, len(days))
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		if _, ok := days[n]; ok {
			names = append(names, n)
		}
	}
	for _, n := range names {
		at := time.Now().Add(-time.Duration(days[n])*24*time.Hour - time.Hour).UTC().Format(time.RFC3339)
		records = append(records,
			object{"type": "session", "project": c.project, "id": n, "created_at": at, "last_activity_at": at},
			object{"type": "turn", "turn": 1, "messages": []object{
				{"format": "openai.chat", "created_at": at, "message": user("from " + n)}}},
			object{"type": "session_end", "turns": 1})
	}
	c.imported(tenantFile(c.t, records...)).want(200)
}

func (c *conversation) imported(file []byte) reply {
	c.t.Helper()
	return c.do("POST", "/api/v1/import", file, "Content-Type", "application/x-ndjson")
}

// TestSeed003HowItWorks: of 30 turns at depth 20, only the question of turns 1 to 10 appears, and turns 11 to 30 appear
// with the answer.
func TestSeed003HowItWorks(t *testing.T) {
	c := own(t)
	var want []string
	for n := 1; n <= 30; n++ {
		c.turn("s", user(fmt.Sprintf("question %d?", n)), assistant(fmt.Sprintf("answer %d.", n))).want(201)
		if n <= 10 {
			want = append(want, fmt.Sprintf("[earlier question] (turn %d): question %d?", n, n))
		} else {
			want = append(want, fmt.Sprintf("User (turn %d): question %d?", n, n),
				fmt.Sprintf("Assistant: answer %d.", n))
		}
	}
	var w struct{ Text string }
	c.post(c.path("/context"), object{"session_id": "s", "format": "text"}).want(200).into(&w)
	var got []string
	for l := range strings.SplitSeq(w.Text, "\n") {
		if l != "" {
			got = append(got, l)
		}
	}
	equal(t, "the prompt's history", got, want)

	// "The change takes effect on the next agent turn — it does not retroactively alter stored turns."
	before := pages(t, c, "s", "asc", 1000)
	c.do("PATCH", c.path("/settings"), object{"session_history_depth": 30}).want(200)
	c.post(c.path("/context"), object{"session_id": "s", "format": "text",
		"budget": object{"max_messages": 0}}).want(200).into(&w)
	if strings.Contains(w.Text, "[earlier question]") || !strings.Contains(w.Text, "User (turn 1): question 1?") {
		t.Error("a conversation with no more turns than the depth does not include all turns in full")
	}
	if after := pages(t, c, "s", "asc", 1000); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("changing the depth altered stored turns")
	}
	for _, depth := range []int{0, 101} {
		c.do("PATCH", c.path("/settings"), object{"session_history_depth": depth}).problem(422)
	}
}

// TestSeed003Stats: the number of conversation threads of the project, and the time of the oldest.
func TestSeed003Stats(t *testing.T) {
	c := own(t)
	if s := c.stats(); s.ProjectID != c.project || s.Total != 0 || s.OldestAt != nil {
		t.Errorf("of nothing: %+v", s)
	}
	c.turn("", user("x")).want(201)
	start := time.Now()
	c.turn("s", user("x")).want(201)
	if s := c.stats(); s.Total != 2 || s.OldestAt == nil || s.OldestAt.After(start) ||
		time.Since(*s.OldestAt) > time.Minute {
		t.Errorf("of two: %+v", s)
	}
	c.get(statsPath).wantCode(400, "parameter_missing")
	c.get(statsPath + "nowhere").problem(404)
	for _, role := range []string{"reader", "agent"} { // "Both require tenant_admin role."
		other := c.as(c.newKey(role))
		other.get(statsPath + c.project).problem(403)
		other.do("DELETE", purgePath+c.project+"&older_than_days=0", nil).problem(403)
	}
	if s := c.stats(); s.Total != 2 {
		t.Errorf("a refused purge left %+v", s)
	}
}

// TestSeed003PurgeByAge: "Every conversation whose last activity is older than the specified number of days is
// permanently deleted, along with all its turns and trace data."
func TestSeed003PurgeByAge(t *testing.T) {
	c, _ := ownTenant(t)
	c.aged(map[string]int{"a": 100, "b": 31, "c": 30, "d": 29, "e": 0})
	decision := c.assemble(object{"session_id": "b"}).DecisionID
	for _, bad := range []string{"", "&older_than_days="} {
		c.do("DELETE", purgePath+c.project+bad, nil).wantCode(400, "parameter_missing")
	}
	for _, bad := range []string{"-1", "1.5", "ten", "99999999999999999999"} {
		c.do("DELETE", purgePath+c.project+"&older_than_days="+bad, nil).wantCode(422, "out_of_range")
	}
	if n := c.purge(30, "&dry_run=true"); n != 3 || c.stats().Total != 5 {
		t.Errorf("a dry run counts %d and leaves %d", n, c.stats().Total)
	}
	c.turn("a", user("it is used again")).want(201)
	if n := c.purge(30, ""); n != 2 {
		t.Errorf("purged %d, want 2", n)
	}
	for session, status := range map[string]int{"a": 200, "b": 404, "c": 404, "d": 200, "e": 200} {
		c.get(c.path("/sessions/" + session)).want(status)
	}
	c.post(c.path("/decisions/"+decision+"/replay"), nil).problem(410)
	if s := c.stats(); s.Total != 3 {
		t.Errorf("after it: %+v", s)
	}
	var log struct {
		Data []struct{ Action, Subject, Detail string }
	}
	c.get("/api/v1/audit").want(200).into(&log)
	if len(log.Data) < 1 || log.Data[0].Action != "conversations.purge" || log.Data[0].Subject != c.project {
		t.Errorf("the audit log says %+v", log.Data)
	}
}

// TestSeed003DeleteAll: "Every conversation for the project is permanently removed." Another project keeps its own.
func TestSeed003DeleteAll(t *testing.T) {
	c, other := own(t), own(t)
	other.turn("s", user("ours")).want(201)
	for _, s := range []string{"", "s", "t"} {
		c.turn(s, user("x")).want(201)
	}
	if n := c.purge(0, ""); n != 3 {
		t.Errorf("deleted %d", n)
	}
	if s := c.stats(); s.Total != 0 || s.OldestAt != nil {
		t.Errorf("after it: %+v", s)
	}
	if w := c.assemble(object{}); len(w.Messages) != 0 {
		t.Errorf("the window holds %v", w.Messages)
	}
	if s := other.stats(); s.Total != 1 {
		t.Errorf("the other project: %+v", s)
	}
	if r := c.turn("s", user("new")).want(201); !bytes.Contains(r.body, []byte(`"turn":1`)) {
		t.Errorf("a session made again begins with %s", r.body)
	}
}

// TestSeed003Retention: the retention setting and the manual purge "are independent — you can use one, both, or
// neither."
func TestSeed003Retention(t *testing.T) {
	c, _ := ownTenant(t)
	c.aged(map[string]int{"a": 100, "b": 10})
	run := func() (r struct {
		Removed  map[string]int
		Finished bool
	}) {
		t.Helper()
		c.post("/api/v1/admin/retention", nil).want(200).into(&r)
		if !r.Finished {
			t.Error("a small run did not finish")
		}
		return r
	}
	if r := run(); r.Removed["conversations"] != 0 || c.stats().Total != 2 {
		t.Errorf("without the setting: %+v", r)
	}
	c.do("PATCH", c.path("/settings"), object{"conversation_retention_days": 30}).want(200)
	if r := run(); r.Removed["conversations"] != 1 || c.stats().Total != 1 {
		t.Errorf("with 30 days: %+v", r)
	}
	if n := c.purge(5, ""); n != 1 || c.stats().Total != 0 {
		t.Errorf("the purge deleted %d", n)
	}
}

// shareThings stores memories with a history, and a board with agents and entries.
func (c *conversation) shareThings() {
	c.t.Helper()
	c.knowledge()
	c.remember(object{"key": "home", "content": "Ada lives in Porto", "tags": []string{"ada"}, "importance": 0.9})
	c.remember(object{"key": "home", "content": "Ada lives in Faro", "source": "call"}, 200)
	c.remember(object{"key": "tea", "content": "tea at five", "category": "daily", "session_id": "s"})
	const board = "/api/v1/boards/infra"
	c.do("PUT", board, object{"name": "Infrastructure", "retention_days": 90}).want(201)
	c.do("PUT", board+"/agents/devops", object{"display_name": "Dev Ops", "lead": true}).want(201)
	for _, which := range []string{"first", "second", "third"} {
		c.post(board+"/memory", object{"content": which + " deployment <done>",
			"tags": []string{"deployment"}}).want(201)
	}
	c.post(board+"/memory", object{"content": "@devops look", "tags": []string{"chat"}}).want(201)
}

// TestTenantMoves: a tenant's file imported into another tenant on another server gives the same windows, byte for
// byte.
func TestTenantMoves(t *testing.T) {
	c, id := ownTenant(t)
	for _, format := range hard.Formats() {
		knobs := hard.Knobs{Seed: 11, Format: format, Messages: 200, Delegations: true}
		for _, turn := range hard.Generate(knobs).Turns {
			c.post(c.path("/turns"), turnBody("s-"+string(format), turn)).want(201)
		}
	}
	c.turn("", user("<b>&\u2028")).want(201)
	c.shareThings()
	c.do("PATCH", c.path("/settings"), object{"session_history_depth": 3}).want(200)
	file := c.get("/api/v1/export").want(200).body
	if strings.Contains(string(file), "mk_") {
		t.Error("the file holds a key")
	}

	there := start(t, t.TempDir()).client(t)
	moved := converse(there, "s")
	before := moved.stats().Total
	moved.imported(file[:len(file)-2]).problem(422)
	moved.imported(bytes.Replace(file, []byte("<b>"), []byte("<i>"), 1)).wantCode(422, "checksum_mismatch")
	if moved.stats().Total != before {
		t.Error("a faulty file left something")
	}
	moved.imported(file).want(200)
	moved.imported(file).wantCode(409, "import_conflict")
	for _, session := range []string{"dashboard", "s-openai.chat", "s-anthropic.messages", "s-openai.responses"} {
		one, two := pages(t, c, session, "asc", 1000), pages(t, moved, session, "asc", 1000)
		if len(one) == 0 || len(one) != len(two) {
			t.Fatalf("session %s: %d messages came over of %d", session, len(two), len(one))
		}
		for i := range one {
			for field, value := range one[i] {
				if field != "id" && !bytes.Equal(value, two[i][field]) {
					t.Fatalf("session %s, message %d: %s is %s, was %s", session, i, field, two[i][field], value)
				}
			}
		}
		for _, request := range []object{{}, {"budget": object{"max_messages": 0, "max_tokens": 0}}, {"format": "text"},
			{"format": "anthropic.messages"}, {"tool_results": "markdown"}} {
			request["session_id"] = session
			a, b := *c.assemble(request), *moved.assemble(request)
			for _, w := range []*window{&a, &b} {
				w.DecisionID, w.Pipeline = "", nil
			}
			if x, y := encodeJSON(t, a), encodeJSON(t, b); !bytes.Equal(x, y) {
				t.Fatalf("session %s, %v: windows differ:\n%s\n%s", session, request, clip(string(x), 800),
					clip(string(y), 800))
			}
		}
	}
	for _, path := range []string{c.path("/memories"), c.path("/memories/home"), c.path("/memories/home/history"),
		"/api/v1/boards", "/api/v1/boards/infra/memory?limit=100",
		"/api/v1/boards/infra/memory?tags=deployment&q=third",
		"/api/v1/boards/infra/agents", "/api/v1/boards/infra/export", "/api/v1/boards/infra/agents/devops"} {
		was, is := withoutETags(c.get(path).want(200).body), withoutETags(moved.get(path).want(200).body)
		if !bytes.Equal(was, is) {
			t.Errorf("%s: differs:\n%s\n%s", path, clip(string(was), 800), clip(string(is), 800))
		}
	}
	for _, query := range []string{"where does Ada live", "bridges of stone", "*"} {
		request := object{"query": query, "limit": 50}
		was, is := c.post(c.path("/memories/recall"), request).want(200).body,
			moved.post(c.path("/memories/recall"), request).want(200).body
		if !bytes.Equal(was, is) || !bytes.Contains(was, []byte(`"key"`)) {
			t.Errorf("recall of %q differs:\n%s\n%s", query, clip(string(was), 800), clip(string(is), 800))
		}
	}
	// The operator exports any tenant. Another tenant's admin cannot, nor can a key limited to some projects export its
	// own tenant.
	records := func(file []byte) string { // without the header, which has the time, and without the checksum
		lines := strings.Split(string(file), "\n")
		return strings.Join(lines[1:len(lines)-2], "\n")
	}
	if got := c.as(rootKey).get("/api/v1/export?tenant=" + id).want(200).body; records(got) != records(file) {
		t.Errorf("the operator's export is another: %s", clip(string(got), 500))
	}
	c.as(shared(t).key).get("/api/v1/export?tenant=" + id).problem(404)
	c.as(c.newKey("tenant_admin", c.project)).get("/api/v1/export").wantCode(403, "key_narrowed")
	c.as(c.newKey("agent")).get("/api/v1/export").problem(403)
}

// TestKeysTellTheirLastUse, within the minute and after a restart.
func TestKeysTellTheirLastUse(t *testing.T) {
	data := t.TempDir()
	server := start(t, data)
	c := converse(server.client(t), "s")
	key := c.newKey("reader")
	last := func(c client) (at *time.Time) {
		var list struct {
			Data []struct {
				Role string
				At   *time.Time `json:"last_used_at"`
			}
		}
		c.get("/api/v1/keys").want(200).into(&list)
		for _, k := range list.Data {
			if k.Role == "reader" {
				return k.At
			}
		}
		t.Fatal("the key is not listed")
		return nil
	}
	if at := last(c.client); at != nil {
		t.Errorf("before its first use: %v", at)
	}
	c.as(key).get(c.path("")).want(200)
	at := last(c.client)
	if at == nil || time.Since(*at) > time.Minute {
		t.Errorf("last use %v", at)
	}
	server.stop(t)
	again := start(t, data).client(t)
	if kept := last(again); kept == nil || at == nil || !kept.Equal(*at) {
		t.Errorf("after a restart %v, was %v", kept, at)
	}
}

// TestOperatorsLimits: too many requests get a 429 that says when to try again, too many messages a 507.
func TestOperatorsLimits(t *testing.T) {
	data := t.TempDir()
	config := filepath.Join(t.TempDir(), "mneme.yaml")
	if err := os.WriteFile(config, []byte("rate_limit: 0.01\nrate_burst: 12\nquota_message_bytes: 5000\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, data, "--config", config).client(t)
	long := object{"messages": []object{user(strings.Repeat("x", 3000))}}
	c.post("/api/v1/projects/default/turns", long).want(201)
	c.post("/api/v1/projects/default/turns", long).wantCode(507, "quota_exceeded")
	var refused reply
	for n := 2; ; n++ {
		r := c.get("/api/v1/projects")
		if left := r.header.Get("RateLimit-Remaining"); r.status == 200 && left != strconv.Itoa(11-n) {
			t.Errorf("request %d: %s left", n+1, left)
		}
		refused = r
		if r.status != 200 {
			if n != 12 {
				t.Errorf("refused after %d requests, want 12", n)
			}
			break
		}
	}
	refused.wantCode(429, "rate_limited")
	if wait, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || wait < 50 || wait > 100 {
		t.Errorf("Retry-After %q, a request takes 100 s", refused.header.Get("Retry-After"))
	}
	if got := refused.header.Get("RateLimit-Policy"); got != `"tenant";q=12;w=1200` {
		t.Errorf("RateLimit-Policy %q", got)
	}
	c.get("/healthz").want(200)
	c.as(rootKey).get("/api/v1/projects?tenant=default").want(200)

	free := start(t, t.TempDir()).client(t) // without the operator's options there are no limits
	for range 50 {
		if h := free.get("/api/v1/projects").want(200).header; h.Get("RateLimit") != "" {
			t.Fatal("limits are on by themselves")
		}
	}
}

// withoutETags removes the ETags of memories from an answer, because an imported memory is a different one.
func withoutETags(body []byte) []byte {
	return regexp.MustCompile(`,"etag":"(?:[^"\\]|\\.)*"`).ReplaceAll(body, nil)
}
