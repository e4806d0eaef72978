package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCPSession: over each transport and in every version of the protocol, a client lists the same tools as HTTP does,
// stores, recalls, corrects and forgets, and is told about its mistakes.
func TestMCPSession(t *testing.T) {
	c := own(t)
	key, data := c.newKey("agent"), t.TempDir()
	all := []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
	for name, test := range map[string]struct {
		versions []string
		over     func(t testing.TB) mcp.Transport
	}{
		"http": {all, func(testing.TB) mcp.Transport { return c.as(key).overHTTP("?project=" + c.project) }},
		"stdio for a server": {all, func(t testing.TB) mcp.Transport {
			return overStdio(t, key, "--server", c.url+"/", "--project", c.project)
		}},
		"stdio": {all[3:], func(t testing.TB) mcp.Transport { return overStdio(t, "", "--data", data) }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, version := range test.versions {
				s, err := connect(t, test.over(t), version)
				if err != nil {
					t.Fatal(err)
				}
				s.converse(c.in(t))
				if err := s.Close(); err != nil {
					t.Errorf("%s ends with %v", version, err)
				}
			}
		})
	}
}

// converse is a whole session in an empty project.
func (s *mcpSession) converse(c client) {
	t := s.t
	t.Helper()
	if got := s.InitializeResult(); got.ServerInfo.Name != "mneme" || got.Instructions == "" ||
		got.Capabilities.Tools == nil ||
		got.Capabilities.Tools.ListChanged {
		t.Errorf("%+v", got)
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var want struct{ Tools []any }
	c.get("/api/v1/tools?format=mcp").want(200).into(&want)
	slices.SortFunc(list.Tools, func(a, b *mcp.Tool) int { // the SDK sorts by name
		names := []string{"memory_store", "memory_recall", "memory_get", "memory_list", "memory_forget"}
		return slices.Index(names, a.Name) - slices.Index(names, b.Name)
	})
	var got []any
	if err := json.Unmarshal(encodeJSON(t, list.Tools), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want.Tools) {
		t.Errorf("tools:\n%v\nover HTTP:\n%v", got, want.Tools)
	}

	if text, r := s.use("memory_store",
		object{"key": "favourite colour", "content": "Ada's favourite colour is teal. <ünï>"}); r.IsError ||
		r.StructuredContent.(map[string]any)["key"] != "favourite colour" ||
		!strings.Contains(text, "favourite colour") {
		t.Errorf("%s %+v", text, r.StructuredContent)
	}
	s.use("memory_store", object{"key": "lunch", "content": "Ada had soup for lunch.", "category": "daily"})
	text, r := s.use("memory_recall", object{"query": "which favourite colour has Ada?"})
	if found := r.StructuredContent.(map[string]any)["memories"].([]any); r.IsError || len(found) == 0 ||
		!strings.Contains(text, "teal. <ünï>") || found[0].(map[string]any)["key"] != "favourite colour" {
		t.Errorf("%s %+v", text, r.StructuredContent)
	}
	if text, r := s.use("memory_store", object{"key": "x", "content": "y", "colour": "red"}); !r.IsError ||
		r.StructuredContent != nil || !strings.Contains(text, "colour: there is no such argument") {
		t.Errorf("%v %s", r.IsError, text)
	}
	if _, err := s.try("memory_erase", object{}); err == nil || !strings.Contains(err.Error(),
		`unknown tool "memory_erase"`) {
		t.Errorf("%v", err)
	}
	s.resources()
	for _, key := range []string{"favourite colour", "lunch"} {
		if _, r := s.use("memory_forget",
			object{"key": key}); r.StructuredContent.(map[string]any)["forgotten"] != true {
			t.Errorf("%+v", r.StructuredContent)
		}
	}
	if text, r := s.use("memory_recall", object{"query": "*"}); r.IsError || strings.Contains(text, "teal") {
		t.Errorf("%s", text)
	}
}

// resources tests memories as resources, and the prompt.
func (s *mcpSession) resources() {
	t := s.t
	t.Helper()
	space := []string{"users", "a/b"}
	long := strings.Repeat("wörter ", 9000)
	s.use("memory_store", object{"key": "home", "namespace": space, "content": long})
	templates, err := s.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 1 {
		t.Errorf("templates: %+v %v", templates, err)
	}
	found := map[string]string{}
	for r, err := range s.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.URI})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].URI != r.URI {
			t.Fatalf("%s: %+v %v", r.URI, read, err)
		}
		found[r.URI] = read.Contents[0].Text
	}
	want := map[string]string{"memory://core/favourite%20colour": "Ada's favourite colour is teal. <ünï>",
		"memory://daily/lunch": "Ada had soup for lunch.", "memory://core/users/a%2Fb/home": long}
	if !maps.Equal(found, want) {
		t.Errorf("resources: %.300v", found)
	}
	for _, uri := range []string{"memory://core/absent", "memory://core/lunch", "memory://core/home", "memory://core",
		"memory://core/users/a/b/home", "memory://core/%2e%2e", "other://core/lunch"} {
		if r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: %+v", uri, r.Contents[0])
		}
	}
	if _, err := s.ListResources(t.Context(), &mcp.ListResourcesParams{Cursor: "x"}); err == nil {
		t.Error("a cursor of nobody's is taken")
	}
	prompts, err := s.ListPrompts(t.Context(), nil)
	if err != nil || len(prompts.Prompts) != 1 {
		t.Fatalf("prompts: %+v %v", prompts, err)
	}
	p, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: prompts.Prompts[0].Name,
		Arguments: map[string]string{"about": "colour"}})
	if err != nil || !strings.Contains(p.Messages[0].Content.(*mcp.TextContent).Text, "teal. <ünï>") {
		t.Errorf("prompt: %+v %v", p, err)
	}
	if caps := s.InitializeResult().Capabilities; caps.Resources == nil || caps.Resources.ListChanged ||
		caps.Resources.Subscribe || caps.Prompts == nil || caps.Prompts.ListChanged {
		t.Errorf("capabilities: %+v", caps)
	}
	s.use("memory_forget", object{"key": "home", "namespace": space})
}

