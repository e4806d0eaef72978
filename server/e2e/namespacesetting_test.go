package e2e

import (
	"slices"
	"strings"
	"testing"
)

// With the setting memory_namespace, sessions that name no namespace have one each: their windows, tools, recall and MCP find
// what was stored there, and nothing else. What names a namespace, or has one already, is as without the setting.
func TestNamespaceSetting(t *testing.T) {
	c := own(t)
	settings := func(value any) reply { return c.do("PATCH", c.path("/settings"), object{"memory_namespace": value}) }
	for _, wrong := range []any{[]string{""}, []string{"a\tb"}, slices.Repeat([]string{"a"}, 17), "users", []int{1}} {
		settings(wrong).problem(422)
	}
	c.turn("before", user("a session from before")).want(201)
	settings([]string{"chats", "{session}"}).want(200)
	store := func(session, text string) reply {
		return c.post(c.path("/tools/call"), object{"name": "memory_store", "session_id": session,
			"arguments": object{"key": "pet", "content": text}})
	}
	sessions := []string{"ada", "bob", "ü/ %~1x", "before"}
	for _, session := range sessions {
		store(session, "the parrot of <"+session+"> is green").want(200)
	}
	c.post(c.path("/memories"), object{"key": "pet", "content": "the parrot of <nobody> is red"}).want(201)
	c.turn("ada", user("hello")).want(201)
	c.post(c.path("/turns"), object{"session_id": "named", "memory_namespace": []string{"chats", "bob"},
		"messages": []object{user("hello")}}).want(201)
	c.post(c.path("/turns"), object{"session_id": "ada", "memory_namespace": []string{"chats", "bob"},
		"messages": []object{user("no")}}).wantCode(409, "namespace_fixed")
	c.turn("before", user("goes on")).want(201)
	for session, want := range map[string][]string{"ada": {"chats", "ada"}, "named": {"chats", "bob"}, "before": nil} {
		var s struct {
			Namespace []string `json:"memory_namespace"`
		}
		c.get(c.path("/sessions/" + session)).want(200).into(&s)
		if !slices.Equal(s.Namespace, want) {
			t.Errorf("%s is in %q", session, s.Namespace)
		}
	}
	only := func(what, whose, text string) {
		t.Helper()
		for _, other := range append(slices.Clone(sessions), "nobody") {
			if got := strings.Contains(text, "<"+other+">") || strings.Contains(text, `\u003c`+other+`\u003e`); got != (other == whose) {
				t.Errorf("%s of %q shows that of %q: %v: %s", what, whose, other, got, text)
			}
		}
	}
	for session, whose := range map[string]string{"ada": "ada", "bob": "bob", "named": "bob", "before": "before", "ü/ %~1x": "ü/ %~1x",
		"bob~2": "bob"} {
		only("the window", whose, string(c.post(c.path("/context"), object{"session_id": session,
			"pending": []object{user("which colour is my parrot?")}, "memories": object{}}).want(200).body))
		only("a tool", whose, string(c.post(c.path("/tools/call"), object{"name": "memory_recall", "session_id": session,
			"arguments": object{"query": "parrot"}}).want(200).body))
		header := strings.NewReplacer("%", "%25", "ü", "%C3%BC").Replace(session)
		only("recall", whose, string(c.do("POST", c.path("/memories/recall"), object{"query": "parrot"}, "X-Mneme-Session", header).
			want(200).body))
	}
	// A window without memories needs no namespace, and one that names it needs no default.
	settings([]string{"{agent}"}).want(200)
	window := object{"session_id": "carl", "pending": []object{user("which colour is my parrot?")}}
	c.post(c.path("/context"), window).want(200)
	window["memories"] = object{}
	c.post(c.path("/context"), window).wantCode(422, "namespace_needed")
	c.turn("carl", user("who am I?")).wantCode(422, "namespace_needed")
	store("carl", "x").wantCode(422, "namespace_needed")
	window["memories"] = object{"namespace": []string{"chats", "ada"}}
	only("a named namespace", "ada", string(c.post(c.path("/context"), window).want(200).body))
	c.post(c.path("/turns"), object{"session_id": "carl", "agent": "helper", "messages": []object{user("hello")}}).want(201)
	var made struct{ Key string }
	c.post("/api/v1/keys", object{"name": "a", "role": "agent", "agent": "other"}).want(201).into(&made)
	c.client.as(made.Key).post(c.path("/turns"), object{"session_id": "dora", "messages": []object{user("hello")}}).want(201)
	// A narrowed key has its own namespace where it does not reach the default.
	apart := c.client.narrowed([]string{"users", "eve"})
	apart.post(c.path("/turns"), object{"session_id": "eve", "messages": []object{user("hello")}}).want(201)
	for session, want := range map[string][]string{"carl": {"helper"}, "dora": {"other"}, "eve": {"users", "eve"}} {
		var s struct {
			Namespace []string `json:"memory_namespace"`
		}
		c.get(c.path("/sessions/" + session)).want(200).into(&s)
		if !slices.Equal(s.Namespace, want) {
			t.Errorf("%s is in %q, want %q", session, s.Namespace, want)
		}
	}
	settings(nil).want(200)
	c.turn("free", user("hello")).want(201)
	if text := string(c.post(c.path("/tools/call"), object{"name": "memory_list", "session_id": "free"}).want(200).body); !strings.Contains(text, "nobody") {
		t.Errorf("without the setting: %s", text)
	}
}
