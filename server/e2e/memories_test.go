package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// memory is one memory as the API shows it.
type memory struct {
	Key        string   `json:"key"`
	Content    string   `json:"content"`
	Category   string   `json:"category"`
	Tags       []string `json:"tags"`
	Source     string   `json:"source"`
	SessionID  *string  `json:"session_id"`
	Importance float64  `json:"importance"`
	ExpiresAt  *string  `json:"expires_at"`
	Version    int      `json:"version"`
	UpdatedAt  string   `json:"updated_at"`
	KeyID      string   `json:"key_id"`
	Agent      string   `json:"agent"`
	Replaced   struct {
		At    string `json:"at"`
		KeyID string `json:"key_id"`
	} `json:"replaced"`
}

// memoryPage is one page of memories.
type memoryPage struct {
	Data       []memory `json:"data"`
	HasMore    bool     `json:"has_more"`
	NextCursor *string  `json:"next_cursor"`
}

// remember stores a memory and returns it.
func (c *conversation) remember(spec object, statuses ...int) (m memory) {
	c.t.Helper()
	c.post(c.path("/memories"), spec).want(append(statuses, 201)...).into(&m)
	return m
}

// keys returns the keys of the memories in a filtered list, over all pages.
func (c *conversation) keys(query string) (keys []string) {
	c.t.Helper()
	cursor := ""
	for {
		var p memoryPage
		c.get(c.path("/memories?limit=2&order=recent&") + query + cursor).want(200).into(&p)
		for _, m := range p.Data {
			keys = append(keys, m.Key)
		}
		if !p.HasMore {
			return keys
		}
		cursor = "&cursor=" + *p.NextCursor
	}
}

// recalled returns the keys of what recall finds, best first.
func (c *conversation) recalled(query object) (keys []string) {
	c.t.Helper()
	var found struct {
		Data []struct {
			Kind string `json:"kind"`
			Key  string `json:"key"`
		} `json:"data"`
	}
	c.post(c.path("/memories/recall"), query).want(200).into(&found)
	for _, hit := range found.Data {
		keys = append(keys, hit.Key)
	}
	return keys
}

// TestMemoryLife: a memory is stored, overwritten, shown with its history, and forgotten.
func TestMemoryLife(t *testing.T) {
	c := own(t)
	first := c.remember(object{"key": "theme", "content": "The user prefers dark mode.", "tags": []string{"ui"}})
	if first.Category != "core" || first.Version != 1 || first.ExpiresAt != nil || first.KeyID == "" {
		t.Errorf("%+v", first)
	}
	var second memory
	c.post(c.path("/memories"), object{"key": "theme",
		"content": "The user prefers light mode."}).want(200).into(&second)
	if second.Version != 2 || len(second.Tags) != 0 {
		t.Errorf("%+v", second)
	}
	var shown memory
	c.get(c.path("/memories/theme")).want(200).into(&shown)
	if shown.Content != second.Content || shown.UpdatedAt != second.UpdatedAt {
		t.Errorf("%+v, stored %+v", shown, second)
	}
	var history memoryPage
	c.get(c.path("/memories/theme/history")).want(200).into(&history)
	if len(history.Data) != 1 || history.Data[0].Content != first.Content || history.Data[0].Tags[0] != "ui" ||
		history.Data[0].Replaced.KeyID != second.KeyID || history.Data[0].Replaced.At != second.UpdatedAt {
		t.Errorf("%+v", history)
	}
	for range 2 { // a repeated request gets the first answer again
		c.do("DELETE", c.path("/memories/theme"), nil, "Idempotency-Key", "forget").want(204)
	}
	c.do("DELETE", c.path("/memories/theme"), nil).problem(404)
	c.get(c.path("/memories/theme")).problem(404)
	c.get(c.path("/memories/theme/history")).problem(404)
	made := c.remember(object{"content": "no key"})
	if !strings.HasPrefix(made.Key, "mem_") {
		t.Errorf("the key of its own is %q", made.Key)
	}
	c.remember(object{"key": made.Key, "content": "the same key"}, 200)
	equal(t, "keys", c.keys(""), []string{made.Key})
}

