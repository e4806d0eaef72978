package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// line is one entry of the table of routes: the path, the role it needs, and its status. The OpenAPI description is
// made from the same table.
type line struct {
	id     string // the operationId
	method string
	path   string     // as in OpenAPI: {name} is one path segment
	role   ident.Role // the lowest role that may use it; open: no key is needed
	status int        // status of a success
	endpoint
	options
}

// route is a served line with its counters.
type route struct {
	line
	query   map[string]queryParameter // its query parameters
	metrics *routeMetrics
}

// options says what a route takes besides its path and its body.
type options struct {
	streams      bool   // the handler reads the body itself, without a time limit for the request
	list         bool   // takes limit and cursor
	limited      bool   // takes limit, and its own parameters instead of a cursor
	stores       bool   // takes Idempotency-Key
	atOnce       bool   // waits for no place: health checks must succeed while the server is busy
	quiet        bool   // successful requests are logged at level debug
	anywhere     bool   // the operator need not name a tenant
	console      bool   // only takes requests of the console's own pages
	keyAlone     bool   // concerns the key itself, so the root key names no tenant; a cookie is not a key
	bodyOptional bool   // no body means the same as {}
	maxBody      int    // maximum size of the body, in bytes; 0: the server's default
	media        string // media type of the body; empty: JSON

	proxied *proxied // set for routes of the proxy; nil: one of Mneme's own
}

// mediaType returns the type of the body that a route takes.
func (r line) mediaType() string {
	if r.media != "" {
		return r.media
	}
	return jsonType
}

// Roles and options that many routes share.
const (
	open   = ident.RoleNone
	reader = ident.RoleReader
	agent  = ident.RoleAgent
	admin  = ident.RoleTenantAdmin
	root   = ident.RoleRoot
)

var (
	plain = options{}
	list  = options{list: true}
	once  = options{stores: true}
)

