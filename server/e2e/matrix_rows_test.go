package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// matrixRow is one route, the roles that may use it, and a request that succeeds for them. In path, query and body,
// {name} stands for a thing of the tenant (see tenancy), {new} for an unused id.
type matrixRow struct {
	route string // method and path as in openapi.json
	least string // the lowest role with access
	ok    int    // status of a successful answer
	body  string // JSON

	query string
	// in and out are the statuses for a tenant_admin's key limited to the project, and to another project. 0 means the
	// default: below a project ok and 404, elsewhere ok and ok.
	in, out int
	// apart is the status for an agent's key limited to an empty namespace. 0 means a 403.
	apart int
	// operator is the status for the root key, with and without a tenant. 0 means 422 without one, and the usual status
	// for root with one.
	operator int
	// own means that the key alone determines the tenant, and ?tenant= changes nothing.
	own bool
	// send sends the request, if that needs more than do.
	send func(c client, method, path, body string) reply
	// consumes means that success removes a thing that other rows need.
	consumes bool
	// varies means that answers differ each time.
	varies bool
	// lines means that the answer is not a single JSON value.
	lines bool
}

// matrixRows has a row for every route; TestMatrixIsComplete checks this.
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
	rows := slices.Concat(boardRows(), memoryRows(), administrationRows(), consoleRows(), proxyRows(), []matrixRow{
		{route: "GET /healthz", least: open, ok: 200},
		{route: "GET /readyz", least: open, ok: 200},
		{route: "GET /metrics", least: open, ok: 200, varies: true},
		{route: "GET /openapi.json", least: open, ok: 200},
		{route: "GET /openapi-proxy.json", least: open, ok: 200},
		{route: "GET /errors", least: open, ok: 200},

		{route: "GET /api/v1/projects", least: reader, ok: 200},
		{route: "GET " + project, least: reader, ok: 200},
		{route: "GET " + project + "/settings", least: reader, ok: 200},
		{route: "GET " + project + "/sessions", least: reader, ok: 200, apart: 200},
		{route: "GET " + session, least: reader, ok: 200, apart: 404},
		{route: "GET " + session + "/messages", least: reader, ok: 200, apart: 404},
		{route: "GET " + session + "/messages/{message}", least: reader, ok: 200, apart: 404},
		{route: "GET " + session + "/turns/{turn}", least: reader, ok: 200, apart: 404, send: newestTurn},
		{route: "GET " + session + "/export", least: reader, ok: 200, apart: 404},
		{route: "GET " + project + "/decisions", least: reader, ok: 200, apart: 404, query: "session_id={session}&outcome=ok"},
		{route: "GET " + decision, least: reader, ok: 200, apart: 404},
		{route: "POST " + decision + "/replay", least: reader, ok: 200, apart: 404},
		{route: "GET " + decision + "/case", least: reader, ok: 200, apart: 404},
		{route: "POST " + decision + "/fork", least: reader, ok: 200, body: `{"budget":{"max_tokens":7000}}`},
		{route: "POST " + decision + "/why-not", least: reader, ok: 200, apart: 404, body: `{"message_id":"{message}"}`},
		{route: "POST " + project + "/windows/diff", least: reader, ok: 200,
			body: `{"a":{"decision_id":"{decision}"},"b":{"request":{"session_id":"{session}"}}}`},
		{route: "POST " + project + "/replay", least: reader, ok: 200,
			body: `{"settings":{"history_max_messages":40},"newest":5}`},
		{route: "GET " + project + "/settings/history", least: reader, ok: 200},
		{route: "GET " + project + "/stats", least: reader, ok: 200},
		{route: "GET " + session + "/stream", least: reader, ok: 200, apart: 404, lines: true, send: glanceBack},
		{route: "GET " + version + "/module", least: reader, ok: 200, lines: true},
		{route: "POST " + project + "/context", least: reader, ok: 200, apart: 404,
			body: `{"session_id":"{session}","explain":true}`},
		{route: "GET /api/v1/policies", least: reader, ok: 200},
		{route: "GET " + policy, least: reader, ok: 200},
		{route: "GET " + version, least: reader, ok: 200},
		{route: "POST " + version + "/run", least: admin, ok: 200,
			body: `{"messages":[{"role":"user","content":"{marker}"}]}`},
		{route: "POST " + version + "/replay", least: admin, ok: 200, body: `{"project_id":"{project}"}`, out: 404},
		{route: "GET /api/v1/usage", least: admin, ok: 200, in: 403, out: 403},
		{route: "GET /api/v1/audit", least: admin, ok: 200, in: 403, out: 403},
		{route: "GET /api/v1/keys", least: admin, ok: 200},
		{route: "GET /api/v1/tenants", least: root, ok: 200},
		{route: "GET /api/v1/admin/backup", least: root, ok: 200},

		{route: "POST " + project + "/turns", least: agent, ok: 201, apart: 404,
			body: `{"session_id":"{session}","messages":[{"role":"user","content":"{marker}"}]}`},
		{route: "POST " + project + "/sessions", least: agent, ok: 201, apart: 201, body: `{"id":"{new}","title":"{marker}"}`},
		{route: "POST " + project + "/sessions/import", least: agent, ok: 201, apart: 201, body: file},
		{route: "POST " + project + "/import/foreign", least: agent, ok: 200, send: sendForeignFile},
		{route: "POST " + session + "/rewind", least: agent, ok: 200, apart: 404, body: `{"to_turn":1}`},
		{route: "POST " + session + "/erase", least: admin, ok: 200, consumes: true},
		{route: "POST " + session + "/fork", least: agent, ok: 201, apart: 404, body: `{}`},
		{route: "POST " + session + "/summary", least: agent, ok: 200, apart: 404, body: `{"action":"reset"}`},
		{route: "POST /api/v1/projects", least: admin, ok: 201, in: 404, out: 404, body: `{"id":"{new}","name":"{marker}"}`},
		{route: "PUT " + project, least: admin, ok: 200, body: `{"name":"{marker}"}`},
		{route: "PATCH " + project + "/settings", least: admin, ok: 200, body: `{"history_max_messages":49}`},
		{route: "POST /api/v1/policies", least: admin, ok: 201, query: "name={new}", send: sendModule, in: 403,
			out: 403},
		{route: "PUT " + policy + "/live", least: admin, ok: 200, body: `{"version":2}`, in: 403, out: 403},
		{route: "POST /api/v1/keys", least: admin, ok: 201, out: 404,
			body: `{"name":"{marker}","role":"reader","projects":["{project}"]}`},
		// The key belongs to the whole tenant, so a limited key does not see it.
		{route: "POST /api/v1/keys/{key}/rotate", least: admin, ok: 200, in: 404, out: 404},
		{route: "POST /api/v1/tenants", least: root, ok: 201, body: `{"id":"{new}","name":"{marker}"}`},

		{route: "DELETE " + session, least: agent, ok: 204, apart: 404, consumes: true},
		{route: "DELETE " + version, least: admin, ok: 204, in: 403, out: 403, consumes: true},
		{route: "DELETE " + policy, least: admin, ok: 204, in: 403, out: 403, consumes: true},
		{route: "DELETE " + project, least: admin, ok: 204, consumes: true},
		{route: "DELETE /api/v1/keys/{key}", least: admin, ok: 204, in: 404, out: 404, consumes: true},
		{route: "DELETE /api/v1/tenants/{tenant}", least: root, ok: 204, consumes: true},
	})
	slices.SortStableFunc(rows, func(a, b matrixRow) int { // rows that remove something come last
		switch {
		case a.consumes == b.consumes:
			return 0
		case b.consumes:
			return -1
		}
		return 1
	})
	return rows
}

