package main

import (
	"strings"
	"testing"
)

// rewinds compares the responses of taking back, copying and continuing turns with the description.
func (c *contract) rewinds(t *testing.T, p *program, worker, reader string) {
	const (
		project = "/api/v1/projects/{project}"
		session = project + "/sessions/{session}"
	)
	try := func(key, method, route, body string, status int, parts ...string) answer {
		t.Helper()
		parts = append(parts, "{project}", "default", "{session}", "rewound")
		a := p.do(key, method, strings.NewReplacer(parts...).Replace(route), body)
		if a.status != status {
			t.Errorf("%s %s: status %d, want %d: %s", method, route, a.status, status, a.body)
		}
		c.check(method, route, a)
		return a
	}
	const said = `"session_id":"rewound","messages":[{"role":"user","content":"and now?"}]`
	for range 3 {
		try(worker, "POST", project+"/turns", "{"+said+"}", 201)
	}
	try(worker, "POST", project+"/turns", `{"continues":true,`+said+"}", 201)
	try(worker, "POST", session+"/rewind", `{"to_turn":2,"if_revision":4}`, 200)
	try(worker, "POST", session+"/rewind", `{"to_turn":1,"if_revision":4}`, 409)
	try(worker, "POST", session+"/rewind", `{"to_turn":9}`, 422)
	try(worker, "POST", session+"/rewind", `{}`, 422)
	try(reader, "POST", session+"/rewind", `{"to_turn":1}`, 403)
	try(worker, "POST", session+"/rewind", `{"to_turn":1}`, 404, "{session}", "none")
	try(worker, "POST", project+"/turns", `{"rewind_to":1,"if_revision":5,`+said+"}", 201)
	try(worker, "POST", project+"/turns", `{"rewind_to":1,"if_revision":5,`+said+"}", 409)
	try(reader, "GET", session+"/messages", "", 200, "/messages", "/messages?superseded=true")
	try(reader, "GET", session+"/export", "", 200)
	try(reader, "GET", session, "", 200)
	try(reader, "POST", project+"/context", `{"session_id":"rewound","as_of":{"turn":2},"explain":true}`, 200)
	try(reader, "POST", project+"/context", `{"session_id":"rewound","as_of":{"turn":7}}`, 422)
	try(worker, "POST", session+"/fork", `{"at_turn":1,"as":"branch"}`, 201)
	try(worker, "POST", session+"/fork", `{"at_turn":1,"as":"branch"}`, 409)
	try(worker, "POST", session+"/fork", ``, 201)
	try(worker, "POST", session+"/fork", `{"at_turn":1}`, 404, "{session}", "none")
}
