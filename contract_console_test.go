package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// console makes the requests of a console, and compares each response with the description.
func (c *contract) console(t *testing.T, p *program, worker, reader string) {
	t.Helper()
	const project = "/api/v1/projects/{project}"
	// try sends a request. query, which starts with "?", is appended to the route's path.
	try := func(key, method, route, query, body string, status int, parts ...string) answer {
		t.Helper()
		path := strings.NewReplacer(append(parts, "{project}", "default")...).Replace(route) + query
		a := p.do(key, method, path, body)
		if a.status != status {
			t.Errorf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
		}
		c.check(method, route, a)
		return a
	}
	for _, key := range []string{p.key, worker, reader, rootKey} {
		try(key, "GET", "/api/v1/whoami", "", "", 200)
	}
	try(rootKey, "GET", "/api/v1/whoami", "?tenant=default", "", 200)
	try(rootKey, "GET", "/api/v1/whoami", "?tenant=none", "", 404)
	try("mk_unknown", "GET", "/api/v1/whoami", "", "", 401)

	try(worker, "POST", project+"/turns", "", `{"session_id":"looked-at","messages":[
		{"role":"user","content":"Where is the walrus?"},{"role":"assistant","content":"On the ice."}]}`, 201)
	try(reader, "POST", project+"/context", "", `{"session_id":"looked-at"}`, 200)
	const sessions = project + "/sessions"
	for _, query := range []string{"?fields=preview,window&limit=5", "?q=walrus&fields=preview&fields=window", "?agent=main",
		"?sort=-last_activity_at&since=2020-01-01T00:00:00Z&kind=chat", "?sort=tokens&limit=1"} {
		try(reader, "GET", sessions, query, "", 200)
	}
	for _, query := range []string{"?sort=size", "?sort=relevance", "?kind=talk", "?since=yesterday", "?fields=all",
		"?fields=window&limit=300", "?sorted=id", "?cursor=AAAA"} {
		try(reader, "GET", sessions, query, "", 422)
	}

	try(worker, "POST", project+"/turns", "", `{"session_id":"far-back","messages":[`+
		strings.Repeat(`{"role":"user","content":"more"},`, 299)+`{"role":"user","content":"last"}]}`, 201)
	made := try(reader, "POST", project+"/context", "", `{"session_id":"looked-at","explain":true}`, 200)
	id := made.text(t, "decision_id")
	const diff = project + "/windows/diff"
	try(reader, "POST", diff, "", `{"a":{"decision_id":"`+id+`"},"b":{"request":{"session_id":"looked-at","format":"text"}}}`, 200)
	try(reader, "POST", diff, "", `{"a":{"decision_id":"`+id+`"},"b":{"request":{"session_id":"far-back","system":"be brief",
		"format":"anthropic.messages","budget":{"max_messages":10}}}}`, 200)
	try(reader, "POST", diff, "", `{"a":{"decision_id":"`+id+`"}}`, 422)
	try(reader, "POST", diff, "", `{"a":{"decision_id":"dec_none"},"b":{"request":{}}}`, 404)
	const decision = project + "/decisions/{decision}"
	try(reader, "POST", decision+"/why-not", "", `{"message_id":"none"}`, 404, "{decision}", id)
	try(reader, "POST", decision+"/why-not", "", `{}`, 422, "{decision}", id)
	long := try(reader, "POST", project+"/context", "", `{"session_id":"far-back","explain":true,"budget":{"max_messages":10}}`, 200)
	var rows struct {
		Report []struct {
			MessageID string `json:"message_id"`
		}
	}
	if err := json.Unmarshal(long.body, &rows); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, len(rows.Report) / 2} {
		try(reader, "POST", decision+"/why-not", "", `{"message_id":"`+rows.Report[at].MessageID+`"}`, 200, "{decision}",
			long.text(t, "decision_id"))
	}
	try(reader, "POST", project+"/replay", "", `{"settings":{"history_max_tokens":300,"session_history_depth":null},"newest":3}`, 200)
	try(reader, "POST", project+"/replay", "", ``, 200)
	try(reader, "POST", project+"/replay", "", `{"settings":{"none":1}}`, 422)

	settings := try(reader, "GET", project+"/settings", "", "", 200)
	tag := settings.header.Get("ETag")
	for value, status := range map[string]int{tag: 200, `"other", *`: 200, `"other"`: 412, "W/" + tag: 412} {
		a := p.do(p.key, "PATCH", "/api/v1/projects/default/settings", `{"summary_wait_ms":9000}`, "If-Match", value)
		c.check("PATCH", project+"/settings", a)
		if a.status != status && value != tag {
			t.Errorf("If-Match %s: %d, want %d", value, a.status, status)
		}
	}
	try(reader, "GET", project+"/settings/history", "?limit=2", "", 200)
	try(reader, "GET", project+"/settings/history", "?limit=0", "", 422)
	try(reader, "GET", project+"/settings/history", "", "", 404, "{project}", "none")

	counted := try(reader, "GET", project+"/stats", "", "", 200)
	var stats struct {
		Total struct{ Turns, Windows uint64 }
		Data  []json.RawMessage
	}
	if err := json.Unmarshal(counted.body, &stats); err != nil || len(stats.Data) != 30 || stats.Total.Turns < 2 ||
		stats.Total.Windows < 3 {
		t.Errorf("%v, %d days: %+v", err, len(stats.Data), stats.Total)
	}
	for query, status := range map[string]int{"?bucket=hour&from=2026-01-01T00:00:00Z": 200, "?bucket=&to=2020-01-01T00:00:00Z": 200,
		"?from=2020-01-01T00:00:00Z&to=2020-01-01T00:00:00Z": 422, "?bucket=week": 422, "?from=": 422, "?to=today": 422} {
		try(reader, "GET", project+"/stats", query, "", status)
	}
	try(reader, "GET", project+"/stats", "", "", 404, "{project}", "none")

	const stream = project + "/sessions/{session}/stream"
	const followed = "/api/v1/projects/default/sessions/looked-at/stream"
	event := p.firstEvent(reader, followed, func() {
		try(worker, "POST", project+"/turns", "", `{"session_id":"looked-at","messages":[{"role":"user","content":"And now?"}]}`, 201)
	})
	c.check("GET", stream, event)
	if said := strings.Split(string(event.body), "\n"); !strings.HasPrefix(said[0], "id: evt_") || said[1] != "event: turn" ||
		!strings.HasPrefix(said[2], `data: {"turn":{"turn":2,"messages":1,`) {
		t.Errorf("the event is %q", event.body)
	}
	if a := p.do(reader, "HEAD", followed, ""); a.status != 200 || len(a.body) > 0 {
		t.Errorf("HEAD %s: %d", followed, a.status)
	}
	try(reader, "GET", stream, "", "", 404, "{session}", "none")
	if a := p.do(reader, "GET", followed, "", "Last-Event-ID", "evt_1"); a.status != 422 {
		t.Errorf("a strange event: %d", a.status)
	}

	const module = "/api/v1/policies/{policy}/versions/{version}/module"
	const version = "/api/v1/policies/{policy}/versions/{version}"
	code := wasmtest.Policy(`{"abi":"1.0","hooks":["assemble"],"name":"own","version":"7","tests":[{"name":"keeps",
		"messages":[{"role":"user","content":"a"}],"expect":["keep"]}]}`, wasmtest.Keep())
	a := p.do(p.key, "POST", "/api/v1/policies?name=own", string(code), "Content-Type", "application/wasm")
	c.check("POST", "/api/v1/policies", a)
	if a.status != 201 {
		t.Errorf("uploading: %d %s", a.status, a.body)
	}
	own := []string{"{policy}", "own", "{version}", "1"}
	shown := try(reader, "GET", version, "", "", 200, own...)
	if !strings.Contains(string(shown.body), `"tests":[{"name":"keeps"`) ||
		!strings.Contains(string(shown.body), `"version":"7"`) {
		t.Errorf("the version shows %s", shown.body)
	}
	got := try(reader, "GET", module, "", "", 200, own...)
	if string(got.body) != string(code) || got.header.Get("Content-Disposition") != `attachment; filename="own-1.wasm"` {
		t.Errorf("the module came back otherwise: %d bytes, %v", len(got.body), got.header)
	}
	try(reader, "GET", module, "", "", 200, "{policy}", "tool-pair-trim", "{version}", "1")
	try(reader, "GET", version, "", "", 200, "{policy}", "tool-pair-trim", "{version}", "1")
	try(reader, "GET", module, "", "", 404, "{policy}", "own", "{version}", "2")
	try(p.key, "DELETE", "/api/v1/policies/{policy}", "", "", 204, own...)
}