// boardRows returns the routes of boards under both prefixes. A limited key can use the boards of its projects.
func boardRows() (rows []matrixRow) {
	const reader, agent = "reader", "agent"
	boards := []string{"/api/v1/boards", "/api/v1/agent/boards"}
	for _, all := range boards {
		board, member := all+"/{board}", all+"/{board}/agents/{agent}"
		rows = append(rows, []matrixRow{
			{route: "GET " + all, least: reader, ok: 200},
			{route: "GET " + board, least: reader, ok: 200},
			{route: "GET " + board + "/stats", least: reader, ok: 200},
			{route: "GET " + board + "/export", least: reader, ok: 200, lines: true},
			{route: "GET " + board + "/memory", least: reader, ok: 200, query: "q=secret&tags=chat"},
			{route: "GET " + board + "/memory/stream", least: reader, ok: 200, query: "since=2020-01-01T00:00:00Z",
				lines: true,
				send:  glance},
			{route: "GET " + board + "/agents", least: reader, ok: 200},
			{route: "PUT " + board + "/values/{value}", least: agent, ok: 200, body: `{"value":"{marker}"}`},
			{route: "GET " + board + "/values", least: reader, ok: 200},
			{route: "GET " + board + "/values/{value}", least: reader, ok: 200},
			{route: "GET " + member, least: reader, ok: 200},
			{route: "GET " + member + "/notifications", least: reader, ok: 200},
			{route: "GET " + member + "/notifications/stream", least: reader, ok: 200,
				query: "since=2020-01-01T00:00:00Z",
				lines: true, send: glance},
			{route: "POST " + member + "/notifications/ack", least: agent, ok: 200, body: `{"up_to":"{notice}"}`},
			{route: "POST " + board + "/memory", least: agent, ok: 201,
				body: `{"content":"@helper {marker}","tags":["chat"]}`},
			{route: "PUT " + member, least: agent, ok: 200, body: `{"display_name":"{marker}"}`},
			{route: "PUT " + board, least: agent, ok: 200, body: `{"name":"{marker}"}`},
		}...)
	}
	for _, all := range boards {
		board := all + "/{board}"
		rows = append(rows, []matrixRow{
			{route: "DELETE " + board + "/memory", least: agent, ok: 200, query: "older_than_days=0", consumes: true},
			{route: "DELETE " + board + "/values/{value}", least: agent, ok: 204, consumes: true},
			{route: "DELETE " + board + "/agents/{agent}", least: agent, ok: 204, consumes: true},
			{route: "DELETE " + board, least: agent, ok: 204, consumes: true},
		}...)
	}
	return rows
}

