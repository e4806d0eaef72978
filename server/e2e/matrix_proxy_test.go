package e2e

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// consoleRows returns the routes of the console's sign-in. Every key can make a link for it. The operator's key can
// only if the server was started with the console enabled for the operator.
func consoleRows() []matrixRow {
	const open, reader = "open", "reader"
	return []matrixRow{
		{route: "POST /console/session", least: open, ok: 201, body: `{"key":"{signs}"}`, send: sendConsole},
		{route: "DELETE /console/session", least: open, ok: 204, send: sendConsole},
		{route: "POST /console/links", least: reader, ok: 201, operator: 403, own: true},
		{route: "GET /api/v1/whoami", least: reader, ok: 200, apart: 200, operator: 200},
	}
}

// proxyRows returns the proxy's routes under its three prefixes. The operator's key makes no model calls, whichever
// tenant it names. {response} and {model} name things at the provider, which must protect them itself, and nothing of a
// tenant.
func proxyRows() (rows []matrixRow) {
	const chat = `"model":"gpt-4.1","messages":[{"role":"user","content":"{marker}"}]`
	message := strings.Replace(chat, "gpt-4.1", "claude-sonnet-4-5", 1)
	for _, prefix := range []string{"", "/p/{project}", "/p/{project}/s/{session}"} {
		for _, row := range []matrixRow{
			{route: "POST /chat/completions", body: `{` + chat + `}`},
			{route: "POST /responses", body: `{"model":"gpt-4.1","input":"{marker}"}`},
			{route: "POST /messages", body: `{"max_tokens":100,` + message + `}`},
			{route: "POST /messages/count_tokens", body: `{` + message + `}`},
			{route: "GET /models"},
			{route: "GET /models/{model}"},
			{route: "POST /embeddings", body: `{"model":"text-embedding-3-small","input":"{marker}"}`},
			{route: "POST /moderations", body: `{"input":"{marker}"}`},
			{route: "POST /responses/compact", body: `{"model":"gpt-4.1","input":"{marker}"}`},
			{route: "GET /responses/{response}"},
			{route: "DELETE /responses/{response}"},
			{route: "POST /responses/input_tokens", body: `{"x":"{marker}"}`},
			{route: "POST /responses/{response}/cancel", body: `{"x":"{marker}"}`},
			{route: "GET /responses/{response}/input_items"},
			{route: "POST /conversations", body: `{"x":"{marker}"}`},
			{route: "GET /conversations/{conversation}"},
			{route: "POST /conversations/{conversation}", body: `{"x":"{marker}"}`},
			{route: "DELETE /conversations/{conversation}"},
			{route: "GET /conversations/{conversation}/items"},
			{route: "POST /conversations/{conversation}/items", body: `{"x":"{marker}"}`},
			{route: "GET /conversations/{conversation}/items/{item}"},
			{route: "DELETE /conversations/{conversation}/items/{item}"},
			{route: "POST /files", body: `{"x":"{marker}"}`},
			{route: "GET /files"},
			{route: "GET /files/{file}"},
			{route: "DELETE /files/{file}"},
			{route: "GET /files/{file}/content"},
			{route: "POST /batches", body: `{"x":"{marker}"}`},
			{route: "GET /batches"},
			{route: "GET /batches/{batch}"},
			{route: "POST /batches/{batch}/cancel", body: `{"x":"{marker}"}`},
			{route: "POST /messages/batches", body: `{"x":"{marker}"}`},
			{route: "GET /messages/batches"},
			{route: "GET /messages/batches/{batch}"},
			{route: "DELETE /messages/batches/{batch}"},
			{route: "POST /messages/batches/{batch}/cancel", body: `{"x":"{marker}"}`},
			{route: "GET /messages/batches/{batch}/results"},
			{route: "GET /models/{vendor}/{model}"},
			{route: "POST /audio/{operation}", body: `{"model":"tts-1","input":"{marker}"}`},
			{route: "POST /images/{operation}", body: `{"model":"gpt-image-1","prompt":"{marker}"}`},
		} {
			method, path, _ := strings.Cut(row.route, " ")
			row.route = method + " " + prefix + "/v1" + path
			row.least, row.ok, row.operator, row.own, row.send = "agent", 200, 403, true, sendProxied
			for _, served := range []string{"/chat/completions", "/responses", "/messages", "/messages/count_tokens", "/models",
				"/models/{model}", "/embeddings", "/moderations"} {
				if path == served && !strings.HasPrefix(row.route, "DELETE") {
					row.apart = 200
				}
			}
			if strings.Contains(prefix, "{session}") && slices.Contains([]string{"/chat/completions", "/responses", "/messages"}, path) {
				row.apart = 404 // the session belongs to no namespace
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// proxied reports whether a row belongs to the proxy, whose refusals have the shape of its provider's.
func (r matrixRow) proxied() bool {
	_, path, _ := strings.Cut(r.route, " ")
	return strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/p/")
}

// anthropic reports whether a path of the proxy belongs to Anthropic's API.
func anthropic(path string) bool { return strings.Contains(path, "/v1/messages") }

// refused checks that an answer is a complete refusal in the shape that the route's clients expect.
func (r matrixRow) refused(answer reply) {
	answer.t.Helper()
	if !r.proxied() {
		answer.problem(answer.status)
		return
	}
	var body struct {
		Type      string
		RequestID string `json:"request_id"`
		Error     struct {
			Type, Message, Code string
		}
	}
	answer.into(&body)
	whole := body.Error.Type != "" && body.Error.Message != ""
	if anthropic(r.route) {
		whole = whole && body.Type == "error" && body.RequestID != ""
	} else {
		whole = whole && body.Error.Code != ""
	}
	if !whole || answer.header.Get("X-Should-Retry") != "false" {
		answer.t.Errorf("%s: refused with %d %s", answer.what, answer.status, answer.body)
	}
}

// keepsToItsKey checks that a request that names another tenant is answered for its key's own tenant.
func (r matrixRow) keepsToItsKey(t *testing.T, h *tenancy) {
	t.Helper()
	other := newTenancy(t, h.server)
	for who, want := range map[string]int{"tenant_admin": r.ok, "root": r.operator} {
		answer := r.ask(h, h.root.in(t).as(h.keys[who]), other.things["tenant"]).want(want)
		r.silent(t, answer, other, who, other.things["tenant"])
	}
	if !r.proxied() {
		return
	}
	if !strings.Contains(r.route, "{project}") {
		r.send = func(c client, method, path, body string) reply {
			return sendProxiedTo(c, method, path, body, "X-Mneme-Project", "nothing")
		}
	}
	at := *h
	at.things = maps.Clone(h.things)
	at.things["project"] = "nothing"
	r.refused(r.ask(&at, h.admin.in(t), "").want(404))
}

// startMatrix starts the program with a provider.
func startMatrix(t *testing.T) *process {
	t.Helper()
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	upstream := standIn(t)
	p, err := launchWith(binary, t.TempDir(),
		[]string{"OPENAI_BASE_URL=" + upstream + "/v1", "ANTHROPIC_BASE_URL=" + upstream})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// clientsKey is the key that clients of the proxy send to the provider.
const clientsKey = "sk-of-the-client"

// standIn is a provider that checks model calls as the real ones do, and answers other requests with its key by echoing
// the path. A request with one of Mneme's keys fails the test.
func standIn(t *testing.T) string {
	calls := providers.Start(t)
	target, err := url.Parse(calls.URL)
	if err != nil {
		t.Fatal(err)
	}
	model := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			if all := strings.Join(values, " "); strings.Contains(all, "mk_") || strings.Contains(all, rootKey) {
				t.Errorf("%s %s: the provider saw %s: %s", r.Method, r.URL.Path, name, all)
			}
		}
		switch r.URL.Path {
		case "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens":
			model.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		key := r.Header.Get("Authorization")
		if anthropic(r.URL.Path) {
			key = "Bearer " + r.Header.Get("X-Api-Key")
		}
		if key != "Bearer "+clientsKey {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"object":"echo","path":%q}`, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// sendProxied sends a request as a provider's client does, with Mneme's key in addition to the provider's.
func sendProxied(c client, method, path, body string) reply {
	return sendProxiedTo(c, method, path, body)
}

// sendProxiedTo is sendProxied with more headers.
func sendProxiedTo(c client, method, path, body string, headers ...string) reply {
	if anthropic(path) {
		headers = append(headers, "X-Api-Key", clientsKey, "Anthropic-Version", "2023-06-01")
	} else {
		headers = append(headers, "Authorization", "Bearer "+clientsKey)
	}
	if c.key != "" {
		headers = append(headers, "X-Mneme-Key", c.key)
	}
	c.key = ""
	if body == "" {
		return c.do(method, path, nil, headers...)
	}
	return c.do(method, path, []byte(body), headers...)
}

// sendConsole sends a request as the console's own pages do.
func sendConsole(c client, method, path, body string) reply {
	headers := []string{"X-Mneme-Console", "1", "Sec-Fetch-Site", "same-origin"}
	if body == "" {
		return c.do(method, path, nil, headers...)
	}
	return c.do(method, path, []byte(body), headers...)
}
