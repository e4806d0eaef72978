package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// memories uses the routes of memories and tools, and compares each response with the description.
func (c *contract) memories(t *testing.T, p *program, worker, reader string) {
	t.Helper()
	const (
		all    = "/api/v1/projects/{project}/memories"
		memory = all + "/{memory}"
		tools  = "/api/v1/tools"
		call   = "/api/v1/projects/{project}/tools/call"
	)
	try := func(key, method, route, query, body string, status int) answer {
		t.Helper()
		path := strings.NewReplacer("{project}", "default", "{memory}", "user_language").Replace(route) + query
		a := p.do(key, method, path, body)
		if a.status != status {
			t.Errorf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
		}
		c.check(method, route, a)
		return a
	}
	try(worker, "POST", all, "", `{"key":"user_language","content":"German","tags":["user","a b"],"importance":1}`, 201)
	try(worker, "POST", all, "", `{"key":"user_language","content":"French","category":"daily","session_id":"s1"}`, 200)
	try(worker, "POST", all, "", `{"content":"said in passing","category":"conversation","source":"chat"}`, 201)
	try(worker, "POST", all, "", `{"content":"x","category":"core","expires_at":"2999-01-01T00:00:00Z"}`, 422)
	try(worker, "POST", all, "", `{"content":"x","expires":"never"}`, 422)
	try(worker, "POST", all, "", `{"content":"`+strings.Repeat("x", 1<<20)+`x"}`, 413)
	try(reader, "POST", all, "", `{"content":"x"}`, 403)
	try(reader, "GET", all, "", "", 200)
	try(reader, "GET", all, "?limit=1", "", 200)
	try(reader, "GET", all, "?tags=user&tags=other&since=2026-01-01&category=core", "", 200)
	try(reader, "GET", all, "?category=other", "", 422)
	try(worker, "POST", all, "", `{"key":"user_language","namespace":["users","1"],"value":{"lang":"no","n":1.0},`+
		`"metadata":{"by":"survey","sure":true,"n":2},"occurred_at":"1912-04-15T00:00:00+02:00"}`, 201)
	try(worker, "POST", all, "", `{"content":"x","metadata":{"deep":{}}}`, 422)
	try(worker, "POST", all, "", `{"content":"x","namespace":[" "]}`, 422)
	try(worker, "POST", all, "", `{"key":"empty","namespace":null}`, 422)
	const in = "?namespace=users&namespace=1"
	try(reader, "GET", memory, in, "", 200)
	try(reader, "GET", memory, "?namespace=users", "", 404)
	try(reader, "GET", memory, "?namespace=", "", 422)
	try(reader, "GET", memory+"/history", "?namespace=", "", 422)
	try(worker, "DELETE", memory, "?namespace=%01", "", 422)
	try(reader, "GET", memory+"/history", in, "", 200)
	try(reader, "GET", all, `?namespace=users&categories=core&categories=daily&tags_not=x&metadata={"by":"survey"}`+
		`&value={"lang":{"$in":["no"]}}&until=1912-04-14`, "", 200)
	try(reader, "GET", all, `?value=lang`, "", 422)
	try(reader, "GET", all, `?metadata={"n":{"$near":1}}`, "", 422)
	try(worker, "POST", all+"/recall", "", `{"query":"lang","namespace":["users"],"tags_any":[],"min_score":0.001,`+
		`"value":{"lang":"no"},"metadata":{"n":{"$gte":2}},"categories":["core"]}`, 200)
	try(worker, "POST", all+"/recall", "", `{"query":"*","min_score":1}`, 422)
	shown := try(reader, "POST", "/api/v1/projects/{project}/context", "", `{"memories":{"query":"lang","limit":2}}`, 200)
	var spaced struct {
		DecisionID string `json:"decision_id"`
		Memories   []struct {
			Key       string
			Namespace []string
		}
	}
	if err := json.Unmarshal(shown.body, &spaced); err != nil || len(spaced.Memories) != 1 ||
		len(spaced.Memories[0].Namespace) != 2 || spaced.Memories[0].Key != "user_language" {
		t.Errorf("a window with a memory in a namespace: %v %s", err, shown.body)
	}
	c.check("GET", "/api/v1/projects/{project}/decisions/{decision}",
		p.do(reader, "GET", "/api/v1/projects/default/decisions/"+spaced.DecisionID, ""))
	const forget, spaces = all + "/forget", "/api/v1/projects/{project}/namespaces"
	try(reader, "GET", spaces, "", "", 200)
	try(reader, "GET", spaces, "?namespace=users&limit=1", "", 200)
	try(reader, "GET", spaces, "?cursor=eA", "", 422)
	for _, order := range []string{"key", "recent"} {
		try(reader, "GET", all, "?limit=1&order="+order, "", 200)
		try(reader, "GET", all, "?cursor=AAAA&order="+order, "", 422)
	}
	try(reader, "GET", all, "?order=name", "", 422)
	try(reader, "GET", all, `?metadata={"$or":[]}`, "", 422)
	c.conditionalWrites(t, p, worker)
	try(worker, "POST", forget, "", `{"namespace":["users"],"dry_run":true}`, 200)
	try(worker, "POST", forget, "", `{"value":{"lang":"de"},"metadata":{"by":"survey"}}`, 200)
	try(worker, "POST", forget, "", `{"dry_run":true}`, 422)
	try(reader, "POST", forget, "", `{"namespace":["users"]}`, 403)
	try(reader, "GET", memory, in, "", 200)
	try(worker, "DELETE", memory, in, "", 204)
	try(reader, "GET", memory, "", "", 200)
	try(reader, "GET", memory+"/history", "", "", 200)
	try(reader, "GET", memory+"/why", "", "", 200)
	try(worker, "POST", all+"/recall", "", `{"query":"french","limit":3}`, 200)
	const context, decision = "/api/v1/projects/{project}/context", "/api/v1/projects/{project}/decisions/"
	made := try(reader, "POST", context, "", `{"memories":{"query":"French","limit":2},"explain":true}`, 200)
	var w struct {
		DecisionID string `json:"decision_id"`
		Memories   []struct {
			Key      string
			Injected bool
		}
	}
	if err := json.Unmarshal(made.body, &w); err != nil || len(w.Memories) != 1 ||
		w.Memories[0].Key != "user_language" ||
		!w.Memories[0].Injected {
		t.Errorf("a window with memories: %v %s", err, made.body)
	}
	try(reader, "POST", context, "", `{"memories":{"limit":101}}`, 422)
	try(reader, "POST", context, "", `{"memories":{"key":"user_language"}}`, 422)
	named := p.do(reader, "GET", strings.ReplaceAll(decision, "{project}", "default")+w.DecisionID, "")
	c.check("GET", decision+"{decision}", named)
	if !strings.Contains(string(named.body), `"memories":[{"key":"user_language","version":2`) {
		t.Errorf("the decision says %s", named.body)
	}
	try(reader, "POST", all+"/recall", "", `{"query":"french"}`, 403)
	try(reader, "DELETE", memory, "", "", 403)
	try(worker, "DELETE", memory, "", "", 204)
	try(worker, "DELETE", memory, "", "", 404)
	try(reader, "GET", memory, "", "", 404)
	try(reader, "GET", memory+"/history", "", "", 404)
	try(reader, "GET", memory+"/why", "", "", 404)

	for _, format := range []string{"", "?format=openai", "?format=anthropic", "?format=mcp"} {
		try(reader, "GET", tools, format, "", 200)
	}
	try(reader, "GET", tools, "?format=gemini", "", 422)
	try(worker, "POST", call, "", `{"name":"memory_store","arguments":{"key":"user name","content":"Ada"}}`, 200)
	try(worker, "POST", call, "", `{"name":"memory_recall","arguments":"{\"query\":\"ada\"}","session_id":"s1"}`, 200)
	try(worker, "POST", call, "", `{"name":"memory_forget","arguments":{"key":"user name"}}`, 200)
	try(worker, "POST", call, "", `{"name":"memory_forget","arguments":{}}`, 200)
	try(worker, "POST", call, "", `{"name":"memory_list","arguments":{"limit":1}}`, 200)
	try(worker, "POST", call, "", `{"name":"memory_get","arguments":{"key":"nobody"}}`, 200)
	try(worker, "POST", call, "", `{"name":"memory","arguments":{"command":"view","path":"/memories"}}`, 200)
	try(worker, "POST", call, "", `{"name":"memory","arguments":{"command":"view","path":"/memories/../x"}}`, 200)
	try(worker, "POST", call, "", `{"name":"memory","arguments":{"command":"chmod"}}`, 200)
	try(worker, "POST", call, "", `{"name":"no_such_tool"}`, 200)
	try(worker, "POST", call, "", `{}`, 200)
	try(reader, "POST", call, "", `{"name":"memory_recall"}`, 403)

	const mcp = "/mcp"
	try(worker, "POST", mcp, "", `{"jsonrpc":"2.0","id":1,"method":"initialize",`+
		`"params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, 200)
	try(worker, "POST", mcp, "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202)
	try(worker, "POST", mcp, "?project=default", `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`, 200)
	try(worker, "POST", mcp, "", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"memory_recall",`+
		`"arguments":{"query":"*"}}}`, 200)
	try(worker, "POST", mcp, "", `[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","id":4,"method":"ping"}]`,
		200)
	try(worker, "POST", mcp, "", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"other"}}`, 200)
	try(worker, "POST", mcp, "", `{"method":`, 400)
	try("", "POST", mcp, "", `{}`, 401)
	try(reader, "POST", mcp, "", `{}`, 403)
}

// conditionalWrites tests ETags, PUT and PATCH.
func (c *contract) conditionalWrites(t *testing.T, p *program, worker string) {
	t.Helper()
	const route = "/api/v1/projects/{project}/memories/{memory}"
	const path = "/api/v1/projects/default/memories/counter"
	tag := ""
	try := func(method, query, body string, status int, headers ...string) answer {
		t.Helper()
		a := p.do(worker, method, path+query, body, headers...)
		if a.status != status {
			t.Errorf("%s %s %s %v: status %d, want %d: %s", method, query, body, headers, a.status, status, a.body)
		}
		if status != 304 {
			c.check(method, route, a)
		}
		now := a.header.Get("ETag")
		if status < 300 && method != "DELETE" {
			if tag = now; a.text(t, "etag") != tag {
				t.Errorf("%s: the header has the ETag %q: %s", method, tag, a.body)
			}
		}
		return a
	}
	try("PUT", "", `{"content":"one","tags":["a"]}`, 201, "If-None-Match", "*")
	try("PUT", "", `{"content":"one"}`, 412, "If-None-Match", "*")
	try("PUT", "", `{"content":"one","tags":["a"]}`, 200)
	try("PUT", "", `{"key":"other","content":"one"}`, 422)
	try("PUT", "?namespace=a", `{"namespace":["b"],"content":"one"}`, 422)
	try("GET", "", "", 304, "If-None-Match", `W/"0-00000000", `+tag)
	try("GET", "", "", 200, "If-None-Match", `"0-00000000"`)
	first := tag
	try("PATCH", "", `{"content":"two","expires_at":null}`, 200, "If-Match", first, "Content-Type", "application/merge-patch+json")
	lost := try("PATCH", "", `{"content":"three"}`, 412, "If-Match", first)
	if lost.text(t, "code") != "version_mismatch" || lost.text(t, "etag") != tag || lost.json(t)["version"] != 3.0 {
		t.Errorf("a lost race is told as %s", lost.body)
	}
	kept := try("PATCH", "", `{"category":"daily","expires_at":"2030-03-05","occurred_at":"2026-03-05"}`, 200).json(t)
	if kept["content"] != "two" || kept["expires_at"] != "2030-03-05T23:59:59.999Z" ||
		kept["occurred_at"] != "2026-03-05T00:00:00Z" || len(kept["tags"].([]any)) != 1 {
		t.Errorf("after a patch there is %v", kept)
	}
	try("PATCH", "", `{"key":"other"}`, 422)
	try("PATCH", "?namespace=absent", `{"content":"x"}`, 404)
	try("DELETE", "", "", 412, "If-Match", first)
	try("DELETE", "", "", 204, "If-Match", tag)
	try("DELETE", "", "", 412, "If-Match", "*")
}
