package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// contract is the served description, prepared for comparing responses with it.
type contract struct {
	t        testing.TB
	doc      map[string]any
	compiler *jsonschema.Compiler
	seen     map[string]bool // "METHOD /path status" of every response that was checked
}

func readContract(t testing.TB, p *program) *contract {
	t.Helper()
	var doc map[string]any
	for _, path := range []string{"/openapi-proxy.json", "/openapi.json"} {
		raw, err := jsonschema.UnmarshalJSON(bytes.NewReader(p.do("", "GET", path, "").body))
		if err != nil {
			t.Fatal(err)
		}
		other := doc
		doc = raw.(map[string]any)
		merge(doc, other)
	}
	for _, schema := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		closed(schema)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return &contract{t, doc, c, map[string]bool{}}
}

// merge adds the members of another object, at any depth.
func merge(into, other map[string]any) {
	for name, value := range other {
		mine, ok := into[name].(map[string]any)
		if its, both := value.(map[string]any); ok && both {
			merge(mine, its)
		} else if into[name] == nil {
			into[name] = value
		}
	}
}

// closed makes schemas refuse fields that they do not name. Clients must accept new fields, but in this test a field
// that the description lacks is an error.
func closed(schema any) {
	switch schema := schema.(type) {
	case map[string]any:
		_, named := schema["properties"]
		if _, said := schema["additionalProperties"]; named && !said {
			schema["additionalProperties"] = false
		}
		for _, child := range schema {
			closed(child)
		}
	case []any:
		for _, child := range schema {
			closed(child)
		}
	}
}

