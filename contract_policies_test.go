package main

import (
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// policies uses a policy from upload to deletion, and compares each response with the description.
func (c *contract) policies(t *testing.T, p *program, reader string) {
	t.Helper()
	const (
		all     = "/api/v1/policies"
		policy  = all + "/{policy}"
		version = policy + "/versions/{version}"
	)
	try := func(key, method, route, query, body string, status int) {
		t.Helper()
		path := strings.NewReplacer("{policy}", "mine", "{version}", "1").Replace(route) + query
		a := p.do(key, method, path, body)
		if a.status != status {
			t.Errorf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
		}
		c.check(method, route, a)
	}
	upload := func(key, query string, module []byte, status int) {
		t.Helper()
		a := p.do(key, "POST", all+query, string(module), "Content-Type", "application/wasm")
		if a.status != status {
			t.Errorf("uploading %s: status %d, want %d: %s", query, a.status, status, a.body)
		}
		c.check("POST", all, a)
	}
	trap := wasmtest.Policy(`{"abi":"1.0","hooks":["assemble"],"config":{"n":{"type":"integer","default":1,`+
		`"minimum":0}}}`,
		wasmtest.Trap())
	upload(p.key, "?name=mine", wasmtest.Policy(wasmtest.Manifest("1"), wasmtest.Keep()), 201)
	upload(p.key, "?name=mine", wasmtest.Policy(wasmtest.Manifest("1"), wasmtest.Keep()), 200)
	upload(p.key, "?name=mine", trap, 201)
	upload(p.key, "?name=mine", []byte("no module"), 422)
	upload(p.key, "?name=summarise@1", trap, 422)
	upload(p.key, "?name=tool-pair-trim", trap, 409)
	upload(reader, "?name=mine", trap, 403)

	const context = `{"messages":[{"role":"user","content":"hello"}]}`
	try(p.key, "PUT", policy+"/live", "", `{"version":2}`, 200)
	pipeline := func(value string) {
		a := p.do(p.key, "PATCH", "/api/v1/projects/default/settings", `{"pipeline":`+value+`}`)
		c.check("PATCH", "/api/v1/projects/{project}/settings", a)
	}
	pipeline(`[{"policy":"mine"}]`)
	for range 5 {
		a := p.do(reader, "POST", "/api/v1/projects/default/context", `{"explain":true}`)
		c.check("POST", "/api/v1/projects/{project}/context", a)
	}
	try(reader, "GET", policy, "", "", 200) // after an earlier version was restored
	try(reader, "GET", all, "", "", 200)
	try(reader, "GET", all, "?limit=0", "", 422)
	try(reader, "GET", version, "", "", 200)
	try(p.key, "PUT", policy+"/live", "", `{"version":9}`, 404)
	try(p.key, "POST", version+"/run", "", context, 200)
	try(p.key, "POST", version+"/run", "", `{"messages":[{"role":"system","content":"x"}],"format":"text"}`, 200)
	try(p.key, "POST", version+"/run", "", `{}`, 422)
	try(p.key, "POST", version+"/replay", "", `{"project_id":"default","against":"2"}`, 200)
	try(p.key, "POST", version+"/replay", "", `{"project_id":"default","against":"none"}`, 200)
	try(p.key, "POST", version+"/replay", "", `{"project_id":"none"}`, 404)
	try(p.key, "DELETE", version, "", "", 409)
	try(p.key, "PUT", policy+"/live", "", `{"version":2}`, 200)
	try(p.key, "DELETE", version, "", "", 204)
	try(p.key, "DELETE", policy, "", "", 409)
	pipeline(`null`)
	try(p.key, "DELETE", policy, "", "", 204)
	try(p.key, "DELETE", policy, "", "", 404)
	try(p.key, "GET", "/api/v1/audit", "", "", 200)
	try(reader, "GET", "/api/v1/audit", "", "", 403)
}
