package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine"
)

// route is one line of the table: what is served, to whom, and with what success. openapi.yaml describes the same
// routes, and a test holds the two against each other.
type route struct {
	method string
	path   string      // as in OpenAPI: {name} is one part of the path
	role   engine.Role // the least that may; RoleNone: open, without a key
	status int         // of a success
	endpoint

	streams      bool   // the handler reads the body itself, and takes the time it needs
	list         bool   // takes limit and cursor
	limited      bool   // takes limit, beside filters of its own
	stores       bool   // takes Idempotency-Key
	bodyOptional bool   // no body says what {} says
	maxBody      int    // where not the server's own limit
	media        string // type of the body, where it is not JSON

	metrics *routeMetrics
}

// mediaType is the type of the body that a route takes.
func (r *route) mediaType() string {
	if r.media != "" {
		return r.media
	}
	return jsonType
}

// table lists all routes.
func (s *Server) table() []*route {
	const (
		project = "/api/v1/projects/{project}"
		session = project + "/sessions/{session}"
		policy  = "/api/v1/policies/{policy}"
		version = policy + "/versions/{version}"
		open    = engine.RoleNone
		reader  = engine.RoleReader
		agent   = engine.RoleAgent
		admin   = engine.RoleTenantAdmin
		root    = engine.RoleRoot
	)
	routes := []*route{
		{method: "GET", path: "/healthz", role: open, status: 200, endpoint: handle(s.health)},
		{method: "GET", path: "/readyz", role: open, status: 200, endpoint: handle(s.ready)},
		{method: "GET", path: "/metrics", role: open, status: 200, endpoint: handle(s.metricsText)},
		{method: "GET", path: "/openapi.json", role: open, status: 200, endpoint: handle(s.openAPI)},

		{method: "POST", path: project + "/turns", role: agent, status: 201, endpoint: handle(s.appendTurn), stores: true},
		{method: "POST", path: project + "/context", role: reader, status: 200, endpoint: handle(s.assemble),
			bodyOptional: true},
		{method: "GET", path: project + "/decisions/{decision}", role: reader, status: 200, endpoint: handle(s.decision)},
		{method: "POST", path: project + "/decisions/{decision}/replay", role: reader, status: 200,
			endpoint: handle(s.replay)},

		{method: "GET", path: "/api/v1/projects", role: reader, status: 200, endpoint: handle(s.listProjects), list: true},
		{method: "GET", path: project, role: reader, status: 200, endpoint: handle(s.getProject)},
		{method: "PUT", path: project, role: admin, status: 200, endpoint: handle(s.putProject), bodyOptional: true},
		{method: "DELETE", path: project, role: admin, status: 204, endpoint: handle(s.deleteProject)},
		{method: "GET", path: project + "/settings", role: reader, status: 200, endpoint: handle(s.settings)},
		{method: "PATCH", path: project + "/settings", role: admin, status: 200, endpoint: handle(s.patchSettings)},

		{method: "GET", path: project + "/sessions", role: reader, status: 200, endpoint: handle(s.listSessions), list: true},
		{method: "POST", path: project + "/sessions", role: agent, status: 201, endpoint: handle(s.createSession),
			stores: true, bodyOptional: true},
		{method: "POST", path: project + "/sessions/import", role: agent, status: 201, endpoint: handle(s.importSession),
			stores: true, maxBody: importMaxBody},
		{method: "GET", path: session, role: reader, status: 200, endpoint: handle(s.getSession)},
		{method: "DELETE", path: session, role: agent, status: 204, endpoint: handle(s.deleteSession)},
		{method: "GET", path: session + "/messages", role: reader, status: 200, endpoint: handle(s.listMessages), list: true},
		{method: "POST", path: session + "/summary", role: agent, status: 200, endpoint: handle(s.actOnSummary), stores: true},
		{method: "GET", path: session + "/export", role: reader, status: 200, endpoint: handle(s.exportSession)},

		{method: "GET", path: "/api/v1/policies", role: reader, status: 200, endpoint: handle(s.listPolicies), list: true},
		{method: "POST", path: "/api/v1/policies", role: admin, status: 201, endpoint: handle(s.uploadPolicy), stores: true,
			media: "application/wasm"},
		{method: "GET", path: policy, role: reader, status: 200, endpoint: handle(s.getPolicy)},
		{method: "DELETE", path: policy, role: admin, status: 204, endpoint: handle(s.deletePolicy)},
		{method: "PUT", path: policy + "/live", role: admin, status: 200, endpoint: handle(s.setLive)},
		{method: "GET", path: version, role: reader, status: 200, endpoint: handle(s.getPolicyVersion)},
		{method: "DELETE", path: version, role: admin, status: 204, endpoint: handle(s.deletePolicyVersion)},
		{method: "POST", path: version + "/run", role: admin, status: 200, endpoint: handle(s.runPolicy)},
		{method: "POST", path: version + "/replay", role: admin, status: 200, endpoint: handle(s.replayPolicy)},
		{method: "GET", path: "/api/v1/usage", role: admin, status: 200, endpoint: handle(s.usage)},
		{method: "GET", path: "/api/v1/audit", role: admin, status: 200, endpoint: handle(s.listAudit), list: true},

		{method: "GET", path: "/api/v1/keys", role: admin, status: 200, endpoint: handle(s.listKeys), list: true},
		{method: "POST", path: "/api/v1/keys", role: admin, status: 201, endpoint: handle(s.createKey), stores: true},
		{method: "DELETE", path: "/api/v1/keys/{key}", role: admin, status: 204, endpoint: handle(s.deleteKey)},
		{method: "POST", path: "/api/v1/keys/{key}/rotate", role: admin, status: 200, endpoint: handle(s.rotateKey),
			stores: true},

		{method: "GET", path: "/api/v1/tenants", role: root, status: 200, endpoint: handle(s.listTenants), list: true},
		{method: "POST", path: "/api/v1/tenants", role: root, status: 201, endpoint: handle(s.createTenant), stores: true},
		{method: "DELETE", path: "/api/v1/tenants/{tenant}", role: root, status: 204, endpoint: handle(s.deleteTenant)},
	}
	return slices.Concat(routes, s.memoryRoutes(), s.boardRoutes(), s.administrationRoutes(), s.backupRoutes(), s.mcpRoutes())
}

// register hands the table to Fiber, whose parameters are written :name. HEAD goes with GET.
func (s *Server) register() {
	asFiber := strings.NewReplacer("{", ":", "}", "")
	s.routes = s.table()
	for _, r := range s.routes {
		r.metrics = s.metrics.route(r.method, r.path)
		if r.method == http.MethodGet {
			s.app.Add(http.MethodHead, asFiber.Replace(r.path), s.serve(r))
		}
		s.app.Add(r.method, asFiber.Replace(r.path), s.serve(r))
	}
	s.noRoute = &route{path: "none", metrics: s.metrics.route("", "none")}
}