// TestMCPKeys: each message has the rights of its own key. With a lower role, or without a valid key, it reaches
// nothing, whatever session it names, and a key reaches only its projects.
func TestMCPKeys(t *testing.T) {
	c, other := own(t), own(t)
	for key, want := range map[string]string{"": "Unauthorized", "mk_unknown": "Unauthorized",
		c.newKey("reader"): "Forbidden"} {
		if _, err := connect(t, c.as(key).overHTTP(""), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	ping := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	c.as("").do("POST", "/mcp", ping).wantCode(401, "key_missing")
	c.as("").do("POST", "/mcp", ping, "X-Agent-Token", c.key).want(200)
	c.as(c.newKey("reader")).do("POST", "/mcp", ping).wantCode(403, "role_too_low")
	c.as(rootKey).do("POST", "/mcp", ping).wantCode(422, "required")
	c.as(rootKey).do("POST", "/mcp?tenant=default", ping).want(200)
	if r := c.do("POST", "/mcp", ping, "Mcp-Session-Id", "stolen").want(200); r.header.Get("Mcp-Session-Id") != "" {
		t.Error("the server gives sessions")
	}

	var made struct{ ID, Key string }
	c.post("/api/v1/keys", object{"name": "x", "role": "agent", "projects": []string{c.project}}).want(201).into(&made)
	s := mustConnect(t, c.as(made.Key).overHTTP("?session=thread"))
	s.use("memory_store", object{"key": "mine", "content": "in the key's only project", "category": "conversation"})
	var m memory
	c.get(c.path("/memories/mine")).want(200).into(&m)
	if m.KeyID != made.ID || m.SessionID == nil || *m.SessionID != "thread" {
		t.Errorf("%+v", m)
	}
	wide := mustConnect(t, other.overHTTP("?project=no-such", "X-Mneme-Project", other.project, "X-Mneme-Session",
		"header"))
	wide.use("memory_store", object{"key": "theirs", "content": "not yours", "category": "conversation"})
	other.get(other.path("/memories/theirs")).want(200).into(&m)
	if m.SessionID == nil || *m.SessionID != "header" {
		t.Errorf("%+v", m)
	}
	astray := mustConnect(t, c.as(made.Key).overHTTP("?project="+other.project))
	_, err := astray.try("memory_recall", object{"query": "*"})
	if code, _ := refused(t, err); code != "not_found" {
		t.Errorf("another project: %v", err)
	}
	_, err = mustConnect(t, c.overHTTP("?session=two%09words")).try("memory_recall", object{"query": "*"})
	if code, _ := refused(t, err); code != "invalid_id" {
		t.Errorf("an odd session: %v", err)
	}

	c.do("DELETE", "/api/v1/keys/"+made.ID, nil).want(204)
	if _, err := s.try("memory_recall", object{"query": "*"}); err == nil ||
		!strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("after the key's end: %v", err)
	}
}

// TestMCPBodies: an invalid message is refused with a reason, and no message stops the server.
func TestMCPBodies(t *testing.T) {
	c := own(t)
	for body, status := range map[string]int{
		"":                  400,
		"{":                 400,
		"null":              400,
		"[]":                400,
		`"x"`:               400,
		"{}":                400,
		`{"jsonrpc":"2.0"}`: 400,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`:                                                                  400,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`:                                                                 400,
		`{"jsonrpc":"2.0","id":1,"method":"no/such"}`:                                                               400,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`:                                                            400,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`:                                        200,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_store","arguments":[1]}}`:           200,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_store","arguments":"{\"key\":1}"}}`: 200,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"memory_store"}}`:                                  400,
		`{"jsonrpc":"2.0","method":"notifications/no-such"}`:                                                        400,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`:                             202,
		`{"jsonrpc":"2.0","id":7,"result":{}}`:                                                                      202,
		strings.Repeat("[", 1<<20):                                                                                  400,
		strings.Repeat(`{"a":`, 1<<20):                                                                              400,
		strings.Repeat("[", 100_000) + strings.Repeat("]",
			100_000): 400,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":` + strings.Repeat(`{"a":`, 500_000) + "1" +
			strings.Repeat("}", 500_000) + "}}": 400,
		"[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 10_000) + "0]": 400,
		strings.Repeat(" ", 9<<20): 413,
	} {
		r := c.do("POST", "/mcp", []byte(body))
		if r.status != status {
			t.Errorf("%s: status %d, want %d: %s", clip(body, 120), r.status, status, clip(string(r.body), 300))
		} else if status >= 400 {
			r.problem(status)
		}
	}
	c.do("POST", "/mcp", []byte(`{}`), "Content-Type", "text/plain").wantCode(415, "unsupported_media_type")
	c.do("POST", "/mcp", []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), "MCP-Protocol-Version",
		"1999-01-01").problem(400)
	for _, method := range []string{"GET", "DELETE"} {
		if r := c.do(method, "/mcp", nil); r.problem(405).Code != "method_not_allowed" ||
			!strings.Contains(r.header.Get("Allow"), "POST") {
			t.Errorf("%s: Allow %q", method, r.header.Get("Allow"))
		}
	}
	ping := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	for origin, status := range map[string]int{"": 200, c.url: 200, "https://evil.example": 403, "null": 403} {
		c.do("POST", "/mcp", ping, "Origin", origin).want(status)
	}
	c.do("POST", "/mcp", ping, "Sec-Fetch-Site", "cross-site").wantCode(403, "origin_refused")
	counted := string(c.as("").get("/metrics").body)
	for _, status := range []string{"200", "202", "400", "403", "413"} {
		if !strings.Contains(counted, `mneme_http_requests_total{method="POST",route="/mcp",status="`+status+`"}`) {
			t.Errorf("no request with status %s was counted", status)
		}
	}
}

