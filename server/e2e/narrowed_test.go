package e2e

import (
	"slices"
	"strings"
	"testing"
)

// narrowed returns the client with a new key of the role agent for some namespaces.
func (c client) narrowed(namespaces ...[]string) client {
	c.t.Helper()
	var made struct{ Key string }
	c.post("/api/v1/keys", object{"name": "narrowed", "role": "agent", "namespaces": namespaces}).want(201).into(&made)
	return c.as(made.Key)
}

// A key limited to a namespace uses it without naming it, and can access nothing outside it.
func TestKeyOfANamespace(t *testing.T) {
	c := own(t)
	memories := c.path("/memories")
	c.post(memories, object{"key": "allergy", "content": "nobody is allergic"}).want(201)
	for _, who := range []string{"ada", "adam", "bob"} {
		c.post(memories, object{"namespace": []string{"users", who}, "key": "allergy", "tags": []string{"health"},
			"content": who + " is allergic to something"}).want(201)
	}
	ada := c.client.narrowed([]string{"users", "ada"})
	ada.post(memories, object{"namespace": []string{"users", "ada", "work"}, "key": "desk", "content": "ada sits upstairs"}).want(201)

	for name, r := range map[string]reply{
		"get":        ada.get(memories + "/allergy"),
		"list":       ada.get(memories),
		"history":    ada.get(memories + "/allergy/history"),
		"recall":     ada.post(memories+"/recall", object{"query": "allergic"}),
		"recent":     ada.post(memories+"/recall", object{"query": "*", "scope": "memories"}),
		"namespaces": ada.get(c.path("/namespaces")),
		"tool":       ada.post(c.path("/tools/call"), object{"name": "memory_list", "arguments": object{}}),
		"files": ada.post(c.path("/tools/call"), object{"name": "memory", "arguments": object{"command": "view",
			"path": "/memories"}}),
	} {
		text := string(r.want(200).body)
		if name != "files" && name != "history" && !strings.Contains(text, "ada") || strings.Contains(text, "adam") || strings.Contains(text, "bob") ||
			strings.Contains(text, "nobody") {
			t.Errorf("%s: %s", name, clip(text, 400))
		}
	}
	for _, foreign := range [][]string{{"users"}, {"users", "bob"}, {"users", "adam"}, {"users", "ad"}, {"bob"}} {
		query := "?namespace=" + strings.Join(foreign, "&namespace=")
		ada.get(memories + query).problem(404)
		ada.get(memories + "/allergy" + query).problem(404)
		ada.get(memories + "/allergy/history" + query).problem(404)
		ada.get(c.path("/namespaces") + query).problem(404)
		ada.do("PUT", memories+"/allergy"+query, object{"content": "x"}).problem(404)
		ada.do("PATCH", memories+"/allergy"+query, object{"importance": 1}).problem(404)
		ada.do("DELETE", memories+"/allergy"+query, nil).problem(404)
		ada.post(memories, object{"namespace": foreign, "key": "allergy", "content": "x"}).problem(404)
		ada.post(memories+"/recall", object{"namespace": foreign, "query": "allergic"}).problem(404)
		ada.post(memories+"/forget", object{"namespace": foreign}).problem(404)
		ada.post(c.path("/tools/call"), object{"name": "memory_list", "memory_namespace": foreign}).problem(404)
		r := ada.post(c.path("/tools/call"), object{"name": "memory_get", "arguments": object{"key": "allergy", "namespace": foreign}})
		if text := string(r.want(200).body); !strings.Contains(text, `"is_error":true`) {
			t.Errorf("a tool reaches %v: %s", foreign, text)
		}
	}
	// Forgetting needs a condition, and does not affect others.
	ada.post(memories+"/forget", object{}).wantCode(422, "required")
	ada.post(memories+"/forget", object{"tags": []string{"health"}}).want(200)
	ada.get(memories + "/allergy").problem(404)
	for _, query := range []string{"", "?namespace=users&namespace=bob", "?namespace=users&namespace=adam"} {
		c.get(memories + "/allergy" + query).want(200)
	}

	both := c.client.narrowed([]string{"users", "adam"}, []string{"users", "bob"})
	both.get(memories).wantCode(422, "namespace_needed")
	both.post(c.path("/tools/call"), object{"name": "memory_list"}).wantCode(422, "namespace_needed")
	both.get(memories + "/allergy?namespace=users&namespace=bob").want(200)
	both.get(memories + "?namespace=users&namespace=ada").problem(404)
	var me struct{ Namespaces [][]string }
	both.get("/api/v1/whoami").want(200).into(&me)
	if len(me.Namespaces) != 2 || !slices.Equal(me.Namespaces[1], []string{"users", "bob"}) {
		t.Errorf("whoami says %v", me.Namespaces)
	}
	for _, path := range []string{c.path(""), c.path("/settings"), c.path("/stats"), "/api/v1/boards",
		"/api/v1/projects", "/api/v1/policies"} {
		ada.get(path).wantCode(403, "key_narrowed")
	}
	for _, spec := range []object{
		{"role": "tenant_admin", "namespaces": [][]string{{"a"}}},
		{"role": "agent", "namespaces": [][]string{}},
		{"role": "agent", "namespaces": [][]string{{}}},
		{"role": "agent", "namespaces": [][]string{{" "}}},
		{"role": "agent", "namespaces": slices.Repeat([][]string{{"a"}}, 17)},
	} {
		spec["name"] = "wrong"
		c.post("/api/v1/keys", spec).problem(422)
	}
}

