package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// change sends a request that may be refused. It returns an error only if the server is gone.
func (c client) change(method, path string, body any, headers ...string) error {
	r, err := c.patient(method, path, body, headers...)
	if err == nil && r.status >= 500 {
		c.t.Errorf("%s: %d %s", r.what, r.status, r.body)
	}
	return err
}

// patient is try for clients that repeat a request when the server is busy, as its answer asks them to.
func (c client) patient(method, path string, body any, headers ...string) (r reply, err error) {
	for {
		r, err = c.try(method, path, body, headers...)
		if err != nil || r.status != 503 || r.header.Get("Retry-After") == "" {
			return r, err
		}
	}
}

// anything makes a random change to sessions, projects, policies or keys.
func (c client) anything(random *rand.Rand) error {
	session, project := fmt.Sprint("s", random.IntN(6)), []string{"default", "other"}[random.IntN(2)]
	at := "/api/v1/projects/" + project
	call := fmt.Sprint("c", random.IntN(9))
	switch random.IntN(14) {
	case 0:
		return c.change("PUT", "/api/v1/projects/other", object{})
	case 1:
		if random.IntN(4) == 0 {
			return c.change("DELETE", "/api/v1/projects/other", nil)
		}
		return c.change("DELETE", at+"/sessions/"+session, nil)
	case 2:
		turns := []object{}
		for n := range 300 {
			turns = append(turns, object{"turn": n + 1, "messages": []object{
				{"format": "openai.chat", "message": user(fmt.Sprint("imported ", n))}}})
		}
		return c.change("POST", at+"/sessions/import", object{"version": 1, "session": object{"id": session},
			"turns": turns})
	case 3:
		return c.change("POST", "/api/v1/keys", object{"role": "agent", "name": "k"}, "Idempotency-Key",
			fmt.Sprint(random.Uint64()))
	case 4:
		module := wasmtest.Policy(wasmtest.Manifest(fmt.Sprint("v", random.IntN(20))), wasmtest.Keep())
		return c.change("POST", policiesPath+"?name=p"+call, module, "Content-Type", "application/wasm")
	case 5:
		return c.change("DELETE", policiesPath+"/p"+call, nil)
	case 6, 7, 8:
		return c.change("POST", at+"/context", object{"session_id": session})
	case 9:
		return c.change("POST", at+"/turns", object{"session_id": session, "messages": []object{result(call, "late")}})
	}
	return c.change("POST", at+"/turns", object{"session_id": session, "messages": []object{
		user("hello"), calling(call, "f", "{}"), result(call, "x"), calling(call+"b", "g", "{}")}},
		"Idempotency-Key", fmt.Sprint(random.Uint64()))
}

// anythingShared makes a random change to memories, boards or a tenant's data.
func (c client) anythingShared(random *rand.Rand) error {
	project := []string{"default", "default", "other"}[random.IntN(3)]
	memories := "/api/v1/projects/" + project + "/memories"
	board := "/api/v1/boards/" + []string{"plans", "talk"}[random.IntN(2)]
	agent := fmt.Sprint("agent", random.IntN(3))
	key := fmt.Sprint("k", random.IntN(100))
	switch random.IntN(16) {
	case 0, 1, 2, 3:
		var words strings.Builder
		for range 1 + random.IntN(8)*random.IntN(900) {
			fmt.Fprintf(&words, "word%d ", random.IntN(300))
		}
		return c.change("POST", memories, object{"key": key, "content": words.String(), "tags": []string{"t"},
			"category": []string{"core", "daily", "conversation"}[random.IntN(3)]}, "Idempotency-Key",
			fmt.Sprint(random.Uint64()))
	case 4:
		return c.change("DELETE", memories+"/"+key, nil)
	case 5:
		return c.change("POST", memories+"/recall", object{"query": "word7 hello", "scope": "both"})
	case 6:
		return c.change("PUT", board, object{"name": "n", "retention_days": 1 + random.IntN(9)})
	case 7, 8:
		return c.change("PUT", board+"/agents/"+agent, object{"display_name": agent, "lead": random.IntN(2) == 0})
	case 9, 10, 11:
		says := []string{"@" + agent + " look", "/pause", "@lead and @agent1", "plain words"}[random.IntN(4)]
		return c.change("POST", board+"/memory", object{"content": says, "is_chat": random.IntN(3) > 0},
			"Idempotency-Key",
			fmt.Sprint(random.Uint64()))
	case 12:
		switch random.IntN(5) {
		case 0:
			return c.change("DELETE", board, nil)
		case 1:
			return c.change("DELETE", board+"/agents/"+agent, nil)
		default:
			return c.change("DELETE", board+"/memory?older_than_days=0&is_chat=true", nil)
		}
	case 13:
		if random.IntN(3) > 0 {
			return c.change("POST", memories+"/recall", object{"query": "imported", "scope": "transcript"})
		}
		return c.change("DELETE", "/api/v1/admin/agent/conversations/purge?older_than_days=0&project_id="+project, nil)
	case 14:
		return c.change("POST", "/api/v1/admin/retention", nil)
	}
	return c.change("POST", "/api/v1/import", c.tenantOf(random), "Content-Type", "application/x-ndjson")
}

// tenantOf returns a file to import, with one project and one session.
func (c client) tenantOf(random *rand.Rand) []byte {
	at, project := "2026-01-01T00:00:00Z", fmt.Sprint("imported", random.IntN(100))
	return tenantFile(c.t, object{"type": "project", "id": project, "name": "imported", "created_at": at},
		object{"type": "session", "project": project, "id": fmt.Sprint("s", random.IntN(6)), "created_at": at,
			"last_activity_at": at},
		object{"type": "turn", "turn": 1, "messages": []object{
			{"format": "openai.chat", "created_at": at, "message": user("imported")}}},
		object{"type": "session_end", "turns": 1})
}
