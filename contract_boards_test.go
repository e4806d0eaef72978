package main

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
)

// boards uses a board from creation to deletion, under both of its paths, and compares each response with the
// description.
func (c *contract) boards(t *testing.T, p *program, worker, reader string) {
	t.Helper()
	for name, boards := range map[string]string{"people": "/api/v1/boards", "agents": "/api/v1/agent/boards"} {
		const member = "/{board}/agents/{agent}"
		try := func(key, method, route, query, body string, status int) answer {
			t.Helper()
			path := strings.NewReplacer("{board}", name, "{agent}", "devops", "{value}", "progress").Replace(boards+route) + query
			a := p.do(key, method, path, body)
			if a.status != status {
				t.Errorf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
			}
			c.check(method, boards+route, a)
			return a
		}
		try(reader, "GET", "/{board}", "", "", 404)
		try(reader, "PUT", "/{board}", "", "{}", 403)
		try(p.key, "PUT", "/{board}", "", `{"name":"Infrastructure","retention_days":90,"projects":["default"]}`, 201)
		try(p.key, "PUT", "/{board}", "", ``, 200)
		try(p.key, "PUT", "/{board}", "", `{"retention_days":0}`, 422)
		try(reader, "GET", "/{board}", "", "", 200)
		try(reader, "GET", "", "", "", 200)
		try(worker, "PUT", member, "", `{"display_name":"Dev Ops","lead":true}`, 201)
		try(worker, "PUT", member, "", `{"paused":true}`, 200)
		try(reader, "GET", member, "", "", 200)
		try(reader, "GET", "/{board}/agents", "", "", 200)

		const value = "/{board}/values/{value}"
		try(worker, "PUT", value, "", `{"value":{"analysed":5}}`, 201)
		try(worker, "PUT", value, "", `{"value":null}`, 200)
		try(worker, "PUT", value, "", `{}`, 422)
		try(worker, "PUT", value, "", ``, 400)
		try(reader, "PUT", value, "", `{"value":1}`, 403)
		try(reader, "GET", value, "", "", 200)
		try(reader, "GET", "/{board}/values", "?limit=1", "", 200)

		try(worker, "POST", "/{board}/memory", "", `{"content":"@devops hello","tags":["chat"]}`, 201)
		try(p.key, "POST", "/{board}/memory", "", `{"content":"@devops <b>héllo</b>","is_chat":true,"source":null}`,
			201)
		try(p.key, "POST", "/{board}/memory", "", `{"content":"/pause","tags":["chat"]}`, 201)
		try(p.key, "POST", "/{board}/memory", "", `{"content":" "}`, 422)
		try(p.key, "POST", "/{board}/memory", "", `{`, 400)
		try(reader, "POST", "/{board}/memory", "", `{"content":"x"}`, 403)
		try("", "POST", "/{board}/memory", "", `{"content":"x"}`, 401)
		try(p.key, "POST", "/{board}/memory", "", `{"content":"nightly","tags":["backup"]}`, 201)
		try(reader, "GET", "/{board}/memory", "?is_chat=null&tags=chat&q=hello&order=asc&limit=1&offset=1", "", 200)
		try(reader, "GET", "/{board}/memory", "?is_chat=maybe", "", 422)
		try(reader, "GET", "/{board}/stats", "", "", 200)
		try(reader, "GET", "/{board}/export", "", "", 200)

		inbox := try(reader, "GET", member+"/notifications", "?unread=true", "", 200)
		items := inbox.json(t)["items"].([]any)
		if len(items) != 3 {
			t.Fatalf("%d notifications", len(items))
		}
		first := items[0].(map[string]any)["id"].(string)
		try(worker, "POST", member+"/notifications/ack", "", `{"up_to":"`+first+`"}`, 200)
		try(worker, "POST", member+"/notifications/ack", "", `{"up_to":"none"}`, 422)

		for route, event := range map[string]string{"/{board}/memory/stream": "memory",
			member + "/notifications/stream": "notification"} {
			path := strings.NewReplacer("{board}", name, "{agent}", "devops").Replace(boards + route)
			a := p.firstEvent(reader, path+"?since=2026-01-01T00:00:00")
			c.check("GET", boards+route, a)
			id, rest, _ := strings.Cut(string(a.body), "\n")
			kind, data, _ := strings.Cut(rest, "\n")
			if !strings.HasPrefix(id, "id: ") || kind != "event: "+event ||
				!strings.HasPrefix(data, `data: {"`+event+`":{`) {
				t.Errorf("%s: %q", path, a.body)
			}
			try(reader, "GET", route, "?since=yesterday", "", 422)
			if a := p.do(reader, "HEAD", path, ""); a.status != 200 || len(a.body) > 0 {
				t.Errorf("HEAD %s: %d", path, a.status)
			}
		}

		try(worker, "DELETE", "/{board}/memory", "", "", 400)
		try(p.key, "DELETE", "/{board}/memory", "?older_than_days=0&is_chat=true", "", 200)
		try(worker, "DELETE", value, "", "", 204)
		try(reader, "GET", value, "", "", 404)
		try(worker, "DELETE", member, "", "", 204)
		try(reader, "DELETE", "/{board}", "", "", 403)
		try(p.key, "DELETE", "/{board}", "", "", 204)
	}
}

// firstEvent reads a stream to the end of its first event. It calls opened once the stream is open.
func (p *program) firstEvent(key, path string, opened ...func()) answer {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	for _, do := range opened {
		do()
	}
	a := answer{status: res.StatusCode, header: res.Header}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if len(a.body) == 0 && !strings.HasPrefix(lines.Text(), "id:") {
			continue
		}
		if lines.Text() == "" {
			return a
		}
		a.body = append(append(a.body, lines.Text()...), '\n')
	}
	p.t.Fatalf("%s: the stream ended: %q", path, a.body)
	return a
}
