package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// talker is an agent of one protocol. It sends its whole history with each call.
type talker struct {
	s       *site
	path    string
	model   string
	session string
	history []json.RawMessage
	headers []string
}

func clients(s *site) (all []*talker) {
	for path, model := range map[string]string{"/v1/chat/completions": "gpt-4.1", "/v1/responses": "gpt-5.6",
		"/v1/messages": "claude-sonnet-4-5"} {
		all = append(all, &talker{s: s, path: path, model: model, session: "s" + strings.ReplaceAll(path, "/", "-")})
	}
	return all
}

// call sends the history followed by these messages.
func (c *talker) call(stream bool, more ...string) answer {
	for _, m := range more {
		c.history = append(c.history, json.RawMessage(m))
	}
	body := map[string]any{"model": c.model, "stream": stream}
	tool := map[string]any{"name": "f", "input_schema": map[string]any{"type": "object"}}
	switch c.path {
	case "/v1/responses":
		body["input"], body["store"] = c.history, false
		tool = map[string]any{"type": "function", "name": "f", "parameters": map[string]any{"type": "object"}}
	case "/v1/chat/completions":
		body["messages"] = c.history
		tool = map[string]any{"type": "function", "function": map[string]any{"name": "f"}}
	default:
		body["messages"], body["max_tokens"] = c.history, 1000
	}
	body["tools"] = []any{tool}
	raw, err := json.Marshal(body)
	if err != nil {
		c.s.t.Fatal(err)
	}
	return c.s.do("POST", c.path, string(raw), callHeaders(append([]string{"X-Mneme-Session", c.session}, c.headers...)...)...)
}

// said appends the reply of a plain response to the history, as the protocol's clients do.
func (c *talker) said(a answer) {
	var o struct {
		Choices []struct{ Message json.RawMessage }
		Output  []json.RawMessage
		Content json.RawMessage
	}
	if err := json.Unmarshal(a.body, &o); err != nil || a.status != 200 {
		c.s.t.Fatalf("%s: %d %s", c.path, a.status, a.body)
	}
	switch {
	case o.Choices != nil:
		c.history = append(c.history, o.Choices[0].Message)
	case o.Output != nil:
		c.history = append(c.history, o.Output...)
	default:
		c.history = append(c.history, json.RawMessage(`{"role":"assistant","content":`+string(o.Content)+`}`))
	}
}

// result appends the result of the call in a plain response.
func (c *talker) result(a answer) string {
	var o struct {
		Choices []struct {
			Message struct {
				ToolCalls []struct{ ID string } `json:"tool_calls"`
			}
		}
		Output []struct {
			CallID string `json:"call_id"`
		}
		Content []struct{ ID, Type string }
	}
	if err := json.Unmarshal(a.body, &o); err != nil {
		c.s.t.Fatal(err)
	}
	switch {
	case o.Choices != nil:
		return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"4 °C"}`, o.Choices[0].Message.ToolCalls[0].ID)
	case o.Output != nil:
		return fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"4 °C"}`, o.Output[0].CallID)
	}
	return fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":"4 °C"}]}`, o.Content[0].ID)
}

// texts returns the stored messages of a session, as role and text.
func (s *site) texts(session string) (out []string) {
	s.t.Helper()
	var list struct {
		Data []struct {
			Role, Text string
			Turn       int
			Content    json.RawMessage
		}
	}
	a := s.do("GET", "/api/v1/projects/default/sessions/"+session+"/messages?limit=1000", "")
	if a.status == http.StatusNotFound {
		return nil
	}
	if err := json.Unmarshal(a.body, &list); err != nil || a.status != 200 {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
	for _, m := range list.Data {
		out = append(out, fmt.Sprintf("%d %s", m.Turn, m.Role))
	}
	return out
}

// decided returns the decision of a response.
func (s *site) decided(a answer) (d struct {
	Stored *bool
	Reason string
	Call   struct {
		Status int
		Mode   string
	}
}) {
	s.t.Helper()
	id := a.header.Get("X-Mneme-Decision")
	got := s.do("GET", "/api/v1/projects/default/decisions/"+id, "")
	if err := json.Unmarshal(got.body, &d); err != nil || got.status != 200 {
		s.t.Fatalf("decision %q: %d %s", id, got.status, got.body)
	}
	return d
}

// TestObservedTalks checks that a conversation with a tool loop is stored once, as turns, whether its responses are
// whole or streams, and that the history is stored when the end of the response has arrived.
func TestObservedTalks(t *testing.T) {
	t.Parallel()
	provider := providers.Start(t)
	s := inFront(t, provider.URL)
	for _, mode := range []string{"observe", "assemble"} {
		for _, c := range clients(s) {
			c.session += mode
			c.headers = []string{"X-Mneme-Mode", mode}
			user := func(text string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, text) }
			provider.Script(providers.Say("Hello."), providers.Use("f", `{"city":"Oslo"}`), providers.Say("It is 4 °C."), providers.Say("Bye."))
			a := c.call(false, user("Hi"))
			if a.header.Get("X-Mneme-Stored") != "yes" || a.header.Get("X-Mneme-Turn") != "1" || a.header.Get("X-Mneme-Matched") != "new" ||
				a.header.Get("X-Mneme-Session") != c.session {
				t.Errorf("%s: %v %s", c.path, a.header, a.body)
			}
			c.said(a)
			a = c.call(false, user("Oslo?"))
			if a.header.Get("X-Mneme-Stored") != "pending" || a.header.Get("X-Mneme-Matched") != "extend" {
				t.Errorf("%s: %v", c.path, a.header)
			}
			c.said(a)
			a = c.call(false, c.result(a))
			if a.header.Get("X-Mneme-Turn") != "2" {
				t.Errorf("%s: %v %s", c.path, a.header, a.body)
			}
			c.said(a)
			a = c.call(true, user("Bye"))
			if a.header.Get("X-Mneme-Stored") != "pending" || a.header.Get("X-Mneme-Mode") != mode {
				t.Errorf("%s: %v", c.path, a.header)
			}
			if d := s.decided(a); d.Stored == nil || !*d.Stored || d.Call.Status != 200 || d.Call.Mode != mode {
				t.Errorf("%s: %+v", c.path, d)
			}
			got := s.texts(c.session)
			want := []string{"1 user", "1 assistant", "2 user", "2 assistant", "2 tool", "2 assistant", "3 user", "3 assistant"}
			if !slices.Equal(got, want) {
				t.Errorf("%s in mode %s: %v", c.path, mode, got)
			}
		}
	}
	if refused := provider.Refusals(); len(refused) > 0 {
		t.Error(refused)
	}
}

