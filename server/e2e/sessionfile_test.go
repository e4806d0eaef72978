package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// listed is one message of a list, unchanged except that its session's id is removed.
func listed(t *testing.T, c *conversation, session, query string) (messages []map[string]json.RawMessage, next string) {
	t.Helper()
	var page struct {
		Data       []map[string]json.RawMessage `json:"data"`
		NextCursor *string                      `json:"next_cursor"`
		HasMore    bool                         `json:"has_more"`
	}
	c.get(c.path("/sessions/" + session + "/messages?" + query)).want(200).into(&page)
	if page.HasMore != (page.NextCursor != nil) {
		t.Fatalf("has_more %v with cursor %v", page.HasMore, page.NextCursor)
	}
	if page.NextCursor != nil {
		next = *page.NextCursor
	}
	return page.Data, next
}

// pages reads a whole session in pages of a given size.
func pages(t *testing.T, c *conversation, session, order string, limit int) (all []map[string]json.RawMessage) {
	t.Helper()
	for cursor := ""; ; {
		page, next := listed(t, c, session, fmt.Sprintf("order=%s&limit=%d&cursor=%s", order, limit, cursor))
		all = append(all, page...)
		if next == "" {
			return all
		}
		if len(page) == 0 || len(page) > limit {
			t.Fatalf("a page of %d messages, asked for %d", len(page), limit)
		}
		cursor = next
	}
}

// copySession exports a session and imports it under another name, which works only once.
func (c *conversation) copySession(from, to string) (exported []byte) {
	c.t.Helper()
	exported = c.get(c.path("/sessions/" + from + "/export")).want(200).body
	var file map[string]json.RawMessage
	if err := json.Unmarshal(exported, &file); err != nil {
		c.t.Fatal(err)
	}
	file["session"] = bytes.Replace(file["session"], []byte(`"id":"`+from+`"`), []byte(`"id":"`+to+`"`), 1)
	c.post(c.path("/sessions/import"), file).want(201)
	c.post(c.path("/sessions/import"), file).problem(409)
	return exported
}

// TestExportComesBack: an imported copy of an exported session has the same bytes and gives the same windows.
func TestExportComesBack(t *testing.T) {
	for _, format := range hard.Formats() {
		t.Run(string(format), func(t *testing.T) {
			c := own(t)
			knobs := hard.Knobs{Seed: 7, Format: format, Messages: 300, Delegations: true}
			for _, turn := range hard.Generate(knobs).Turns {
				c.post(c.path("/turns"), turnBody("s", turn)).want(201)
			}
			c.copySession("s", "copy")

			one, two := pages(t, c, "s", "asc", 1000), pages(t, c, "copy", "asc", 1000)
			if len(one) != len(two) {
				t.Fatalf("%d messages came back of %d", len(two), len(one))
			}
			for i := range one {
				for field, value := range one[i] {
					if field != "id" && !bytes.Equal(value, two[i][field]) {
						t.Fatalf("message %d: %s is %s, was %s", i, field, two[i][field], value)
					}
				}
			}
			for _, asked := range append(hard.Formats(), "text") {
				for _, request := range []object{{}, {"budget": object{"max_messages": 0, "max_tokens": 0}},
					{"tool_results": "markdown", "budget": object{"max_messages": 30, "max_tokens": 0}}} {
					request["format"], request["session_id"] = asked, "s"
					want := *c.assemble(request)
					request["session_id"] = "copy"
					got := *c.assemble(request)
					for _, w := range []*window{&want, &got} {
						w.DecisionID, w.Pipeline = "", nil
					}
					if a, b := encodeJSON(t, want), encodeJSON(t, got); !bytes.Equal(a, b) {
						t.Fatalf("%v: windows differ:\n%s\n%s", request, clip(string(a), 1000), clip(string(b), 1000))
					}
				}
			}
		})
	}
}