// TestMemoryFilters: a list has the memories that match all given filters, bounds included, newest first.
func TestMemoryFilters(t *testing.T) {
	c := own(t)
	var at []string
	for i, spec := range []object{
		{"category": "core", "tags": []string{"a", "b"}},
		{"category": "daily", "tags": []string{"b"}, "source": "chat"},
		{"category": "conversation", "session_id": "thread-1"},
		{"category": "daily", "tags": []string{"b", "a", "größe & 1"}, "session_id": "thread-1"},
		{"category": "conversation"},
	} {
		spec["key"], spec["content"] = fmt.Sprint("k", i), "text"
		m := c.remember(spec)
		for len(at) > 0 && m.UpdatedAt == at[len(at)-1] { // within one millisecond of the program's clock
			m = c.remember(spec, 200)
		}
		at = append(at, m.UpdatedAt)
	}
	for query, want := range map[string][]string{
		"":                                     {"k4", "k3", "k2", "k1", "k0"},
		"category=daily":                       {"k3", "k1"},
		"tags=b":                               {"k3", "k1", "k0"},
		"tags=b&tags=a":                        {"k3", "k0"},
		"tags=" + url.QueryEscape("größe & 1"): {"k3"},
		"source=chat":                          {"k1"},
		"session_id=thread-1":                  {"k3", "k2"},
		"session_id=dashboard":                 {"k4"},
		"since=" + at[1] + "&until=" + at[3]:   {"k3", "k2", "k1"},
		"since=" + at[4]:                       {"k4"},
		"until=" + strings.TrimSuffix(at[0], "Z"):     {"k0"},
		"until=" + at[0][:10] + "&category=core":      {"k0"},
		"until=1999-12-31":                            nil,
		"until=1969-12-31":                            nil,
		"category=daily&tags=a&session_id=thread-1":   {"k3"},
		"tags=nothing":                                nil,
		"since=" + at[0][:10] + "&session_id=nowhere": nil,
	} {
		equal(t, query, c.keys(query), want)
	}
	c.get(c.path("/memories?since=yesterday")).wantCode(422, "invalid_time")
	c.get(c.path("/memories?since=2026-03-05&until=2026-03-04")).wantCode(422, "out_of_range")
	c.get(c.path("/memories?category=Core")).wantCode(422, "invalid_value")
	c.get(c.path("/memories?cursor=%21")).wantCode(422, "invalid_cursor")
}

// TestMemoryClearAnswers: odd values are either stored unchanged or refused with the name of the field.
func TestMemoryClearAnswers(t *testing.T) {
	c := own(t)
	for i, content := range []string{"naïve café", "👩‍👩‍👧‍👦 and 🏳️‍🌈", "用户喜欢深色模式。", "המשתמש מעדיף מצב כהה",
		"المستخدم يفضل", "a\u200bb\u2060c\u202ed",
		"zero\x00byte", "\ufeffmark", "e\u0301 is not é", strings.Repeat("long text. ", 1<<20/11),
		strings.Repeat("長", 1<<20/3)} {
		m := c.remember(object{"key": fmt.Sprint("k", i), "content": content})
		var shown memory
		c.get(c.path("/memories/" + m.Key)).want(200).into(&shown)
		if shown.Content != content || m.Content != content {
			t.Errorf("%.40q comes back as %.40q", content, shown.Content)
		}
	}
	tags := make([]string, 10_000)
	for i := range tags {
		tags[i] = fmt.Sprint("tag", i)
	}
	for code, body := range map[string]object{
		"too_many":           {"content": "x", "tags": tags},
		"blank":              {"content": "\u200b\u200d \n"},
		"invalid_id":         {"content": "x", "key": "user\tname"},
		"invalid_value":      {"content": "x", "category": "forever"},
		"core_never_expires": {"content": "x", "category": "core", "expires_at": "2999-01-01T00:00:00Z"},
		"out_of_range":       {"content": "x", "category": "daily", "expires_at": "1999-01-01T00:00:00Z"},
		"unknown_field":      {"content": "x", "tag": "x"},
		"wrong_type":         {"content": 5},
	} {
		p := c.post(c.path("/memories"), body).wantCode(422, code)
		if len(p.Errors) == 0 || p.Errors[0].Field == "" {
			t.Errorf("%s: no field is named: %+v", code, p)
		}
	}
	c.post(c.path("/memories"), object{"content": strings.Repeat("x", 1<<20+1)}).wantCode(413, "content_too_large")
	c.post(c.path("/memories"), []byte(`{"key":"a","key":"b","content":"x"}`)).wantCode(422, "duplicate_field")
	if got := len(c.keys("")); got != 11 {
		t.Errorf("%d memories are stored, want those that were accepted", got)
	}
	c.get(c.path("/memories/user%20name")).problem(404)
	c.do("DELETE", c.path("/memories/user%20name"), nil).problem(404)
}