// TestResponsesGoOnByID checks that a call may name the previous response instead of its history, and then continues
// from the stored history, and that a conversation that the provider stores is left to it.
func TestResponsesGoOnByID(t *testing.T) {
	t.Parallel()
	provider := providers.Start(t)
	s := inFront(t, provider.URL)
	call := func(body string) (a answer, id string) {
		a = s.do("POST", "/v1/responses", `{"model":"gpt-6.2-astra",`+body+`}`, callHeaders("X-Mneme-Session", "ids")...)
		var said struct{ ID string }
		if err := json.Unmarshal(a.body, &said); err != nil {
			t.Fatalf("%s: %v", a.body, err)
		}
		return a, said.ID
	}
	provider.Script(providers.Say("Hello."), providers.Say("Four."), providers.Say("Kept nowhere."))
	_, first := call(`"input":"Hi"`)
	a, second := call(`"input":"Two and two?","previous_response_id":"` + first + `"`)
	sent := provider.Requests()[1].Body
	if a.header.Get("X-Mneme-Matched") != "delta" || a.header.Get("X-Mneme-Turn") != "2" || bytes.Contains(sent, []byte(first)) ||
		!bytes.Contains(sent, []byte("Hello.")) {
		t.Errorf("%v %s, the provider got %s", a.header, a.body, sent)
	}
	if _, unkept := call(`"input":"Three?","store":false,"previous_response_id":"` + second + `"`); unkept != "" {
		first = unkept
	}
	calls := len(provider.Requests())
	for _, unknown := range []string{"resp_nobody", first} {
		a, _ = call(`"input":"And?","previous_response_id":"` + unknown + `"`)
		if a.status != 400 || !bytes.Contains(a.body, []byte(`"previous_response_not_found"`)) {
			t.Errorf("%s: %d %s", unknown, a.status, a.body)
		}
	}
	if n := len(provider.Requests()); n != calls {
		t.Errorf("the provider was called for a response that nobody knows")
	}
	body := `"input":"Hi again","conversation":"conv_1"`
	a, _ = call(body)
	requests := provider.Requests()
	if got := string(requests[len(requests)-1].Body); got != `{"model":"gpt-6.2-astra",`+body+`}` || a.header.Get("X-Mneme-Mode") != "observe" {
		t.Errorf("%v, the provider got %s", a.header, got)
	}
}