// TestPages: pages of any size together are the whole list, forwards and backwards. The cursor of another list, or an
// invented one, is refused or gives a valid page.
func TestPages(t *testing.T) {
	c := own(t)
	var want []string
	for n := range 23 {
		c.turn("s", user(fmt.Sprint(n))).want(201)
		want = append(want, fmt.Sprint(n))
	}
	for range 3 {
		c.turn(mneme.unique("other"), user("x")).want(201)
	}
	for _, order := range []string{"asc", "desc"} {
		for _, limit := range []int{1, 2, 7, 22, 23, 24, 1000} {
			var got []string
			for _, m := range pages(t, c, "s", order, limit) {
				var content string
				if err := json.Unmarshal(m["content"], &content); err != nil {
					t.Fatal(err)
				}
				got = append(got, content)
			}
			if order == "desc" {
				slices.Reverse(got)
			}
			equal(t, fmt.Sprintf("%s by %d", order, limit), got, want)
		}
	}
	var sessions struct {
		NextCursor string `json:"next_cursor"`
	}
	c.get(c.path("/sessions?limit=1")).want(200).into(&sessions)
	c.get(c.path("/sessions/s/messages?cursor="+sessions.NextCursor)).want(200, 422)
	_, messages := listed(t, c, "s", "limit=1")
	c.get(c.path("/sessions?cursor="+messages)).want(200, 422)
	for _, cursor := range []string{"x", "%00", "AAAAAAAAAAA", "_____w", "__________8", "AAAA", "%2e%2e%2f",
		"gAAAAAAAAAA"} {
		for _, order := range []string{"asc", "desc"} {
			c.get(c.path("/sessions/s/messages?order="+order+"&cursor="+cursor)).want(200, 422)
		}
		for _, list := range []string{c.path("/sessions"), "/api/v1/projects", "/api/v1/keys"} {
			c.get(list+"?cursor="+cursor).want(200, 422)
		}
		c.as(rootKey).get("/api/v1/tenants?cursor="+cursor).want(200, 422)
	}
	for _, limit := range []string{"0", "-1", "1001", "1e3", "x", "99999999999999999999"} {
		c.get(c.path("/sessions/s/messages?limit=" + limit)).problem(422)
	}
	c.get(c.path("/sessions/s/messages?order=up")).problem(422)
}

// TestImportSurvivesACrash kills the server during imports. Each session is there completely or not at all, and can be
// imported if it is not. An import acknowledged with an Idempotency-Key is answered again after the restart.
func TestImportSurvivesACrash(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := start(t, data)
	const turns = 40
	file := func(n int) object {
		list := make([]object, turns)
		for i := range list {
			list[i] = object{"turn": i + 1, "messages": []object{
				{"format": "openai.chat", "message": user(fmt.Sprintf("import %d turn %d", n, i))}}}
		}
		return object{"version": 1, "session": object{"id": fmt.Sprint("file-", n)}, "turns": list}
	}
	const path = "/api/v1/projects/default/sessions"
	var mu sync.Mutex
	answers := map[int]string{}
	enough := make(chan struct{})
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			c := server.client(t)
			for n := w; ; n += 4 {
				r, err := c.try("POST", path+"/import", file(n), "Idempotency-Key", fmt.Sprint("import-", n))
				if err != nil {
					return // the server is gone
				}
				if r.status != 201 {
					t.Errorf("%d %s", r.status, r.body)
					return
				}
				mu.Lock()
				answers[n] = string(r.body)
				if len(answers) == 20 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	server.kill()
	group.Wait()
	c := start(t, data).client(t)
	for n := range len(answers) + 8 { // including those in progress
		answer, acknowledged := answers[n]
		r := c.get(path+fmt.Sprint("/file-", n, "/messages?limit=1000")).want(200, 404)
		var list struct{ Data []json.RawMessage }
		if r.status == 200 {
			r.into(&list)
		}
		if len(list.Data) != turns && (acknowledged || len(list.Data) != 0) {
			t.Errorf("file %d, acknowledged %v: %d of %d messages", n, acknowledged, len(list.Data), turns)
		}
		again := c.do("POST", path+"/import", file(n), "Idempotency-Key", fmt.Sprint("import-", n)).want(201)
		if acknowledged && string(again.body) != answer {
			t.Errorf("file %d: answered %s, again %s", n, answer, again.body)
		}
	}
}