// A session belongs to the namespace that its first turn names, or to that of the key. Windows, tools and recall search
// there, and keys of other namespaces do not find the session.
func TestSessionOfANamespace(t *testing.T) {
	c := own(t)
	ada, bob := c.client.narrowed([]string{"users", "ada"}), c.client.narrowed([]string{"users", "bob"})
	turn := func(by client, session, text string, more object) reply {
		body := object{"session_id": session, "messages": []object{user(text)}}
		for k, v := range more {
			body[k] = v
		}
		return by.post(c.path("/turns"), body)
	}
	for who, by := range map[string]client{"ada": ada, "bob": bob} {
		by.post(c.path("/memories"), object{"key": "pet", "content": who + " has a parrot"}).want(201)
		turn(by, who, "my parrot of "+who+" is green", nil).want(201)
	}
	turn(c.client, "named", "my parrot is blue", object{"memory_namespace": []string{"users", "ada"}}).want(201)
	turn(c.client, "free", "my parrot is red", nil).want(201)

	turn(c.client, "named", "again", nil).want(201)
	turn(c.client, "named", "again", object{"memory_namespace": []string{"users", "ada"}}).want(201)
	for session, namespace := range map[string][]string{"named": {"users", "bob"}, "free": {"users", "ada"}} {
		turn(c.client, session, "no", object{"memory_namespace": namespace}).wantCode(409, "namespace_fixed")
	}
	var s struct {
		Namespace []string `json:"memory_namespace"`
	}
	ada.get(c.path("/sessions/ada")).want(200).into(&s)
	if !slices.Equal(s.Namespace, []string{"users", "ada"}) {
		t.Errorf("the session is in %q", s.Namespace)
	}

	ask := func(session string) object {
		return object{"session_id": session, "pending": []object{user("which colour is my parrot?")}, "memories": object{}}
	}
	for session, by := range map[string]client{"ada": ada, "named": c.client, "ada-new": ada} {
		text := string(by.post(c.path("/context"), ask(session)).want(200).body)
		if !strings.Contains(text, "ada has a parrot") || strings.Contains(text, "bob") {
			t.Errorf("the window of %s: %s", session, text)
		}
	}
	call := object{"name": "memory_recall", "session_id": "named", "arguments": object{"query": "parrot"}}
	if text := string(c.post(c.path("/tools/call"), call).want(200).body); !strings.Contains(text, "ada has") || strings.Contains(text, "bob") {
		t.Errorf("a tool in the session: %s", text)
	}
	for _, scope := range []string{"transcript", "both"} {
		for _, query := range []string{"parrot", "*"} {
			for range 2 { // not indexed at first, and perhaps indexed the second time
				body := object{"query": query, "scope": scope, "limit": 50}
				text := string(ada.post(c.path("/memories/recall"), body).want(200).body)
				if !strings.Contains(text, "blue") || !strings.Contains(text, "parrot of ada") || strings.Contains(text, "bob") || strings.Contains(text, "red") {
					t.Errorf("%s %q: %s", scope, query, text)
				}
				body["namespace"] = []string{"users", "ada"}
				if same := string(c.post(c.path("/memories/recall"), body).want(200).body); same != text {
					t.Errorf("%s %q: the key finds %s, the namespace %s", scope, query, text, same)
				}
			}
		}
	}
	for _, path := range []string{"/sessions", "/sessions?sort=-last_activity_at", "/sessions?q=parrot", "/sessions?fields=preview,window"} {
		text := string(ada.get(c.path(path)).want(200).body)
		if !strings.Contains(text, `"id":"ada"`) || !strings.Contains(text, `"id":"named"`) || strings.Contains(text, "bob") || strings.Contains(text, `"id":"free"`) {
			t.Errorf("%s: %s", path, text)
		}
	}
	for _, foreign := range []string{"bob", "free"} {
		at := c.path("/sessions/" + foreign)
		for _, path := range []string{at, at + "/messages", at + "/export", at + "/stream"} {
			ada.get(path).problem(404)
		}
		turn(ada, foreign, "mine", nil).problem(404)
		ada.post(c.path("/context"), ask(foreign)).problem(404)
		ada.post(at+"/rewind", object{"to_turn": 0}).problem(404)
		ada.post(at+"/fork", object{}).problem(404)
		ada.post(at+"/summary", object{"action": "reset"}).problem(404)
		ada.do("DELETE", at, nil).problem(404)
		ada.post(c.path("/tools/call"), object{"name": "memory_list", "session_id": foreign}).problem(404)
	}
	// A copy of the session stays in the namespace.
	ada.post(c.path("/sessions/ada/fork"), object{"as": "copy"}).want(201)
	bob.get(c.path("/sessions/copy")).problem(404)
	var file object
	ada.get(c.path("/sessions/ada/export")).want(200).into(&file)
	file["session"].(object)["id"] = "again"
	bob.post(c.path("/sessions/import"), file).problem(404)
	ada.post(c.path("/sessions/import"), file).want(201)
	bob.get(c.path("/sessions/again")).problem(404)
	ada.do("DELETE", c.path("/sessions/again"), nil).want(204)
}
