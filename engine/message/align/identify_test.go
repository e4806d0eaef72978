package align_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
)

// asked makes a request from headers, one per line, and a body.
func asked(t *testing.T, path, headers, body string) align.Request {
	t.Helper()
	h := http.Header{}
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		h.Set(name, value)
	}
	var members map[string]json.RawMessage
	if body != "" {
		if err := json.Unmarshal([]byte(body), &members); err != nil {
			t.Fatal(err)
		}
	}
	return align.Request{Path: path, Header: h.Get, Body: func(name string) []byte { return members[name] }}
}

// TestWhoseRequestsAre lists what clients and gateways send.
func TestWhoseRequestsAre(t *testing.T) {
	const claude = "X-Claude-Code-Session-Id: 0f3a-1\n"
	const codex = "session-id: s-1\nx-client-request-id: r\n"
	for _, tc := range []struct {
		name, path, headers, body string
		want                      align.Identity
	}{
		{"nothing", "", "", `{"model":"m"}`, align.Identity{Weak: false}},
		{"persons and prompts name no session", "", "X-Sm-User-Id: ada", `{"user":"ada","safety_identifier":"h"}`, align.Identity{}},
		{"path", "a", "X-Mneme-Session: b", `{}`, align.Identity{Session: "a", By: "path"}},
		{"header", "", "X-Mneme-Session: b\n" + claude, `{"conversation":"c"}`, align.Identity{Session: "b", By: "x-mneme-session"}},
		{"a fork's id", "", "X-Mneme-Session: b~2", `{}`, align.Identity{Session: "b~2", By: "x-mneme-session"}},
		{"no fork's id", "", "X-Mneme-Session: b~017", `{}`, align.Identity{Session: "b~017", By: "x-mneme-session"}},
		{"blank", "", "X-Mneme-Session:  ", `{"conversation":" ","metadata":{"session_id":""}}`, align.Identity{}},
		{"another alphabet", "", "X-Session-Id: a b/ü", `{}`, align.Identity{Session: "a b/ü", By: "x-session-id"}},
		{"escaped", "", "X-Mneme-Session: a%20b%2F%C3%BC", `{}`, align.Identity{Session: "a b/ü", By: "x-mneme-session"}},
		{"escaped for others", "", "X-Session-Id: a%20b", `{}`, align.Identity{Session: "a%20b", By: "x-session-id"}},
		{"not printable", "", "X-Session-Id: a\u200bb", `{}`, align.Identity{Session: ident.Hashed("a\u200bb"), By: "x-session-id"}},
		{"too long", "", "X-Session-Id: " + strings.Repeat("a", 129), `{}`,
			align.Identity{Session: ident.Hashed(strings.Repeat("a", 129)), By: "x-session-id"}},
		{"a step up", "..", "", `{}`, align.Identity{Session: ident.Hashed(".."), By: "path"}},

		{"Claude Code", "", claude, `{}`, align.Identity{Session: "0f3a-1", By: "x-claude-code-session-id"}},
		{"its sub-agent", "", claude + "X-Claude-Code-Agent-Id: a7\nX-Claude-Code-Parent-Agent-Id: a1\nX-Claude-Code-Request-Class: subagent",
			`{}`, align.Identity{Session: "0f3a-1", By: "x-claude-code-session-id", Agent: "a7", Class: "subagent"}},
		{"its compaction", "", claude + "X-Claude-Code-Request-Class: compaction", `{}`,
			align.Identity{Session: "0f3a-1", By: "x-claude-code-session-id", Class: "compaction"}},
		{"its compaction, by the other header", "", claude + "X-Claude-Code-Compaction: auto", `{}`,
			align.Identity{Session: "0f3a-1", By: "x-claude-code-session-id", Class: "compaction"}},
		{"behind its compaction", "", claude + "X-Claude-Code-Request-Class: main\nX-Claude-Code-Context-Compacted: 1", `{}`,
			align.Identity{Session: "0f3a-1", By: "x-claude-code-session-id", Class: "main"}},
		{"its older mark", "", "", `{"metadata":{"user_id":"user_9f_account_1_session_ab-cd"}}`,
			align.Identity{Session: "ab-cd", By: "metadata.user_id"}},
		{"its newer mark", "", "", `{"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"ab-cd\"}"}}`,
			align.Identity{Session: "ab-cd", By: "metadata.user_id"}},
		{"a user alone", "", "", `{"metadata":{"user_id":"ada"}}`, align.Identity{}},

		{"Codex", "", codex + "thread-id: s-1", `{"prompt_cache_key":"s-1"}`, align.Identity{Session: "s-1", By: "session-id"}},
		{"its sub-agent", "", codex + "thread-id: t-2", `{"prompt_cache_key":"s-1"}`,
			align.Identity{Session: "s-1", By: "session-id", Agent: "t-2"}},
		{"older Codex", "", "session_id: s-1\nthread_id: t-2", `{}`, align.Identity{Session: "s-1", By: "session_id", Agent: "t-2"}},
		{"its compaction", "",
			codex + `X-Codex-Turn-Metadata: {"request_kind":"compaction"}` + "\nX-Codex-Window-Id: s-1:0", `{}`,
			align.Identity{Session: "s-1", By: "session-id", Class: "compaction"}},
		{"its compaction, by the body", "", codex,
			`{"client_metadata":{"x-codex-turn-metadata":"{\"request_kind\":\"compaction\"}"}}`,
			align.Identity{Session: "s-1", By: "session-id", Class: "compaction"}},
		{"behind its compaction", "", codex + `X-Codex-Turn-Metadata: {"request_kind":"turn"}` + "\nX-Codex-Window-Id: s-1:2",
			`{}`, align.Identity{Session: "s-1", By: "session-id", Compacted: true}},
		{"behind its compaction, by the body", "", codex, `{"client_metadata":{"x-codex-window-id":"s-1:1"}}`,
			align.Identity{Session: "s-1", By: "session-id", Compacted: true}},
		{"what users share", "", "", `{"prompt_cache_key":"app-v1","metadata":{"customer":"acme"}}`, align.Identity{}},

		{"LLMGateway", "", "X-Session-Id: a\nX-Session-Affinity: b", `{"prompt_cache_key":"c","user":"d"}`,
			align.Identity{Session: "a", By: "x-session-id"}},
		{"OpenCode", "", "X-Session-Affinity: b", `{"prompt_cache_key":"c"}`, align.Identity{Session: "b", By: "x-session-affinity"}},
		{"LiteLLM", "", "", `{"litellm_session_id":"l","user":"d"}`, align.Identity{Session: "l", By: "litellm_session_id"}},
		{"Envoy", "", "agent-session-id: e", `{}`, align.Identity{Session: "e", By: "agent-session-id"}},
		{"Supermemory", "", "x-sm-conversation-id: m\nx-sm-user-id: u", `{"user":"d"}`, align.Identity{Session: "m", By: "x-sm-conversation-id"}},
		{"Open WebUI", "", "X-OpenWebUI-Chat-Id: c\nX-OpenWebUI-User-Id: u", `{"user":"d"}`, align.Identity{Session: "c", By: "x-openwebui-chat-id"}},
		{"Helicone", "", "Helicone-Session-Id: h", `{}`, align.Identity{Session: "h", By: "helicone-session-id"}},

		{"a conversation", "", "", `{"conversation":"conv_1","metadata":{"session_id":"a"}}`, align.Identity{Session: "conv_1", By: "conversation"}},
		{"a conversation's object", "", "", `{"conversation":{"id":"conv_1"}}`, align.Identity{Session: "conv_1", By: "conversation"}},
		{"a response before", "", "", `{"previous_response_id":"resp_1"}`, align.Identity{Previous: "resp_1", Weak: true}},
		{"a response before metadata", "", "", `{"previous_response_id":"resp_1","metadata":{"session_id":"a"}}`,
			align.Identity{Session: "a", By: "metadata.session_id", Previous: "resp_1", Weak: true}},
		{"a header before a response", "", "Session-Id: a", `{"previous_response_id":"resp_1"}`,
			align.Identity{Session: "a", By: "session-id", Previous: "resp_1"}},
		{"metadata", "", "", `{"metadata":{"thread_id":"c","conversation_id":"b"}}`, align.Identity{Session: "b", By: "metadata.conversation_id"}},
		{"types", "", "", `{"conversation":7,"metadata":[1],"prompt_cache_key":{"a":1},"previous_response_id":null}`, align.Identity{}},
		{"own agent", "", "X-Mneme-Session: s\nX-Mneme-Agent: a%20b", `{}`,
			align.Identity{Session: "s", By: "x-mneme-session", Agent: "a b"}},
	} {
		if got := align.Identify(asked(t, tc.path, tc.headers, tc.body)); got != tc.want {
			t.Errorf("%s: %+v, wanted %+v", tc.name, got, tc.want)
		}
	}
}