// TestSummariesOfCodex sends what Codex sends after two summaries of its own. If Codex's prompts are not changed, the
// session continues after each; if Mneme makes windows from the stored history, a fork begins there.
func TestSummariesOfCodex(t *testing.T) {
	t.Parallel()
	provider := providers.Start(t)
	s := inFront(t, provider.URL)
	item := func(role, text string) string { return fmt.Sprintf(`{"role":%q,"content":%q}`, role, text) }
	for mode, want := range map[string][]string{
		"":         {"new s", "tail s", "tail s"},
		"assemble": {"new s", "none s~1", "none s~2"},
	} {
		session := "codex" + mode
		var got []string
		for n, input := range []string{
			item("user", "Hi"),
			item("user", "Hi") + "," + item("user", "Summary 1") + "," + item("user", "Second"),
			item("user", "Hi") + "," + item("user", "Second") + "," + item("user", "Summary 2") + "," + item("user", "Third"),
		} {
			provider.Script(providers.Say(fmt.Sprint("Answer ", n)))
			headers := []string{"Session-Id", session, "Thread-Id", session, "X-Codex-Window-Id", fmt.Sprint(session, ":", n)}
			if mode != "" {
				headers = append(headers, "X-Mneme-Mode", mode)
			}
			a := s.do("POST", "/v1/responses", `{"model":"gpt-5.6","input":[`+input+`]}`, callHeaders(headers...)...)
			where := strings.Replace(a.header.Get("X-Mneme-Session"), session, "s", 1)
			got = append(got, a.header.Get("X-Mneme-Matched")+" "+where)
		}
		if !slices.Equal(got, want) {
			t.Errorf("in mode %q the requests were %q, want %q", mode, got, want)
		}
	}
	want := []string{"1 user", "1 assistant", "2 user", "2 user", "2 assistant", "3 user", "3 user", "3 assistant"}
	if got := s.texts("codex"); !slices.Equal(got, want) {
		t.Errorf("stored are %q, want %q", got, want)
	}
}

// TestNothingIsStoredOf lists calls of which nothing is stored, and checks that each says why.
func TestNothingIsStoredOf(t *testing.T) {
	t.Parallel()
	provider := providers.Start(t)
	s := inFront(t, provider.URL)
	chat := func(more string) string {
		return `{"model":"gpt-4.1","messages":[{"role":"user","content":"q"}]` + more + `}`
	}
	for name, c := range map[string]struct {
		reply   providers.Reply
		body    string
		headers []string
		reason  string
		tells   bool // known before the response
	}{
		"two choices":       {providers.Say("a"), chat(`,"n":2`), nil, "n", true},
		"a probe":           {providers.Say("a"), chat(`,"max_tokens":1`), nil, "max_tokens", true},
		"an auxiliary call": {providers.Say("a"), chat(""), []string{"X-Claude-Code-Request-Class", "auxiliary"}, "request_class", true},
		"a refusal":         {providers.Reply{Fail: providers.ServerError(providers.Chat)}, chat(""), nil, "upstream_error", true},
		"an error within":   {providers.Reply{Parts: providers.Say("a").Parts, Break: providers.ServerError(providers.Chat)}, chat(`,"stream":true`), nil, "upstream_error", false},
		"Codex's summary": {providers.Say("a"), chat(""),
			[]string{"X-Codex-Turn-Metadata", `{"request_kind":"compaction"}`}, "request_class", true},
	} {
		provider.Script(c.reply)
		session := strings.ReplaceAll(name, " ", "-")
		a := s.do("POST", "/v1/chat/completions", c.body, callHeaders(append([]string{"X-Mneme-Session", session, "X-Mneme-Mode", "observe"}, c.headers...)...)...)
		if stored := a.header.Get("X-Mneme-Stored"); c.tells && stored != "no; "+c.reason || !c.tells && stored != "pending" {
			t.Errorf("%s: %d %v %s", name, a.status, a.header, a.body)
		}
		if a.header.Get("X-Mneme-Decision") != "" {
			if d := s.decided(a); d.Stored == nil || *d.Stored || d.Reason != c.reason {
				t.Errorf("%s: %+v", name, d)
			}
		} else if c.reason != "max_tokens" && c.reason != "request_class" { // these pass by
			t.Errorf("%s: no decision", name)
		}
		if got := s.texts(session); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	a := s.do("POST", "/v1/chat/completions", chat(""), callHeaders("X-Mneme-Mode", "observe")...)
	if a.status != 200 || a.header.Get("X-Mneme-Stored") != "no; no_session" || a.header.Get("X-Mneme-Mode") != "off" {
		t.Errorf("%d %v", a.status, a.header)
	}
	s.patch(`{"proxy_require_session":true,"proxy_on_error":"closed"}`)
	a = s.do("POST", "/v1/chat/completions", chat(""), callHeaders()...)
	if a.status != 400 || !strings.Contains(string(a.body), "session_required") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestAnswersWithoutAClient checks that a response whose client has left is stored if the project asks for it.
func TestAnswersWithoutAClient(t *testing.T) {
	t.Parallel()
	p := holding(t, eventStream)
	s := inFront(t, p.url)
	s.patch(`{"proxy_on_disconnect":"finish"}`)
	ctx, cancel := context.WithCancel(t.Context())
	begun, answered := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(answered)
		res, err := s.callModel(ctx, "/p/default/s/left/v1/chat/completions")
		close(begun)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}()
	p.next <- `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}` + "\n\n"
	<-begun
	cancel()
	<-answered
	for _, piece := range []string{`data: {"choices":[{"index":0,"delta":{"content":"b"}}]}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n", "data: [DONE]\n\n"} {
		p.next <- piece
	}
	close(p.next)
	s.drained()
	if got := s.texts("left"); !slices.Equal(got, []string{"1 user", "1 assistant"}) {
		t.Error(got)
	}
}