// TestMCPSubscriptions: a client of the newest protocol that subscribes to changes is told at once that there are none.
func TestMCPSubscriptions(t *testing.T) {
	c := own(t)
	begun := time.Now()
	r := c.do("POST", "/mcp", []byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",`+
		`"params":{"notifications":`+
		`{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`),
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen").want(200)
	if !strings.Contains(string(r.body), `"id":1`) || time.Since(begun) > patience/3 {
		t.Errorf("after %v: %s", time.Since(begun), r.body)
	}
}

// TestMCPConcurrentCalls: simultaneous calls over one session of each kind are each carried out once.
func TestMCPConcurrentCalls(t *testing.T) {
	c := own(t)
	var group sync.WaitGroup
	for i, over := range []mcp.Transport{
		c.overHTTP("?project=" + c.project), overStdio(t, c.key, "--server", c.url, "--project", c.project),
	} {
		s := mustConnect(t, over)
		for n := range 20 {
			group.Go(func() {
				key := fmt.Sprintf("k%d-%d", i, n)
				r, err := s.try("memory_store", object{"key": key, "content": "content of " + key})
				if err != nil || r.IsError || r.StructuredContent.(map[string]any)["key"] != key {
					t.Errorf("%s: %v %+v", key, err, r)
				}
			})
		}
	}
	group.Wait()
	if got := c.keys(""); len(got) != 40 {
		t.Errorf("%d memories", len(got))
	}
}

// TestMCPOutlivesTheServer: a session continues after the server was killed and started again.
func TestMCPOutlivesTheServer(t *testing.T) {
	data := t.TempDir()
	server := start(t, data)
	address := strings.TrimPrefix(server.url, "http://")
	sessions := []*mcpSession{
		mustConnect(t, server.client(t).overHTTP("")), mustConnect(t, overStdio(t, server.key, "--server", server.url))}
	for i, s := range sessions {
		s.use("memory_store", object{"key": fmt.Sprint("before", i), "content": fmt.Sprintf("Ada keeps %d jars of marmalade.", i+2)})
	}
	server.kill()
	_, err := sessions[1].try("memory_recall", object{"query": "said"})
	if code, detail := refused(t, err); code != "server_unreachable" || !strings.Contains(detail, "refused") {
		t.Errorf("while the server is gone: %v", err)
	}
	server = start(t, data, "--listen", address)
	for i, s := range sessions {
		if text, _ := s.use("memory_recall", object{"query": "marmalade"}); !strings.Contains(text,
			fmt.Sprint("before", i)) {
			t.Errorf("%s", text)
		}
	}
	server.stop(t)
}