// TestRequestsThatAreNotStored lists requests that belong to no conversation.
func TestRequestsThatAreNotStored(t *testing.T) {
	for _, tc := range []struct{ headers, body, want string }{
		{"", `{}`, ""},
		{"", `{"max_tokens":1}`, "max_tokens"},
		{"", `{"max_completion_tokens":0}`, "max_tokens"},
		{"", `{"max_tokens":2,"n":1,"background":false}`, ""},
		{"", `{"n":2}`, "n"},
		{"", `{"background":true}`, "background"},
		{"X-Claude-Code-Request-Class: auxiliary", `{}`, "request_class"},
		{"X-Claude-Code-Request-Class: Compaction", `{}`, "request_class"},
		{"X-Claude-Code-Request-Class: main", `{}`, ""},
		{"X-Claude-Code-Request-Class: subagent", `{}`, ""},
		{"X-Claude-Code-Request-Class: workflow", `{}`, ""},
		{"X-Claude-Code-Compaction: false", `{}`, ""},
		{"X-Claude-Code-Compaction: 1", `{}`, "request_class"},
		{`X-Codex-Turn-Metadata: {"request_kind":"compaction"}`, `{}`, "request_class"},
		{`X-Codex-Turn-Metadata: {"request_kind":"turn"}`, `{}`, ""},
		{"X-Codex-Turn-Metadata: compaction", `{}`, ""},
	} {
		if got := align.Passing(asked(t, "", tc.headers, tc.body)); got != tc.want {
			t.Errorf("%s %s: %q, wanted %q", tc.headers, tc.body, got, tc.want)
		}
	}
}

// TestSharedFieldsNameSessionsWhereAProjectSaysSo checks that members that an application's users may share name a
// session only if the project lists them, and only if nothing else does.
func TestSharedFieldsNameSessionsWhereAProjectSaysSo(t *testing.T) {
	const body = `{"prompt_cache_key":"k","user":"ada","metadata":{"chat":"c-1"}}`
	for _, tc := range []struct {
		headers string
		fields  []string
		want    align.Identity
	}{
		{"", nil, align.Identity{}},
		{"", []string{"prompt_cache_key"}, align.Identity{Session: "k", By: "prompt_cache_key"}},
		{"", []string{"safety_identifier", "metadata.chat", "user"}, align.Identity{Session: "c-1", By: "metadata.chat"}},
		{"Session-Id: s", []string{"user"}, align.Identity{Session: "s", By: "session-id"}},
	} {
		r := asked(t, "", tc.headers, body)
		r.Fields = tc.fields
		if got := align.Identify(r); got != tc.want {
			t.Errorf("%q %q: %+v, wanted %+v", tc.headers, tc.fields, got, tc.want)
		}
	}
}