// table returns all routes.
func (s *Server) table() []line {
	const (
		project       = "/api/v1/projects/{project}"
		session       = project + "/sessions/{session}"
		memories      = project + "/memories"
		memory        = memories + "/{memory}"
		policy        = "/api/v1/policies/{policy}"
		version       = policy + "/versions/{version}"
		conversations = "/api/v1/admin/agent/conversations"
	)
	lines := []line{
		{"health", "GET", "/healthz", open, 200, handle(s.health), options{atOnce: true, quiet: true}},
		{"ready", "GET", "/readyz", open, 200, handle(s.ready), options{atOnce: true, quiet: true}},
		{"metrics", "GET", "/metrics", open, 200, handle(s.metricsText), options{quiet: true}},
		{"describe", "GET", "/openapi.json", open, 200, handle(s.openAPI), plain},
		{"describeProxy", "GET", "/openapi-proxy.json", open, 200, handle(s.openAPIOfProxy), plain},
		{"errors", "GET", "/errors", open, 200, handle(s.errorCodes), plain},

		{"appendTurn", "POST", project + "/turns", agent, 201, handle(s.appendTurn), once},
		{"assemble", "POST", project + "/context", reader, 200, handle(s.assemble), options{bodyOptional: true}},
		{"listDecisions", "GET", project + "/decisions", reader, 200, handle(s.listDecisions), list},
		{"getDecision", "GET", project + "/decisions/{decision}", reader, 200, handle(s.decision), plain},
		{"replayDecision", "POST", project + "/decisions/{decision}/replay", reader, 200, handle(s.replay), plain},
		{"getDecisionCase", "GET", project + "/decisions/{decision}/case", reader, 200, handle(s.recordedCase), plain},
		{"forkDecision", "POST", project + "/decisions/{decision}/fork", reader, 200, handle(s.fork),
			options{bodyOptional: true}},
		{"explainAbsence", "POST", project + "/decisions/{decision}/why-not", reader, 200, handle(s.whyNot), plain},
		{"diffWindows", "POST", project + "/windows/diff", reader, 200, handle(s.diffWindows), plain},
		{"replaySettings", "POST", project + "/replay", reader, 200, handle(s.replaySettings),
			options{bodyOptional: true}},

		{"listProjects", "GET", "/api/v1/projects", reader, 200, handle(s.listProjects), list},
		{"createProject", "POST", "/api/v1/projects", admin, 201, handle(s.createProject), once},
		{"getProject", "GET", project, reader, 200, handle(s.getProject), plain},
		{"putProject", "PUT", project, admin, 200, handle(s.putProject), options{bodyOptional: true}},
		{"deleteProject", "DELETE", project, admin, 204, handle(s.deleteProject), plain},
		{"getSettings", "GET", project + "/settings", reader, 200, handle(s.settings), plain},
		{"patchSettings", "PATCH", project + "/settings", admin, 200, handle(s.patchSettings), plain},
		{"listSettingsChanges", "GET", project + "/settings/history", reader, 200, handle(s.settingsHistory), list},
		{"getProjectStats", "GET", project + "/stats", reader, 200, handle(s.projectStats), plain},

		{"listSessions", "GET", project + "/sessions", reader, 200, handle(s.listSessions), list},
		{"createSession", "POST", project + "/sessions", agent, 201, handle(s.createSession),
			options{stores: true, bodyOptional: true}},
		{"importSession", "POST", project + "/sessions/import", agent, 201, handle(s.importSession),
			options{stores: true, maxBody: importMaxBody}},
		{"importForeign", "POST", project + "/import/foreign", agent, 200, handle(s.importForeign),
			options{streams: true, media: fileType}},
		{"getSession", "GET", session, reader, 200, handle(s.getSession), plain},
		{"streamSession", "GET", session + "/stream", reader, 200, handle(s.streamSession), plain},
		{"deleteSession", "DELETE", session, agent, 204, handle(s.deleteSession), plain},
		{"listMessages", "GET", session + "/messages", reader, 200, handle(s.listMessages), list},
		{"getMessage", "GET", session + "/messages/{message}", reader, 200, handle(s.getMessage), plain},
		{"getTurn", "GET", session + "/turns/{turn}", reader, 200, handle(s.getTurn), list},
		{"actOnSummary", "POST", session + "/summary", agent, 200, handle(s.actOnSummary), once},
		{"rewindSession", "POST", session + "/rewind", agent, 200, handle(s.rewindSession), once},
		{"eraseSession", "POST", session + "/erase", admin, 200, handle(s.eraseSession), plain},
		{"forkSession", "POST", session + "/fork", agent, 201, handle(s.forkSession),
			options{stores: true, bodyOptional: true}},
		{"exportSession", "GET", session + "/export", reader, 200, handle(s.exportSession), plain},

		{"listPolicies", "GET", "/api/v1/policies", reader, 200, handle(s.listPolicies), list},
		{"uploadPolicy", "POST", "/api/v1/policies", admin, 201, handle(s.uploadPolicy),
			options{stores: true, media: moduleType}},
		{"getPolicy", "GET", policy, reader, 200, handle(s.getPolicy), plain},
		{"deletePolicy", "DELETE", policy, admin, 204, handle(s.deletePolicy), plain},
		{"setLive", "PUT", policy + "/live", admin, 200, handle(s.setLive), plain},
		{"getPolicyVersion", "GET", version, reader, 200, handle(s.getPolicyVersion), plain},
		{"getPolicyModule", "GET", version + "/module", reader, 200, handle(s.getModule), plain},
		{"deletePolicyVersion", "DELETE", version, admin, 204, handle(s.deletePolicyVersion), plain},
		{"runPolicy", "POST", version + "/run", admin, 200, handle(s.runPolicy), plain},
		{"replayPolicy", "POST", version + "/replay", admin, 200, handle(s.replayPolicy), plain},
		{"getUsage", "GET", "/api/v1/usage", admin, 200, handle(s.usage), plain},
		{"listAudit", "GET", "/api/v1/audit", admin, 200, handle(s.listAudit), list},

		{"whoAmI", "GET", "/api/v1/whoami", reader, 200, handle(s.whoAmI), options{anywhere: true}},
		{"listKeys", "GET", "/api/v1/keys", admin, 200, handle(s.listKeys), list},
		{"createKey", "POST", "/api/v1/keys", admin, 201, handle(s.createKey), once},
		{"deleteKey", "DELETE", "/api/v1/keys/{key}", admin, 204, handle(s.deleteKey), plain},
		{"rotateKey", "POST", "/api/v1/keys/{key}/rotate", admin, 200, handle(s.rotateKey), once},

		{"listTenants", "GET", "/api/v1/tenants", root, 200, handle(s.listTenants), list},
		{"createTenant", "POST", "/api/v1/tenants", root, 201, handle(s.createTenant), once},
		{"deleteTenant", "DELETE", "/api/v1/tenants/{tenant}", root, 204, handle(s.deleteTenant), plain},

		{"storeMemory", "POST", memories, agent, 201, handle(s.storeMemory), once},
		{"listMemories", "GET", memories, reader, 200, handle(s.listMemories), list},
		{"recall", "POST", memories + "/recall", agent, 200, handle(s.recall), plain},
		{"getMemory", "GET", memory, reader, 200, handle(s.getMemory), plain},
		{"putMemory", "PUT", memory, agent, 200, handle(s.putMemory), once},
		{"patchMemory", "PATCH", memory, agent, 200, handle(s.patchMemory), once},
		{"forgetMemory", "DELETE", memory, agent, 204, handle(s.forgetMemory), once},
		{"forgetMatching", "POST", memories + "/forget", agent, 200, handle(s.forgetMatching), plain},
		{"listNamespaces", "GET", project + "/namespaces", reader, 200, handle(s.listNamespaces), list},
		{"memoryHistory", "GET", memory + "/history", reader, 200, handle(s.memoryHistory), list},
		{"whyMemory", "GET", memory + "/why", reader, 200, handle(s.whyMemory), plain},

		{"listTools", "GET", "/api/v1/tools", reader, 200, handle(s.listTools), plain},
		{"callTool", "POST", "/api/v1/projects/{project}/tools/call", agent, 200, handle(s.callTool), once},

		{"conversationStats", "GET", conversations + "/stats", admin, 200, handle(s.conversations), plain},
		{"purgeConversations", "DELETE", conversations + "/purge", admin, 200, handle(s.purgeConversations), plain},
		{"runRetention", "POST", "/api/v1/admin/retention", admin, 200, handle(s.runRetention), plain},
		{"exportTenant", "GET", "/api/v1/export", admin, 200, handle(s.exportTenant), plain},
		{"importTenant", "POST", "/api/v1/import", admin, 200, handle(s.importTenant),
			options{stores: true, streams: true, media: ndjsonType}},
		{"backUp", "GET", "/api/v1/admin/backup", root, 200, handle(s.backUp), plain},

		{"signIn", "POST", consolePath + "session", open, 201, handle(s.signIn), options{console: true}},
		{"signOut", "DELETE", consolePath + "session", open, 204, handle(s.signOut), options{console: true}},
		{"makeSignInLink", "POST", consolePath + "links", reader, 201, handle(s.makeSignInLink),
			options{keyAlone: true}},

		{"mcp", "POST", "/mcp", agent, 200, handle(s.serveMCP), plain},
	}
	return slices.Concat(lines, s.boardLines("", "/api/v1/boards"), s.boardLines("agent", "/api/v1/agent/boards"),
		s.proxyLines())
}