// check compares a response with the description of its route and status.
func (c *contract) check(method, route string, a answer) {
	c.t.Helper()
	name := fmt.Sprintf("%s %s %d", method, route, a.status)
	c.seen[name] = true
	item := c.doc["paths"].(map[string]any)[route].(map[string]any)
	responses := item[strings.ToLower(method)].(map[string]any)["responses"].(map[string]any)
	response, ok := responses[fmt.Sprint(a.status)].(map[string]any)
	if !ok {
		c.t.Errorf("%s: the status is not described; body %s", name, a.body)
		return
	}
	if ref, ok := response["$ref"].(string); ok {
		shared := c.doc["components"].(map[string]any)["responses"].(map[string]any)
		response = shared[ref[strings.LastIndex(ref, "/")+1:]].(map[string]any)
	}
	contents, _ := response["content"].(map[string]any)
	if len(contents) == 0 {
		if len(a.body) > 0 {
			c.t.Errorf("%s: a body where none is described: %s", name, a.body)
		}
		return
	}
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	content, ok := contents[media].(map[string]any)
	if !ok {
		content, ok = contents["*/*"].(map[string]any)
	}
	if !ok {
		c.t.Errorf("%s: content type %q is not described", name, media)
		return
	}
	ref, ok := content["schema"].(map[string]any)["$ref"].(string)
	if !ok {
		return
	}
	schema, err := c.compiler.Compile("openapi.json" + ref)
	if err != nil {
		c.t.Fatalf("%s: %v", ref, err)
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	if err != nil {
		c.t.Errorf("%s: %v in %q", name, err, a.body)
	} else if err := schema.Validate(body); err != nil {
		c.t.Errorf("%s: %v\nbody: %s", name, err, a.body)
	}
}

// Real responses of every route, successes and failures, match the description.
func TestAnswersFitTheDescription(t *testing.T) {
	provider := anyProvider(t)
	p := launch(t, t.TempDir(), "--proxy-upstreams", provider)
	c := readContract(t, p)
	const (
		project  = "/api/v1/projects/{project}"
		session  = project + "/sessions/{session}"
		decision = project + "/decisions/{decision}"
	)
	// try sends a request to a route, with its parameters replaced from pairs, and checks the response.
	try := func(key, method, route, body string, status int, parts ...string) answer {
		t.Helper()
		path := strings.NewReplacer(append(parts, "{project}", "default")...).Replace(route)
		if key == rootKey && !strings.Contains(route, "/tenants") && strings.HasPrefix(route, "/api/") {
			path += "?tenant=default"
		}
		a := p.do(key, method, path, body)
		if a.status != status {
			t.Errorf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
		}
		c.check(method, route, a)
		return a
	}

	for _, route := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/openapi-proxy.json", "/errors"} {
		try("", "GET", route, "", 200)
	}

	agent := try(p.key, "POST", "/api/v1/keys",
		`{"name":"worker","role":"agent","agent":"main","projects":["default"]}`, 201)
	eyes := try(p.key, "POST", "/api/v1/keys", `{"name":"eyes","role":"reader","expires_at":"2999-01-01T00:00:00"}`,
		201)
	reader := eyes.text(t, "key")
	try(p.key, "POST", "/api/v1/keys", `{"role":"root"}`, 422)
	try(reader, "POST", "/api/v1/keys", `{}`, 403)
	try(p.key, "POST", "/api/v1/keys/{key}/rotate", "", 200, "{key}", agent.text(t, "id"))
	try(p.key, "GET", "/api/v1/keys", "", 200)
	worker := agent.text(t, "key") // which remains valid for a while

	const turn = `{"session_id":"s1","agent":"main","messages":[
		{"role":"system","content":"no"},
		{"role":"user","content":"Oslo?","tags":["weather"]},
		{"role":"assistant","content":null,"tool_calls":[
			{"id":"c1","type":"function","function":{"name":"weather","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"4 °C"},
		{"role":"assistant","content":"<b>4 °C</b>","delegation_id":null}]}`
	try(worker, "POST", project+"/turns", turn, 201)
	try(worker, "POST", project+"/turns", `{"messages":[{"role":"user","content":"hello"}]}`, 201)
	try(worker, "POST", project+"/turns", `{`, 400)
	try("", "POST", project+"/turns", turn, 401)
	try("mk_unknown", "POST", project+"/turns", turn, 401)
	try(reader, "POST", project+"/turns", turn, 403)
	try(worker, "POST", project+"/turns", turn, 404, "{project}", "elsewhere")
	try(worker, "POST", project+"/turns", `{"messages":[{"role":"tool","tool_call_id":"none","content":"x"}]}`, 422)
	try(worker, "POST", project+"/turns", `{"mesages":[]}`, 422)

	made := try(reader, "POST", project+"/context", `{"session_id":"s1","system":"be brief","explain":true}`, 200)
	for _, format := range []string{"anthropic.messages", "openai.responses", "text"} {
		body := `{"session_id":"s1","system":"be brief","format":"` + format + `","explain":true}`
		try(reader, "POST", project+"/context", body, 200)
	}
	try(reader, "POST", project+"/context", ``, 200)
	long := `{"session_id":"long","messages":[` + strings.Repeat(`{"role":"user","content":"more"},`, 299) +
		`{"role":"user","content":"last"}]}`
	try(worker, "POST", project+"/turns", long, 201)
	try(reader, "POST", project+"/context", `{"session_id":"long","budget":{"max_messages":10},"explain":true}`, 200)
	try(reader, "POST", project+"/context", `{"session_id":"s1","budget":{"max_tokens":1}}`, 422)
	try(reader, "GET", decision, "", 200, "{decision}", made.text(t, "decision_id"))
	try(reader, "POST", decision+"/replay", "", 200, "{decision}", made.text(t, "decision_id"))
	try(reader, "POST", decision+"/fork", `{"budget":{"max_messages":2},"format":"anthropic.messages","viewer":{"agent":"b"},
		"settings":{"session_history_depth":1},"pipeline":[{"policy":"tool-pair-trim"}],"record":true}`, 200, "{decision}",
		made.text(t, "decision_id"))
	try(reader, "POST", decision+"/fork", "", 200, "{decision}", made.text(t, "decision_id"))
	try(reader, "POST", decision+"/fork", `{"settings":{"depth":1}}`, 422, "{decision}", made.text(t, "decision_id"))
	try(reader, "GET", decision+"/case", "", 200, "{decision}", made.text(t, "decision_id"))
	try(reader, "GET", decision+"/case", "", 422, "/case", "/case?step=99", "{decision}", made.text(t, "decision_id"))
	try(reader, "GET", decision+"/case", "", 404, "{decision}", "dec_none")
	try(reader, "POST", decision+"/fork", "", 404, "{decision}", "dec_none")
	try(reader, "GET", decision, "", 404, "{decision}", "dec_none")
	try(reader, "GET", project+"/decisions", "", 200)
	try(reader, "GET", project+"/decisions", "", 200, "/decisions", "/decisions?session_id=s1&policy=summarise&limit=1")
	try(reader, "GET", project+"/decisions", "", 422, "/decisions", "/decisions?outcome=fine")
	try(reader, "POST", project+"/context", `{"session_id":"s1","record":false}`, 200)

	try(p.key, "POST", "/api/v1/projects", `{"id":"made","name":"Made"}`, 201)
	try(p.key, "POST", "/api/v1/projects", `{"id":"made"}`, 409)
	try(p.key, "POST", "/api/v1/projects", `{}`, 422)
	try(p.key, "PUT", project, `{"name":"Support"}`, 201, "{project}", "support")
	try(p.key, "PUT", project, `{"name":"Support desk"}`, 200, "{project}", "support")
	try(reader, "GET", "/api/v1/projects", "", 200)
	try(reader, "GET", project, "", 200)
	try(worker, "GET", project, "", 404, "{project}", "support")
	try(p.key, "DELETE", project, "", 204, "{project}", "support")
	try(reader, "GET", project+"/settings", "", 200)
	try(p.key, "PATCH", project+"/settings",
		`{"session_history_depth":10,"pipeline":[{"policy":"tool-pair-trim","config":{}}]}`, 200)
	try(p.key, "PATCH", project+"/settings", `{"session_history_depth":101}`, 422)
	try(p.key, "PATCH", project+"/settings", `{"session_history_dept":10}`, 422)

	try(worker, "POST", project+"/sessions", `{"id":"nightly","kind":"background","title":"Nightly"}`, 201)
	try(worker, "POST", project+"/sessions", `{"id":"nightly"}`, 409)
	try(reader, "GET", project+"/sessions", "", 200)
	try(reader, "GET", session, "", 200, "{session}", "s1")
	try(reader, "GET", session, "", 200, "{session}", "dashboard")
	try(reader, "GET", session, "", 404, "{session}", "none")
	list := try(reader, "GET", session+"/messages", "", 200, "{session}", "s1")
	try(reader, "GET", session+"/messages/{message}", "", 200, "{session}", "s1", "{message}", list.json(t)["data"].([]any)[0].(map[string]any)["id"].(string))
	try(reader, "GET", session+"/messages/{message}", "", 404, "{session}", "s1", "{message}", "msg_1")
	try(reader, "GET", session+"/turns/{turn}", "", 200, "{session}", "s1", "{turn}", "1")
	try(reader, "GET", session+"/turns/{turn}", "", 404, "{session}", "s1", "{turn}", "9")
	file := try(reader, "GET", session+"/export", "", 200, "{session}", "s1")
	try(worker, "POST", project+"/sessions/import", string(file.body), 409)
	try(worker, "DELETE", session, "", 204, "{session}", "s1")
	try(worker, "POST", project+"/sessions/import", string(file.body), 201)
	try(rootKey, "GET", session+"/export", "", 200, "{session}", "s1")
	foreign := p.do(worker, "POST", "/api/v1/projects/default/import/foreign",
		`[{"role":"user","content":"Oslo?"},{"role":"assistant","content":"4 °C"}]`, "Content-Type", "application/octet-stream")
	if foreign.status != 200 {
		t.Errorf("importing: %d %s", foreign.status, foreign.body)
	}
	c.check("POST", project+"/import/foreign", foreign)

	try(worker, "POST", session+"/summary", `{"action":"reset"}`, 200, "{session}", "s1")
	try(worker, "POST", session+"/summary", `{"action":"refresh"}`, 409, "{session}", "s1")
	try(worker, "POST", session+"/summary", `{"action":"forget"}`, 422, "{session}", "s1")
	try(reader, "POST", session+"/summary", `{"action":"reset"}`, 403, "{session}", "s1")
	try(p.key, "POST", session+"/erase", "", 200, "{session}", "s1")
	try(p.key, "POST", session+"/erase", "", 404, "{session}", "none")
	try(p.key, "GET", "/api/v1/usage", "", 200)
	try(reader, "GET", "/api/v1/usage", "", 403)

	c.policies(t, p, reader)
	c.memories(t, p, worker, reader)
	c.administration(t, p, reader)
	c.boards(t, p, worker, reader)
	c.rewinds(t, p, worker, reader)
	c.console(t, p, worker, reader)
	c.proxy(t, p, provider, worker, reader)

	try(rootKey, "POST", "/api/v1/tenants", `{"id":"acme","name":"Acme"}`, 201)
	try(rootKey, "POST", "/api/v1/tenants", `{"id":"acme"}`, 409)
	try(p.key, "POST", "/api/v1/tenants", `{"id":"other"}`, 403)
	try(rootKey, "GET", "/api/v1/tenants", "", 200)
	try(rootKey, "DELETE", "/api/v1/tenants/{tenant}", "", 204, "{tenant}", "acme")
	try(p.key, "DELETE", "/api/v1/keys/{key}", "", 204, "{key}", agent.text(t, "id"))
	try(rootKey, "GET", "/api/v1/admin/backup", "", 200)
	try(p.key, "GET", "/api/v1/admin/backup", "", 403)

	c.complete()
}

// complete reports the successes in the description that were never seen.
func (c *contract) complete() {
	c.t.Helper()
	for route, item := range c.doc["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			for status := range operation.(map[string]any)["responses"].(map[string]any) {
				name := fmt.Sprintf("%s %s %s", strings.ToUpper(method), route, status)
				if strings.HasPrefix(status, "2") && !c.seen[name] {
					c.t.Errorf("%s was never answered", name)
				}
			}
		}
	}
}