// TestMemoriesOutliveSessionsButNotProjects deletes a session, and then its project.
func TestMemoriesOutliveSessionsButNotProjects(t *testing.T) {
	c := own(t)
	c.turn("thread", user("hello")).want(201)
	c.remember(object{"key": "k", "content": "said here", "category": "conversation", "session_id": "thread"})
	c.do("DELETE", c.path("/sessions/thread"), nil).want(204)
	equal(t, "after the session", c.keys("session_id=thread"), []string{"k"})
	c.do("DELETE", c.path(""), nil).want(204)
	c.get(c.path("/memories")).problem(404)
	c.post(c.path("/memories"), object{"content": "too late"}).problem(404)
	c.do("PUT", c.path(""), object{}).want(201)
	equal(t, "in the project made again", c.keys(""), nil)
}

// TestMemoriesAreApart: tenants, projects and keys limited to projects see only their own memories.
func TestMemoriesAreApart(t *testing.T) {
	red, blue := own(t), own(t)
	var made struct {
		AdminKey string `json:"admin_key"`
	}
	root := shared(t).as(rootKey)
	root.post("/api/v1/tenants", object{"id": mneme.unique("tenant")}).want(201).into(&made)
	other := converse(root.as(made.AdminKey), "s")
	for name, c := range map[string]*conversation{"red": red, "blue": blue, "other": other} {
		c.remember(object{"key": "same", "content": "this is " + name})
	}
	narrow := *red
	narrow.client = red.as(red.newKey("agent", red.project))
	for name, c := range map[string]*conversation{"red": red, "blue": blue, "other": other} {
		var m memory
		c.get(c.path("/memories/same")).want(200).into(&m)
		if m.Content != "this is "+name {
			t.Errorf("%s reads %q", name, m.Content)
		}
	}
	narrow.get(red.path("/memories/same")).want(200)
	for _, path := range []string{"/memories", "/memories/same", "/memories/same/history"} {
		narrow.get(blue.path(path)).problem(404)
		other.get(red.path(path)).problem(404)
	}
	narrow.post(blue.path("/memories"), object{"content": "x"}).problem(404)
	narrow.post(blue.path("/memories/recall"), object{"query": "this"}).problem(404)
	narrow.post(blue.path("/tools/call"),
		object{"name": "memory_recall", "arguments": object{"query": "this"}}).problem(404)
	narrow.do("DELETE", blue.path("/memories/same"), nil).problem(404)
	reader := red.as(red.newKey("reader"))
	reader.get(red.path("/memories/same")).want(200)
	reader.get("/api/v1/tools").want(200)
	reader.post(red.path("/memories"), object{"content": "x"}).problem(403)
	reader.post(red.path("/tools/call"),
		object{"name": "memory_forget", "arguments": object{"key": "same"}}).problem(403)
	reader.do("DELETE", red.path("/memories/same"), nil).problem(403)
	equal(t, "red", red.keys(""), []string{"same"})
}

// TestMemoryIdempotency: a repeated request gets the same answer and stores nothing; with another body it is refused.
func TestMemoryIdempotency(t *testing.T) {
	c := own(t)
	send := func(path string, body object, key string) reply {
		return c.do("POST", c.path(path), body, "Idempotency-Key", key)
	}
	for path, body := range map[string]object{
		"/memories":   {"content": "marmalade"},
		"/tools/call": {"name": "memory_store", "arguments": object{"key": "k", "content": "marmalade"}},
	} {
		first, again := send(path, body, "once"+path).want(200, 201), send(path, body, "once"+path)
		if again.status != first.status || string(again.body) != string(first.body) {
			t.Errorf("%s\n%d %s\nagain\n%d %s", path, first.status, first.body, again.status, again.body)
		}
		send(path, object{"content": "other", "name": "memory_store"}, "once"+path).problem(422)
	}
	if got := c.keys(""); len(got) != 2 {
		t.Errorf("stored: %q", got)
	}
}