// boardLines returns the routes of boards, which are served under two paths: for people and for agents. Their
// operationIds differ by a prefix.
func (s *Server) boardLines(prefix, boards string) []line {
	board := boards + "/{board}"
	member := board + "/agents/{agent}"
	value := board + "/values/{value}"
	lines := []line{
		{"listBoards", "GET", boards, reader, 200, handle(s.listBoards), list},
		{"getBoard", "GET", board, reader, 200, handle(s.getBoard), plain},
		{"putBoard", "PUT", board, agent, 200, handle(s.putBoard), options{bodyOptional: true}},
		{"deleteBoard", "DELETE", board, agent, 204, handle(s.deleteBoard), plain},
		{"boardStats", "GET", board + "/stats", reader, 200, handle(s.boardStats), plain},
		{"exportBoard", "GET", board + "/export", reader, 200, handle(s.exportBoard), plain},

		{"postBoardEntry", "POST", board + "/memory", agent, 201, handle(s.postEntry), once},
		{"listBoardEntries", "GET", board + "/memory", reader, 200, handle(s.listEntries), options{limited: true}},
		{"purgeBoard", "DELETE", board + "/memory", agent, 200, handle(s.purgeBoard), plain},
		{"streamBoardEntries", "GET", board + "/memory/stream", reader, 200, handle(s.streamEntries), plain},

		{"listBoardValues", "GET", board + "/values", reader, 200, handle(s.listBoardValues), list},
		{"getBoardValue", "GET", value, reader, 200, handle(s.getBoardValue), plain},
		{"putBoardValue", "PUT", value, agent, 200, handle(s.putBoardValue), plain},
		{"deleteBoardValue", "DELETE", value, agent, 204, handle(s.deleteBoardValue), plain},

		{"listBoardAgents", "GET", board + "/agents", reader, 200, handle(s.listBoardAgents), list},
		{"getBoardAgent", "GET", member, reader, 200, handle(s.getBoardAgent), plain},
		{"putBoardAgent", "PUT", member, agent, 200, handle(s.putBoardAgent), options{bodyOptional: true}},
		{"deleteBoardAgent", "DELETE", member, agent, 204, handle(s.deleteBoardAgent), plain},
		{"listNotifications", "GET", member + "/notifications", reader, 200, handle(s.inbox), options{limited: true}},
		{"streamNotifications", "GET", member + "/notifications/stream", reader, 200, handle(s.streamInbox), plain},
		{"ackNotifications", "POST", member + "/notifications/ack", agent, 200, handle(s.ackInbox), once},
	}
	for i, l := range lines {
		if prefix != "" {
			lines[i].id = prefix + strings.ToUpper(l.id[:1]) + l.id[1:]
		}
	}
	return lines
}