// memoryRows returns the routes of memories and tools.
func memoryRows() []matrixRow {
	const (
		reader, agent = "reader", "agent"

		project  = "/api/v1/projects/{project}"
		memories = project + "/memories"
	)
	return []matrixRow{
		{route: "GET " + memories, least: reader, ok: 200, apart: 200},
		{route: "GET " + memories + "/{memory}", least: reader, ok: 200, apart: 404},
		{route: "GET " + memories + "/{memory}/history", least: reader, ok: 200, apart: 404},
		{route: "GET " + memories + "/{memory}/why", least: reader, ok: 200, apart: 404},
		{route: "GET " + project + "/namespaces", least: reader, ok: 200, apart: 200},
		{route: "POST " + memories + "/forget", least: agent, ok: 200, apart: 200, body: `{"tags":["{marker}"]}`, consumes: true},
		{route: "GET /api/v1/tools", least: reader, ok: 200, apart: 200},
		{route: "POST " + memories + "/recall", least: agent, ok: 200, apart: 200,
			body: `{"query":"secret {marker}","scope":"both"}`},
		{route: "POST " + project + "/tools/call", least: agent, ok: 200, apart: 200,
			body: `{"name":"memory_recall","arguments":{"query":"secret {marker}"}}`},
		{route: "POST /mcp", least: agent, ok: 200, apart: 200, body: `{"jsonrpc":"2.0","id":1,"method":"tools/call",` +
			`"params":{"name":"memory_recall","arguments":{"query":"secret {marker}"}}}`},
		{route: "POST " + memories, least: agent, ok: 201, apart: 201, body: `{"key":"{new}","content":"more of {marker}"}`},
		{route: "PATCH " + memories + "/{memory}", least: agent, ok: 200, apart: 404, body: `{"importance":0.7}`},
		{route: "PUT " + memories + "/{memory}", least: agent, ok: 200, apart: 201, body: `{"content":"more of {marker}"}`},
		{route: "DELETE " + memories + "/{memory}", least: agent, ok: 204, apart: 204, consumes: true, send: storeAndForget},
	}
}

