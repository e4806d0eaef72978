package e2e

import (
	"strings"
	"testing"
)

// TestNothingIsCalledAStepUp: "." and ".." are refused wherever a client chooses a name, because a client that
// normalises the path of a later request would address the collection above it.
func TestNothingIsCalledAStepUp(t *testing.T) {
	c := own(t)
	say := []object{user("hello")}
	as := func(field, name string) []object {
		m := user("hello")
		m[field] = name
		return []object{m}
	}
	for _, dots := range []string{".", ".."} {
		for _, escaped := range []string{dots, strings.ReplaceAll(dots, ".", "%2e"),
			strings.Replace(dots, ".", "%2E", 1)} {
			// Go's client does not normalise paths.
			for _, path := range []string{"/api/v1/projects/", "/api/v1/boards/", "/api/v1/boards/b/agents/",
				"/api/v1/agent/boards/"} {
				c.do("PUT", path+escaped, object{}).wantCode(422, "invalid_id")
			}
			c.do("POST", "/api/v1/boards/"+escaped+"/memory", object{"content": "x"}).wantCode(422, "invalid_id")
			c.do("POST", policiesPath+"?name="+escaped, keepByTag(t), "Content-Type", "application/wasm").
				wantCode(422, "invalid_id")
			for _, path := range []string{"/memories/", "/sessions/", "/decisions/"} {
				c.do("GET", c.path(path+escaped), nil).wantCode(404, "not_found")
			}
			c.do("DELETE", c.path("/sessions/"+escaped), nil).wantCode(404, "not_found")
			c.do("DELETE", c.path("/memories/"+escaped), nil).wantCode(404, "not_found")
		}
		for path, body := range map[string]object{
			"/memories": {"key": dots, "content": "x"}, "/memories#session": {"content": "x", "session_id": dots},
			"/sessions": {"id": dots}, "/sessions#agent": {"agent": dots},
			"/turns": {"session_id": dots, "messages": say}, "/turns#agent": {"agent": dots, "messages": say},
			"/turns#delegation": {"delegation_id": dots, "messages": say},
			"/context":          {"session_id": dots}, "/context#viewer": {"viewer": object{"agent": dots}},
			"/context#delegation": {"viewer": object{"delegation_id": dots}},
			"/memories/recall":    {"query": "x", "session_id": dots},
			"/sessions/import": {"version": 1, "session": object{"id": dots}, "turns": []object{{"turn": 1,
				"messages": []object{{"format": "openai.chat", "message": user("hello")}}}}},
			"/tools/call": {"name": "memory_recall", "session_id": dots, "arguments": object{"query": "*"}},
		} {
			path, _, _ = strings.Cut(path, "#")
			c.post(c.path(path), body).wantCode(422, "invalid_id")
		}
		for _, field := range []string{"agent", "delegation_id"} {
			p := c.post(c.path("/turns"), object{"messages": as(field, dots)}).wantCode(422, "invalid_messages")
			if len(p.Errors) != 1 || p.Errors[0].Code != "invalid_id" {
				t.Errorf("%s of a message: %+v", field, p)
			}
		}
		for path, body := range map[string]object{
			"/api/v1/keys":          {"name": "n", "role": "agent", "agent": dots},
			"/api/v1/keys#projects": {"name": "n", "role": "agent", "projects": []string{dots}},
			"/api/v1/tenants":       {"id": dots, "name": "n"},
		} {
			path, _, _ = strings.Cut(path, "#")
			who := c.client
			if path == "/api/v1/tenants" {
				who.key = rootKey
			}
			who.post(path, body).wantCode(422, "invalid_id")
		}
		var called struct {
			IsError    bool `json:"is_error"`
			Structured struct{ Error struct{ Code string } }
		}
		c.post(c.path("/tools/call"), object{"name": "memory_store", "arguments": object{"key": dots, "content": "x"}}).
			want(200).into(&called)
		if !called.IsError || called.Structured.Error.Code != "invalid_id" {
			t.Errorf("memory_store of %q: %+v", dots, called)
		}
		mcp := mustConnect(t, c.overHTTP("?project="+c.project))
		if text, r := mcp.use("memory_store", object{"key": dots, "content": "x"}); !r.IsError {
			t.Errorf("memory_store of %q over MCP: %s", dots, text)
		}
	}
	c.get(c.path("")).want(200)
	if got := len(c.keys("")); got != 0 {
		t.Errorf("%d memories are stored", got)
	}
	c.do("DELETE", "/api/v1/boards/b", nil).want(204, 404)
	for _, id := range []string{"...", ".a", "a.", "..a", ".-"} {
		c.post(c.path("/memories"), object{"key": id, "content": "x"}).want(201)
		c.get(c.path("/memories/" + id)).want(200)
	}
}