// register adds the table to Fiber, which writes parameters as :name. Every GET also serves HEAD, and every path of the
// proxy OPTIONS.
func (s *Server) register(d described) {
	asFiber := strings.NewReplacer("{", ":", "}", "")
	for _, l := range s.table() {
		if s.console == nil && strings.HasPrefix(l.path, consolePath) {
			continue
		}
		r := &route{line: l, query: d.queryOf(l), metrics: s.metrics.route(l.method, l.path)}
		s.routes = append(s.routes, r)
		if r.method == http.MethodGet {
			s.app.Add(http.MethodHead, asFiber.Replace(r.path), s.serve(r))
		}
		s.app.Add(r.method, asFiber.Replace(r.path), s.serve(r))
		if r.proxied != nil && !slices.ContainsFunc(s.routes[:len(s.routes)-1], func(o *route) bool { return o.path == r.path }) {
			s.app.Add(http.MethodOptions, asFiber.Replace(r.path), s.serve(r.asking(s.metrics.route(http.MethodOptions, r.path))))
		}
	}
	s.noRoute = &route{line: line{path: "none"}, metrics: s.metrics.route("", "none")}
}

// asking returns the route of the proxy that passes OPTIONS on for the path of r.
func (r *route) asking(m *routeMetrics) *route {
	out := &route{line: r.line, query: r.query, metrics: m}
	p := *r.proxied
	p.turns = false
	out.method, out.takesBody, out.proxied = http.MethodOptions, false, &p
	return out
}

// nearest returns the path of a route that a client may have meant: without a trailing slash, with /api/v1 in front,
// or in lower case. It returns "" if no route has such a path.
func (s *Server) nearest(path string) string {
	if path = "/" + strings.Trim(path, "/"); len(path) > 512 {
		return ""
	}
	for _, guess := range []string{path, "/api/v1" + path} {
		for _, r := range s.routes {
			if meant, ok := r.like(guess); ok {
				return meant
			}
		}
	}
	return ""
}

// like returns path as the route spells it, if they differ only in the case of the route's literal segments.
func (l line) like(path string) (string, bool) {
	own, parts := strings.Split(l.path, "/"), strings.Split(path, "/")
	if len(own) != len(parts) {
		return "", false
	}
	for i, part := range parts {
		if strings.HasPrefix(own[i], "{") && part != "" {
			own[i] = part
		} else if !strings.EqualFold(own[i], part) {
			return "", false
		}
	}
	return strings.Join(own, "/"), true
}
