package e2e

import (
	"encoding/json"
	"strings"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// matrixRow is one route: who may, and a request that succeeds for whoever may. In path, query and body {name} stands for
// a thing of the tenant (see tenancy), {new} for an id that nobody has used.
type matrixRow struct {
	route string // method and path as in openapi.json
	least string // the lowest role that may
	ok    int    // status of the success
	body  string // JSON

	query string
	// in and out are the statuses for a tenant_admin's key narrowed to the project, and to another one; 0: what follows
	// from the route: below a project ok and 404, elsewhere ok and ok.
	in, out int
	// send is how to ask, where that is not plain.
	send func(c client, method, path, body string) reply
	// consumes: the success takes away a thing that other rows need.
	consumes bool
	// varies: answers differ from one time to the next by themselves.
	varies bool
}

// matrixRows has a row for every route that there is: the matrix fails without.
func matrixRows() []matrixRow {
	const (
		open, reader, agent, admin, root = "open", "reader", "agent", "tenant_admin", "root"

		project  = "/api/v1/projects/{project}"
		session  = project + "/sessions/{session}"
		decision = project + "/decisions/{decision}"
		policy   = "/api/v1/policies/{policy}"
		version  = policy + "/versions/{version}"

		file = `{"version":1,"session":{"id":"{new}"},"turns":[{"turn":1,"messages":[` +
			`{"format":"openai.chat","message":{"role":"user","content":"{marker}"}}]}]}`
	)
	return []matrixRow{
		{route: "GET /healthz", least: open, ok: 200},
		{route: "GET /readyz", least: open, ok: 200},
		{route: "GET /metrics", least: open, ok: 200, varies: true},
		{route: "GET /openapi.json", least: open, ok: 200},

		{route: "GET /api/v1/projects", least: reader, ok: 200},
		{route: "GET " + project, least: reader, ok: 200},
		{route: "GET " + project + "/settings", least: reader, ok: 200},
		{route: "GET " + project + "/sessions", least: reader, ok: 200},
		{route: "GET " + session, least: reader, ok: 200},
		{route: "GET " + session + "/messages", least: reader, ok: 200},
		{route: "GET " + session + "/export", least: reader, ok: 200},
		{route: "GET " + decision, least: reader, ok: 200},
		{route: "POST " + decision + "/replay", least: reader, ok: 200},
		{route: "POST " + project + "/context", least: reader, ok: 200, body: `{"session_id":"{session}","explain":true}`},
		{route: "GET /api/v1/policies", least: reader, ok: 200},
		{route: "GET " + policy, least: reader, ok: 200},
		{route: "GET " + version, least: reader, ok: 200},
		{route: "POST " + version + "/run", least: admin, ok: 200, body: `{"messages":[{"role":"user","content":"{marker}"}]}`},
		{route: "POST " + version + "/replay", least: admin, ok: 200, body: `{"project":"{project}"}`, out: 404},
		{route: "GET /api/v1/usage", least: admin, ok: 200, in: 403, out: 403},
		{route: "GET /api/v1/audit", least: admin, ok: 200, in: 403, out: 403},
		{route: "GET /api/v1/keys", least: admin, ok: 200},
		{route: "GET /api/v1/tenants", least: root, ok: 200},
		{route: "GET /api/v1/admin/backup", least: root, ok: 200},

		{route: "POST " + project + "/turns", least: agent, ok: 201,
			body: `{"session_id":"{session}","messages":[{"role":"user","content":"{marker}"}]}`},
		{route: "POST " + project + "/sessions", least: agent, ok: 201, body: `{"id":"{new}","title":"{marker}"}`},
		{route: "POST " + project + "/sessions/import", least: agent, ok: 201, body: file},
		{route: "POST " + session + "/summary", least: agent, ok: 200, body: `{"action":"reset"}`},
		{route: "PUT " + project, least: admin, ok: 200, body: `{"name":"{marker}"}`},
		{route: "PATCH " + project + "/settings", least: admin, ok: 200, body: `{"history_max_messages":49}`},
		{route: "POST /api/v1/policies", least: admin, ok: 201, query: "name={new}", send: sendModule, in: 403, out: 403},
		{route: "PUT " + policy + "/live", least: admin, ok: 200, body: `{"version":2}`, in: 403, out: 403},
		{route: "POST /api/v1/keys", least: admin, ok: 201, out: 404,
			body: `{"name":"{marker}","role":"reader","projects":["{project}"]}`},
		// The key is one of the whole tenant, which a narrowed one does not see.
		{route: "POST /api/v1/keys/{key}/rotate", least: admin, ok: 200, in: 404, out: 404},
		{route: "POST /api/v1/tenants", least: root, ok: 201, body: `{"id":"{new}","name":"{marker}"}`},

		{route: "DELETE " + session, least: agent, ok: 204, consumes: true},
		{route: "DELETE " + version, least: admin, ok: 204, in: 403, out: 403, consumes: true},
		{route: "DELETE " + policy, least: admin, ok: 204, in: 403, out: 403, consumes: true},
		{route: "DELETE " + project, least: admin, ok: 204, consumes: true},
		{route: "DELETE /api/v1/keys/{key}", least: admin, ok: 204, in: 404, out: 404, consumes: true},
		{route: "DELETE /api/v1/tenants/{tenant}", least: root, ok: 204, consumes: true},
	}
}

// sendModule uploads a module that nobody has uploaded before.
func sendModule(c client, method, path, _ string) reply {
	module := wasmtest.Policy(wasmtest.Manifest(mneme.unique("matrix")), wasmtest.Keep())
	return c.do(method, path, module, "Content-Type", "application/wasm")
}

// furnish gives a tenant one of each thing that rows name: the names are the same in every tenant where a client
// chooses them, and what they hold bears the tenant's marker.
func (h *tenancy) furnish() {
	c := h.admin
	h.things["project"], h.things["session"], h.things["policy"], h.things["version"] = "shared", "same", "own", "1"
	c.do("PUT", "/api/v1/projects/shared", object{"name": h.marker}).want(201)
	c.do("PUT", "/api/v1/projects/elsewhere", object{}).want(201)
	c.post("/api/v1/projects/shared/sessions", object{"id": "same", "title": h.marker}).want(201)
	var turn turnAnswer
	c.post("/api/v1/projects/shared/turns", object{"session_id": "same", "messages": []object{user("I am " + h.marker),
		calling("call", "f", `{"of":"`+h.marker+`"}`), result("call", h.marker), assistant(h.marker)}}).want(201).into(&turn)
	h.secrets = append(h.secrets, turn.Messages[0].ID[:len("msg_")+8])
	var window struct {
		DecisionID string `json:"decision_id"`
	}
	c.post("/api/v1/projects/shared/context", object{"session_id": "same", "system": h.marker}).want(200).into(&window)
	h.things["decision"] = window.DecisionID
	for _, text := range []string{"one", "two"} {
		c.upload("own", wasmtest.Policy(wasmtest.Manifest("matrix "+text), wasmtest.Keep())).want(201)
	}
	c.do("PUT", "/api/v1/policies/own/live", object{"version": 2}).want(200)
	var spare struct{ ID, Key string }
	c.post("/api/v1/keys", object{"name": h.marker, "role": "agent"}).want(201).into(&spare)
	h.things["key"] = spare.ID
	h.secrets = append(h.secrets, window.DecisionID, spare.ID)
}

// describedRoutes are all routes of openapi.json.
func describedRoutes(c client) map[string]bool {
	var description struct {
		Paths map[string]map[string]json.RawMessage
	}
	c.get("/openapi.json").want(200).into(&description)
	routes := map[string]bool{}
	for path, methods := range description.Paths {
		for method := range methods {
			if method != "parameters" {
				routes[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	return routes
}