// administrationRows returns the operator's routes for a whole tenant's data.
func administrationRows() []matrixRow {
	const (
		admin = "tenant_admin"

		conversations = "/api/v1/admin/agent/conversations"
	)
	return []matrixRow{
		{route: "GET " + conversations + "/stats", least: admin, ok: 200, query: "project_id={project}", out: 404},
		{route: "GET /api/v1/export", least: admin, ok: 200, in: 403, out: 403, varies: true, lines: true},
		{route: "POST /api/v1/import", least: admin, ok: 200, send: sendTenantFile, in: 403, out: 403},
		{route: "POST /api/v1/admin/retention", least: admin, ok: 200, in: 403, out: 403},
		{route: "DELETE " + conversations + "/purge", least: admin, ok: 200,
			query: "project_id={project}&older_than_days=0",
			out:   404, consumes: true},
	}
}

// glanceBack reads the first event of a session's stream, from the beginning of the session.
func glanceBack(c client, method, path, _ string) reply {
	return glanceBehind(c, method, path, "evt_"+strings.Repeat("0", 58)+".")
}

// glance reads the first event of a stream.
func glance(c client, method, path, _ string) reply { return glanceBehind(c, method, path, "") }

// glanceBehind reads a stream after a given event until the end of the first event, then closes it.
func glanceBehind(c client, method, path, last string) reply {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	r := reply{t: c.t, what: method + " " + path, status: res.StatusCode, header: res.Header}
	for lines := bufio.NewReader(res.Body); ; {
		line, err := lines.ReadBytes('\n')
		r.body = append(r.body, line...)
		if err != nil || res.StatusCode == 200 && strings.TrimSpace(string(line)) == "" &&
			strings.Contains(string(r.body), "data:") {
			return r
		}
	}
}

// sendTenantFile imports a new project with a session.
func sendTenantFile(c client, method, path, _ string) reply {
	at := "2026-01-01T00:00:00Z"
	project := mneme.unique("came")
	file := tenantFile(c.t, object{"type": "project", "id": project, "name": "imported", "created_at": at},
		object{"type": "session", "project": project, "id": "came", "created_at": at, "last_activity_at": at},
		object{"type": "turn", "turn": 1, "messages": []object{
			{"format": "openai.chat", "created_at": at, "message": user("imported")}}},
		object{"type": "session_end", "turns": 1})
	return c.do(method, path, file, "Content-Type", "application/x-ndjson")
}

// sendForeignFile imports a conversation of another program.
func sendForeignFile(c client, method, path, _ string) reply {
	file := fmt.Sprintf(`{"messages":[{"role":"user","content":%q},{"role":"assistant","content":"Yes."}]}`, mneme.unique("chat"))
	return c.do(method, path, []byte(file), "Content-Type", "application/octet-stream")
}

// sendModule uploads a new module.
func sendModule(c client, method, path, _ string) reply {
	module := wasmtest.Policy(wasmtest.Manifest(mneme.unique("matrix")), wasmtest.Keep())
	return c.do(method, path, module, "Content-Type", "application/wasm")
}

