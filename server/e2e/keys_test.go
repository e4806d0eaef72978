package e2e

import (
	"strings"
	"testing"
	"time"
)

// projectRoutes returns all routes of a project by method and path, each with a valid body.
func projectRoutes() map[string]any {
	file := object{"version": 1, "session": object{"id": "imported"}, "turns": []object{}}
	return map[string]any{
		"GET ": nil, "PUT ": object{}, "GET /settings": nil, "PATCH /settings": object{"history_max_messages": 9},
		"POST /turns": object{"messages": []object{user("x")}}, "POST /context": object{},
		"GET /decisions": nil, "GET /decisions/dec_0": nil, "POST /decisions/dec_0/replay": nil,
		"GET /sessions": nil, "POST /sessions": object{"id": "made"}, "POST /sessions/import": file,
		"GET /sessions/dashboard": nil, "GET /sessions/dashboard/messages": nil, "GET /sessions/dashboard/export": nil,
		"DELETE /sessions/dashboard": nil, "DELETE ": nil,
	}
}

// TestNarrowedKeysStayNarrow: a key limited to some projects finds nothing in others, whatever its role. It cannot
// create, rotate, delete or see a key with more access than its own.
func TestNarrowedKeysStayNarrow(t *testing.T) {
	c, other := own(t), own(t)
	other.turn("", user("not yours")).want(201)
	for _, role := range []string{"tenant_admin", "agent", "reader"} {
		narrow := c.as(c.newKey(role, c.project))
		for route, body := range projectRoutes() {
			method, path, _ := strings.Cut(route, " ")
			narrow.do(method, other.path(path), body).want(403, 404)
			narrow.do(method, "/api/v1/projects/no-such"+path, body).want(403, 404)
		}
	}
	if got := spoken(t, other.assemble(object{})); len(got) != 1 {
		t.Errorf("the other project's window is %q", got)
	}
	narrow := c.as(c.newKey("tenant_admin", c.project))
	var wide, mine struct{ ID, Key string }
	c.post("/api/v1/keys", object{"name": "wide", "role": "agent"}).want(201).into(&wide)
	narrow.post("/api/v1/keys", object{"name": "x", "role": "agent"}).problem(422)
	both := []string{c.project, other.project}
	narrow.post("/api/v1/keys", object{"name": "x", "role": "agent", "projects": both}).problem(404)
	narrow.post("/api/v1/keys/"+wide.ID+"/rotate", nil).problem(404)
	narrow.do("DELETE", "/api/v1/keys/"+wide.ID, nil).problem(404)
	c.as(wide.Key).get(other.path("")).want(200)
	narrow.post("/api/v1/keys", object{"name": "mine", "role": "agent", "projects": both[:1]}).want(201).into(&mine)
	list := string(narrow.get("/api/v1/keys?limit=1000").want(200).body)
	if strings.Contains(list, wide.ID) || !strings.Contains(list, mine.ID) {
		t.Errorf("the narrowed key sees %s", list)
	}
	narrow.do("DELETE", "/api/v1/keys/"+mine.ID, nil).want(204)
}

// TestKeysThatAreNone: altered, deleted, expired and twice rotated keys work on no route.
func TestKeysThatAreNone(t *testing.T) {
	c := own(t)
	var one, two, three, late struct{ ID, Key string }
	c.post("/api/v1/keys", object{"name": "k", "role": "tenant_admin"}).want(201).into(&one)
	c.post("/api/v1/keys/"+one.ID+"/rotate", nil).want(200).into(&two)
	c.as(one.Key).get(c.path("")).want(200) // still valid for an hour
	c.post("/api/v1/keys/"+one.ID+"/rotate", nil).want(200).into(&three)
	c.as(two.Key).get(c.path("")).want(200)
	c.post("/api/v1/keys", object{"name": "late", "role": "agent",
		"expires_at": time.Now().Add(-time.Second).UTC().Format(time.RFC3339)}).problem(422)
	c.post("/api/v1/keys", object{"name": "late", "role": "agent"}).want(201).into(&late)
	c.do("DELETE", "/api/v1/keys/"+late.ID, nil).want(204)
	wrong := []string{one.Key, late.Key, "mk_", "mk___", "mk_" + one.ID, three.Key + "x", three.Key[:len(three.Key)-1],
		strings.Replace(three.Key, "_default", "_other", 1), strings.ToUpper(three.Key), rootKey + "0",
		strings.Repeat("k", 8000), "mk_../../x_y_default", "mk_%00_x_default"}
	for _, key := range wrong {
		for route, body := range projectRoutes() {
			method, path, _ := strings.Cut(route, " ")
			c.as(key).do(method, c.path(path), body).wantCode(401, "unknown_key")
		}
		c.as(key).get("/api/v1/keys").problem(401)
		c.as(key).get("/api/v1/tenants").problem(401)
	}
	c.as(three.Key).get(c.path("")).want(200)
}
