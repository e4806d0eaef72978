package e2e

import "testing"

// newKey creates a key of a role in the client's tenant.
func (c client) newKey(role string, projects ...string) string {
	c.t.Helper()
	spec := object{"name": role, "role": role}
	if projects != nil {
		spec["projects"] = projects
	}
	var made struct{ ID, Key string }
	c.post("/api/v1/keys", spec).want(201).into(&made)
	return made.Key
}

// TestTenantsAreApart: two tenants use the same project, session and call ids and see only their own data.
func TestTenantsAreApart(t *testing.T) {
	root := shared(t).as(rootKey)
	talk := func(name string) *conversation {
		var made struct {
			ID       string `json:"id"`
			AdminKey string `json:"admin_key"`
		}
		root.post("/api/v1/tenants", object{"id": mneme.unique(name), "name": name}).want(201).into(&made)
		c := converse(root.as(made.AdminKey), "same")
		c.turn("same", user("I am "+name), calling("c", "f", "{}"), result("c", "secret of "+name)).want(201)
		return c
	}
	red, blue := talk("red"), talk("blue")
	window := red.assemble(object{"session_id": "same", "explain": true})
	equal(t, "red", spoken(t, window), []string{"user: I am red", "assistant: {}", "tool: secret of red"})
	equal(t, "blue", spoken(t, blue.assemble(object{"session_id": "same"})),
		[]string{"user: I am blue", "assistant: {}", "tool: secret of blue"})
	blue.get(blue.path("/decisions/" + window.DecisionID)).problem(404)
	blue.post(blue.path("/decisions/"+window.DecisionID+"/replay"), nil).problem(404)
	red.do("PUT", "/api/v1/projects/only-red", object{}).want(200, 201)
	blue.get("/api/v1/projects/only-red").problem(404)
	blue.post("/api/v1/projects/only-red/turns", object{"messages": []object{user("x")}}).problem(404)
}

// TestRoles: each role may do what the documented table says, and no more.
func TestRoles(t *testing.T) {
	admin := own(t)
	admin.turn("", user("hello")).want(201)
	project := admin.path("")
	turn, context := object{"messages": []object{user("x")}}, object{}
	for _, test := range []struct {
		role                                 string
		turns, window, sessions, patch, keys int
	}{
		{"tenant_admin", 201, 200, 200, 200, 200},
		{"agent", 201, 200, 200, 403, 403},
		{"reader", 403, 200, 200, 403, 403},
	} {
		t.Run(test.role, func(t *testing.T) {
			c := admin.as(admin.newKey(test.role)).in(t)
			c.post(project+"/turns", turn).want(test.turns)
			c.post(project+"/context", context).want(test.window)
			c.get(project + "/sessions").want(test.sessions)
			c.get(project + "/settings").want(200)
			c.do("PATCH", project+"/settings", object{"history_max_messages": 50}).want(test.patch)
			c.get("/api/v1/keys").want(test.keys)
			c.get("/api/v1/tenants").problem(403)
		})
	}
	admin.as("").get(project + "/sessions").problem(401)
	admin.as("mneme_nonsense").get(project + "/sessions").problem(401)
	narrow := admin.as(admin.newKey("agent", admin.project))
	narrow.post(project+"/turns", turn).want(201)
	narrow.post("/api/v1/projects/default/turns", turn).problem(404)
	r := admin.as("").do("GET", project+"/sessions", nil, "X-Agent-Token", narrow.key)
	r.want(200)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/openapi-proxy.json"} {
		admin.as("").get(path).want(200)
	}
}