// TestAcknowledgedMemoriesSurviveACrash kills the server while writers are active. Acknowledged memories are there and
// can be recalled at once, and forgotten ones stay forgotten.
func TestAcknowledgedMemoriesSurviveACrash(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := start(t, data)
	var mu sync.Mutex
	kept, gone := map[string]string{}, map[string]bool{}
	enough := make(chan struct{})
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			c := server.client(t)
			for n := 0; ; n++ {
				key, content := fmt.Sprintf("k%d-%d", w, n), fmt.Sprintf("writer%d said unique%dx%d", w, w, n)
				r, err := c.try("POST", "/api/v1/projects/default/memories", object{"key": key, "content": content})
				if err != nil || r.status != 201 {
					return // the server is gone
				}
				forgotten := n%5 == 4
				if forgotten {
					if r, err := c.try("DELETE", "/api/v1/projects/default/memories/"+key, nil); err != nil ||
						r.status != 204 {
						return
					}
				}
				mu.Lock()
				if forgotten {
					gone[key] = true
				} else {
					kept[key] = content
					if len(kept) == 100 {
						close(enough)
					}
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(patience):
		t.Fatal("the writers do not get on")
	}
	server.kill()
	group.Wait()
	server = start(t, data)
	c := converse(server.client(t), "s")
	c.project = "default"
	for key, content := range kept {
		var m memory
		c.get(c.path("/memories/" + key)).want(200).into(&m)
		if m.Content != content {
			t.Errorf("%s is %q, acknowledged %q", key, m.Content, content)
		}
		found := c.recalled(object{"query": content[strings.LastIndexByte(content, ' ')+1:], "limit": 1})
		equal(t, "recall of "+content, found, []string{key})
	}
	listed := c.keys("")
	for key := range gone {
		if slices.Contains(listed, key) {
			t.Errorf("%s was forgotten and is back", key)
		}
	}
	if len(listed) > len(kept)+4 || len(listed) < len(kept) {
		t.Errorf("%d memories are there, %d were acknowledged", len(listed), len(kept))
	}
}

// called is the result of a tool.
type called struct {
	Content    string         `json:"content"`
	Structured map[string]any `json:"structured"`
	IsError    bool           `json:"is_error"`
}

func (c *conversation) call(name string, arguments any) (r called) {
	c.t.Helper()
	c.post(c.path("/tools/call"), object{"name": name, "arguments": arguments,
		"session_id": "thread"}).want(200).into(&r)
	return r
}

// TestToolSession: a model stores, recalls, corrects and forgets, and its errors tell it what to do instead.
func TestToolSession(t *testing.T) {
	c := own(t)
	if r := c.call("memory_store", object{"key": "favourite colour",
		"content": "Ada's favourite colour is teal."}); r.IsError ||
		r.Structured["key"] != "favourite colour" {
		t.Fatalf("%+v", r)
	}
	c.call("memory_store", object{"key": "lunch", "content": "Ada had soup for lunch.", "category": "daily",
		"tags": "food"})
	r := c.call("memory_recall", `{"query":"which colour does Ada like?","limit":"1","since":null}`)
	if r.IsError || !strings.Contains(r.Content, "favourite colour") || !strings.Contains(r.Content, "teal") ||
		strings.Contains(r.Content, "soup") {
		t.Errorf("%+v", r)
	}
	if r := c.call("memory_recall", object{"query": "*", "tags": "food"}); !strings.Contains(r.Content, "soup") ||
		strings.Contains(r.Content, "teal") {
		t.Errorf("%+v", r)
	}
	if r := c.call("memory_recall", object{"since": "1 day ago", "category": "core"}); !strings.Contains(r.Content,
		"teal") ||
		strings.Contains(r.Content, "soup") {
		t.Errorf("%+v", r)
	}
	if r := c.call("memory_recall", object{"until": "yesterday"}); r.IsError ||
		len(r.Structured["memories"].([]any)) != 0 {
		t.Errorf("%+v", r)
	}
	if r := c.call("memory_recall", object{}); !r.IsError || !strings.Contains(r.Content, `"*"`) {
		t.Errorf("%+v", r)
	}
	if r := c.call("memory_store", object{"key": "favourite colour",
		"content": "Ada's favourite colour is red."}); r.IsError ||
		r.Structured["created"] != false {
		t.Errorf("%+v", r)
	}
	if r := c.call("memory_forget", object{"key": "favourite colour"}); r.Structured["forgotten"] != true {
		t.Errorf("%+v", r)
	}
	if r := c.call("memory_recall", object{"query": "favourite colour teal red"}); strings.Contains(r.Content,
		"teal") ||
		strings.Contains(r.Content, "red.") {
		t.Errorf("%+v", r)
	}
}

// TestToolShapes: each provider's tools have exactly the shape that it requires.
func TestToolShapes(t *testing.T) {
	c := shared(t)
	for format, want := range map[string][]string{
		"openai":    {"function", "type"},
		"anthropic": {"description", "input_schema", "name"},
		"mcp":       {"annotations", "description", "inputSchema", "name", "outputSchema", "title"},
	} {
		var list struct {
			Tools []map[string]json.RawMessage `json:"tools"`
		}
		c.get("/api/v1/tools?format=" + format).want(200).into(&list)
		if len(list.Tools) != 5 {
			t.Fatalf("%d tools", len(list.Tools))
		}
		for _, tool := range list.Tools {
			var fields []string
			for field := range tool {
				fields = append(fields, field)
			}
			slices.Sort(fields)
			equal(t, format, fields, want)
		}
	}
	c.get("/api/v1/tools?format=other").wantCode(422, "invalid_value")
}