// furnish gives a tenant one of each thing that rows name, under its id where a client chooses that. What they hold bears
// the tenant's marker.
func (h *tenancy) furnish() {
	c, things := h.admin, h.things
	at := func(path string) string { return h.fill("/api/v1"+path, url.PathEscape) }
	project, session := things["project"], things["session"]
	h.things["version"] = "1"
	c.do("PUT", at("/projects/{project}"), object{"name": h.marker}).want(201)
	c.do("PUT", "/api/v1/projects/elsewhere", object{}).want(201)
	c.post(at("/projects/{project}/sessions"), object{"id": session, "title": h.marker}).want(201)
	var turn turnAnswer
	c.post(at("/projects/{project}/turns"), object{"session_id": session, "messages": []object{user("I am " + h.marker),
		calling("call", "f", `{"of":"`+h.marker+`"}`), result("call", h.marker),
		assistant(h.marker)}}).want(201).into(&turn)
	h.things["message"], h.things["turn"] = turn.Messages[0].ID, "1"
	h.secrets = append(h.secrets, turn.Messages[0].ID[:len("msg_")+8])
	var window struct {
		DecisionID string `json:"decision_id"`
	}
	c.post(at("/projects/{project}/context"), object{"session_id": session, "system": h.marker}).want(200).into(&window)
	h.things["decision"] = window.DecisionID
	for _, text := range []string{"one", "two"} {
		c.upload(things["policy"], wasmtest.Policy(wasmtest.Manifest("matrix "+text), wasmtest.Keep())).want(201)
	}
	c.do("PUT", at("/policies/{policy}/live"), object{"version": 2}).want(200)
	for range 2 {
		c.do("POST", at("/projects/{project}/memories"), object{"key": things["memory"], "content": "remember " + h.marker,
			"tags": []string{h.marker}, "session_id": session}).want(200, 201)
	}
	c.do("PUT", at("/boards/{board}"), object{"name": h.marker, "projects": []string{project}}).want(201)
	c.do("PUT", at("/boards/{board}/agents/{agent}"), object{"display_name": h.marker, "lead": true}).want(201)
	var entry struct{ ID string }
	c.post(at("/boards/{board}/memory"), object{"content": "@helper " + h.marker,
		"tags": []string{"chat"}}).want(201).into(&entry)
	var inbox struct{ Items []struct{ ID string } }
	c.get(at("/boards/{board}/agents/{agent}/notifications")).want(200).into(&inbox)
	h.things["notice"] = inbox.Items[0].ID
	h.secrets = append(h.secrets, entry.ID[:len("bme_")+8], inbox.Items[0].ID[:len("ntf_")+8])
	var spare struct{ ID, Key string }
	c.post("/api/v1/keys", object{"name": h.marker, "role": "agent"}).want(201).into(&spare)
	h.things["key"] = spare.ID
	h.things["signs"] = spare.Key
	h.things["model"], h.things["response"], h.things["operation"] = "gpt-4.1", "resp_same", "variations"
	h.things["conversation"], h.things["item"], h.things["file"], h.things["batch"], h.things["vendor"] = "conv_same", "item_same",
		"file_same", "batch_same", "org"
	c.do("PATCH", at("/projects/{project}/settings"), object{"history_max_messages": 48}).want(200)
	c.do("PUT", at("/boards/{board}/values/{value}"), object{"value": h.marker}).want(201)
	h.secrets = append(h.secrets, window.DecisionID, spare.ID)
}

// storeAndForget forgets a memory that it has stored: a key that is narrowed to a namespace forgets that of its own.
func storeAndForget(c client, method, path, _ string) reply {
	if r := c.do("PUT", path, object{"content": "stays no longer"}); r.status >= 400 {
		return r
	}
	return c.do(method, path, nil)
}

// newestTurn asks for the session's newest turn, because other rows take back earlier ones. It answers as the session
// does if that is refused, or if no turn is left.
func newestTurn(c client, method, path, _ string) reply {
	at, query, _ := strings.Cut(path, "?")
	at = at[:strings.LastIndex(at, "/turns/")]
	if query != "" {
		query = "?" + query
	}
	r := c.do(method, at+query, nil)
	if r.status != 200 {
		return r
	}
	var session struct {
		LastTurn int `json:"last_turn"`
	}
	r.into(&session)
	if session.LastTurn == 0 {
		return r
	}
	return c.do(method, fmt.Sprint(at, "/turns/", session.LastTurn, query), nil)
}

// describedRoutes returns all routes of the two descriptions.
func describedRoutes(c client) map[string]bool {
	routes := map[string]bool{}
	for _, document := range []string{"/openapi.json", "/openapi-proxy.json"} {
		var description struct {
			Paths map[string]map[string]json.RawMessage
		}
		c.get(document).want(200).into(&description)
		for path, methods := range description.Paths {
			for method := range methods {
				if method != "parameters" {
					routes[strings.ToUpper(method)+" "+path] = true
				}
			}
		}
	}
	return routes
}
