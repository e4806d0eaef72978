package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// TestOddBodies: a body that is not valid JSON of the documented shape is refused with a reason. A valid body, however
// odd, is stored as posted, and its windows are answered in every format.
func TestOddBodies(t *testing.T) {
	c := own(t)
	message := func(fields string) string { return `{"messages":[{"role":"user","content":"a"` + fields + `}]}` }
	for name, test := range map[string]struct {
		body   string
		status int
	}{
		"nested deeply":        {message(`,"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000)), 201},
		"nested too deeply":    {message(`,"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), 400},
		"objects too deep":     {strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), 400},
		"never closed":         {strings.Repeat("[", 1<<20), 400},
		"huge numbers":         {message(`,"x":1e999999,"y":` + strings.Repeat("9", 100_000)), 422},
		"field twice":          {`{"messages":[],"messages":[]}`, 422},
		"message field twice":  {message(`,"content":"b"`), 422},
		"lone surrogate":       {message(`,"name":"\ud800"`), 422},
		"NUL":                  {message(`,"name":"a\u0000b"`), 201},
		"raw NUL":              {message(",\"name\":\"a\x00b\""), 400},
		"invalid UTF-8":        {message(",\"name\":\"\xff\xfe\""), 400},
		"byte order mark":      {"\ufeff" + message(""), 400},
		"NaN":                  {message(`,"x":NaN`), 400},
		"two values":           {message("") + "{}", 400},
		"blank":                {" \n ", 400},
		"a list":               {"[]", 422},
		"null":                 {"null", 422},
		"messages null":        {`{"messages":null}`, 422},
		"message null":         {`{"messages":[null]}`, 422},
		"message a string":     {`{"messages":["x"]}`, 422},
		"65 tags":              {message(`,"tags":["` + strings.Repeat(`t","`, 64) + `t"]`), 422},
		"long tag":             {message(`,"tags":["` + strings.Repeat("t", 129) + `"]`), 422},
		"control in a tag":     {message(`,"tags":["\u202e\u0000"]`), 201},
		"year 10000":           {message(`,"created_at":"10000-01-01T00:00:00Z"`), 422},
		"long session":         {`{"session_id":"` + strings.Repeat("s", 129) + `","messages":[]}`, 422},
		"session with a slash": {`{"session_id":"../x","messages":[]}`, 422},
		"agent not ASCII":      {`{"agent":"ä","messages":[]}`, 422},
	} {
		t.Run(name, func(t *testing.T) {
			c := c.client.in(t)
			session := mneme.unique("odd")
			body := strings.Replace(test.body, `{"messages"`, `{"session_id":"`+session+`","messages"`, 1)
			path := "/api/v1/projects/default"
			c.do("POST", path+"/turns", []byte(body)).want(test.status)
			for _, format := range append(hard.Formats(), "text") {
				var w window
				c.post(path+"/context", object{"session_id": session, "format": format,
					"explain": true}).want(200).into(&w)
				if considered := w.Usage.ConsideredMessages; considered != 0 != (test.status == 201) {
					t.Errorf("%s: %d messages are considered", format, considered)
				}
			}
			c.get(path+"/sessions/"+session+"/messages").want(200, 404)
			c.get(path+"/sessions/"+session+"/export").want(200, 404)
		})
	}
}

// TestTurnBounds: a turn with the maximum number of messages is accepted, and one with one more is refused as a whole.
func TestTurnBounds(t *testing.T) {
	c := own(t)
	most := slices.Repeat([]any{user("a")}, 4096)
	c.turn("most", most...).want(201)
	c.turn("most", append(most, user("one more"))...).wantCode(413, "turn_too_large")
	c.turn("long", user(strings.Repeat("word ", 1<<20))).want(201)
	for session, want := range map[string]int{"most": 4096, "long": 1} {
		w := c.assemble(object{"session_id": session, "budget": object{"max_messages": 0, "max_tokens": 0}})
		if len(w.Messages) != want {
			t.Errorf("%s: %d messages in the window, want %d", session, len(w.Messages), want)
		}
	}
}

// TestDeletionUnderLoad: sessions, projects and tenants are deleted and created again while others write to them and
// read them. No request gets a 5xx, and nothing that was deleted appears again.
func TestDeletionUnderLoad(t *testing.T) {
	t.Parallel()
	c := own(t)
	root := c.as(rootKey)
	path := c.path("")
	tenant := mneme.unique("gone")
	done := make(chan struct{})
	var users, deleters sync.WaitGroup
	use := func(work func(n int) reply) {
		users.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				if r := work(n); r.status >= 500 {
					t.Errorf("%s: %d %s", r.what, r.status, clip(string(r.body), 300))
					return
				}
			}
		})
	}
	send := func(c client, method, path string, body any) reply {
		r, err := c.try(method, path, body)
		if err != nil {
			t.Errorf("%s %s: %v", method, path, err)
			return reply{status: 599}
		}
		return r
	}
	file := object{"version": 1, "session": object{"id": "s"}, "turns": []object{{"turn": 1, "messages": []object{
		{"format": "openai.chat", "message": user("imported")}}}}}
	for range 2 {
		use(func(n int) reply {
			return send(c.client, "POST", path+"/turns", object{"session_id": "s", "messages": []object{
				user(fmt.Sprint(n)), calling("c", "f", "{}"), result("c", "r")}})
		})
		use(func(n int) reply {
			formats := append(hard.Formats(), "text")
			return send(c.client, "POST", path+"/context", object{"session_id": "s", "format": formats[n%4],
				"explain": true})
		})
	}
	use(func(int) reply { return send(c.client, "GET", path+"/sessions/s/messages?limit=500&order=desc", nil) })
	use(func(int) reply { return send(c.client, "GET", path+"/sessions/s/export", nil) })
	use(func(int) reply { return send(c.client, "POST", path+"/sessions/import", file) })
	var admin sync.Map
	use(func(n int) reply {
		key, ok := admin.Load("key")
		if !ok {
			return reply{}
		}
		return send(c.as(key.(string)), "POST", "/api/v1/projects/default/turns",
			object{"messages": []object{user("x")}})
	})
	deleters.Go(func() {
		for n := range 40 {
			send(c.client, "DELETE", path+"/sessions/s", nil)
			if n%4 == 0 {
				send(c.client, "DELETE", path, nil)
				send(c.client, "PUT", path, object{})
			}
			var made struct {
				AdminKey string `json:"admin_key"`
			}
			if r := send(root, "POST", "/api/v1/tenants", object{"id": tenant, "name": "x"}); r.status == 201 {
				if json.Unmarshal(r.body, &made) == nil {
					admin.Store("key", made.AdminKey)
				}
			}
			send(root, "DELETE", "/api/v1/tenants/"+tenant, nil)
		}
	})
	deleters.Wait()
	close(done)
	users.Wait()
	c.do("DELETE", path+"/sessions/s", nil).want(204, 404)
	equal(t, "window of the deleted session", spoken(t, c.assemble(object{"session_id": "s"})), nil)
	c.turn("s", user("new")).want(201)
	equal(t, "window of its successor", spoken(t, c.assemble(object{"session_id": "s"})), []string{"user: new"})
}
