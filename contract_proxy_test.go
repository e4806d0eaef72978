package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// anyProvider starts a provider that answers every call with an object, and returns the host that a server must
// allow.
func anyProvider(t *testing.T) (host string) {
	t.Helper()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","object":"y","of":"`+r.URL.Path+`"}`)
	}))
	t.Cleanup(provider.Close)
	return strings.TrimPrefix(provider.URL, "http://")
}

// proxy requests every route of the proxy, under each of its three paths.
func (c *contract) proxy(t *testing.T, p *program, host, worker, reader string) {
	t.Helper()
	const settings = "/api/v1/projects/{project}/settings"
	patch := func(body string, status int) {
		t.Helper()
		a := p.do(p.key, "PATCH", "/api/v1/projects/default/settings", body)
		if a.status != status {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
		c.check("PATCH", settings, a)
	}
	local := func(more string) string { return `"base_url":"http://` + host + `/v1","allow_private":true` + more }
	patch(`{"upstreams":[{"name":"a","protocol":"openai",`+local(`,"models":["gpt-*"],"context_tokens":9,"output_tokens":8,"headers":["x-extra"],"profile":{"reasoning":"all","encodings":["zstd","br","gzip"]}`)+`},
		{"name":"b","protocol":"openai",`+local("")+`},{"name":"c","protocol":"anthropic","key":"pass",`+local("")+`}]}`, 200)
	for _, wrong := range []string{`{}`, `{"name":"a","protocol":"smtp",` + local("") + `}`, `{"name":"a","protocol":"openai","base_url":"https://elsewhere/v1"}`,
		`{"name":"a","protocol":"openai","key":"sealed","secret":"sk",` + local("") + `}`,
		`{"name":"a","protocol":"openai","key":"sealed",` + local("") + `}`, `{"name":"a","protocol":"openai","secret":"sk",` + local("") + `}`,
		`{"name":"a","protocol":"openai","box":"x",` + local("") + `}`, `{"name":"a","protocol":"openai",` + local(`,"headers":["Cookie"]`) + `}`,
		`{"name":"a","protocol":"openai",` + local(`,"output_tokens":9,"context_tokens":9`) + `}`, `{"name":"a","protocol":"openai",` + local(`,"models":["["]`) + `}`} {
		patch(`{"upstreams":[`+wrong+`]}`, 422)
	}
	for _, wrong := range []string{`["forget"]`, `["memory_recall","memory_recall"]`, `"memory_recall"`} {
		patch(`{"proxy_tools":`+wrong+`}`, 422)
	}
	for _, wrong := range []string{`["model"]`, `["user","user"]`, `["metadata."]`, `"user"`} {
		patch(`{"proxy_session_fields":`+wrong+`}`, 422)
	}
	patch(`{"proxy_session_fields":["prompt_cache_key","metadata.chat"]}`, 200)
	patch(`{"proxy_mode":"on"}`, 422)
	patch(`{"proxy_mode":"off","proxy_on_error":"closed","proxy_on_disconnect":"finish","proxy_history":"resend","proxy_require_session":false,"proxy_tools":["memory_store"]}`, 200)
	for route, item := range c.doc["paths"].(map[string]any) {
		if strings.HasPrefix(route, "/api/") || !strings.Contains(route, "/v1/") {
			continue
		}
		path := strings.NewReplacer("{project}", "default", "{session}", "chat", "{model}", "gpt-4.1", "{response}", "resp_1",
			"{operation}", "speech", "{file}", "file_1", "{batch}", "batch_1", "{conversation}", "conv_1", "{item}", "msg_1",
			"{vendor}", "openai").Replace(route)
		for method := range item.(map[string]any) {
			method, body := strings.ToUpper(method), ""
			if method == http.MethodPost {
				body = `{"model":"gpt-4.1"}`
			}
			for _, call := range []struct {
				key    string
				status int
			}{{worker, 200}, {reader, 403}, {"mk_unknown", 401}} {
				a := p.do("sk-client", method, path, body, "X-Mneme-Key", call.key)
				if a.status != call.status {
					t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
				}
				c.check(method, route, a)
			}
		}
	}
	patch(`{"upstreams":null,"proxy_mode":null,"proxy_on_error":null,"proxy_on_disconnect":null,"proxy_history":null,"proxy_require_session":null,"proxy_tools":null,
		"proxy_session_fields":null}`, 200)
}
