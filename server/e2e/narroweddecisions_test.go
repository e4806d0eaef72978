package e2e

import (
	"slices"
	"strings"
	"testing"
)

// A narrowed key reads the decisions of sessions in its namespaces, but none whose window looked elsewhere or was made before
// the session had a namespace, and none of other sessions.
func TestNarrowedKeyReadsDecisions(t *testing.T) {
	c := own(t)
	ada, bob := c.client.narrowed([]string{"users", "ada"}), c.client.narrowed([]string{"users", "bob"})
	for who, by := range map[string]client{"ada": ada, "bob": bob} {
		by.post(c.path("/memories"), object{"key": "pet-of-" + who, "content": who + " has a parrot"}).want(201)
		by.post(c.path("/turns"), object{"session_id": who, "messages": []object{user("hello of " + who)}}).want(201)
	}
	decide := func(by client, session string, memories any) string {
		t.Helper()
		var made struct {
			ID string `json:"decision_id"`
		}
		by.post(c.path("/context"), object{"session_id": session, "pending": []object{user("whose parrot?")}, "memories": memories}).want(200).
			into(&made)
		return made.ID
	}
	early := decide(ada, "ada-later", object{})
	ada.post(c.path("/turns"), object{"session_id": "ada-later", "messages": []object{user("hello")}}).want(201)
	mine := decide(ada, "ada", object{})
	byAdmin := decide(c.client, "ada", object{})
	astray := []string{early, decide(c.client, "ada", object{"namespace": []string{"users", "bob"}}),
		decide(c.client, "ada", object{"namespace": []string{"users"}}), decide(c.client, "free", nil), decide(bob, "bob", object{})}
	read := func(id string) map[string]reply {
		at := c.path("/decisions/" + id)
		return map[string]reply{"get": ada.get(at), "replay": ada.post(at+"/replay", nil), "case": ada.get(at + "/case"),
			"why-not": ada.post(at+"/why-not", object{"message_id": "none"})}
	}
	for _, id := range []string{mine, byAdmin} {
		for what, r := range read(id) {
			if what == "why-not" {
				r.problem(404)
			} else if text := string(r.want(200).body); what != "case" && !strings.Contains(text, "ada has a parrot") && !strings.Contains(text, "pet-of-ada") || strings.Contains(text, "bob") {
				t.Errorf("%s of %s: %s", what, id, text)
			}
		}
	}
	for i, id := range astray {
		for what, r := range read(id) {
			if r.status != 404 || strings.Contains(string(r.body), "bob") {
				t.Errorf("%s of %d: %d %s", what, i, r.status, r.body)
			}
		}
	}
	type row struct {
		ID string `json:"decision_id"`
	}
	var list struct{ Data []row }
	ada.get(c.path("/decisions?session_id=ada")).want(200).into(&list)
	if !slices.ContainsFunc(list.Data, func(d row) bool { return d.ID == mine }) || len(list.Data) != 4 {
		t.Errorf("%+v", list)
	}
	ada.get(c.path("/decisions?session_id=ada-later")).want(200).into(&list)
	if len(list.Data) != 0 {
		t.Errorf("decisions from before the first turn are listed: %+v", list)
	}
	ada.get(c.path("/decisions")).wantCode(422, "required")
	for _, foreign := range []string{"bob", "free", "none"} {
		ada.get(c.path("/decisions?session_id=" + foreign)).problem(404)
	}
	ada.post(c.path("/decisions/"+mine+"/fork"), object{}).wantCode(403, "key_narrowed")
	ada.do("DELETE", c.path("/sessions/ada"), nil).want(204)
	ada.get(c.path("/decisions/" + mine)).problem(404)
}
