package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// inFront starts a server whose projects' upstream is one provider, for both protocols. Clients pass their keys.
func inFront(t testing.TB, url string, change ...func(*setup)) *site {
	t.Helper()
	return start(t, append([]func(*setup){func(o *setup) {
		host := strings.TrimPrefix(url, "http://")
		o.upstreams.Allowed.Private = append(o.upstreams.Allowed.Private, host)
		for _, p := range []provider.Protocol{provider.OpenAI, provider.Anthropic} {
			spec := provider.Spec{Name: string(p), Protocol: p, BaseURL: url + "/v1", AllowPrivate: true}
			o.upstreams.Defaults = append(o.upstreams.Defaults, spec.Upstream(""))
		}
	}}, change...)...)
}

// callHeaders returns the headers that the provider's clients send, and Mneme's key.
func callHeaders(more ...string) []string {
	return append([]string{"X-Mneme-Key", "agent", "Authorization", "Bearer sk-client", "Anthropic-Version", "2023-06-01",
		"Content-Type", "application/json"}, more...)
}

// modelCalls are minimal model calls of each API, by path.
var modelCalls = map[string]string{
	"/v1/chat/completions": `{"model":"gpt-4.1","messages":[{"role":"user","content":"q"}]}`,
	"/v1/responses":        `{"model":"gpt-5.6","input":[{"role":"user","content":"q"}]}`,
	"/v1/messages":         `{"model":"claude-sonnet-4-5","max_tokens":99,"messages":[{"role":"user","content":"q"}]}`,
}

func streamedBody(body string) string { return `{"stream":true,` + body[1:] }

// TestProxyChangesNoByte checks that a client gets exactly the provider's response, whole or as a stream, and that
// the provider gets exactly the client's request, by each of the three paths: without Mneme, and when Mneme stores
// the call or fails to.
func TestProxyChangesNoByte(t *testing.T) {
	t.Parallel()
	working := func(s *failingStore) {}
	for _, way := range []struct {
		name, mode string
		spoil      func(*failingStore)
	}{
		{"off", "off", working},
		{"observe", "observe", working},
		{"observe without space", "observe", func(s *failingStore) { s.refuses.Store(&store.ErrNoSpace) }},
		{"observe without a database", "observe", func(s *failingStore) { s.refuses.Store(&store.ErrUnavailable) }},
		{"observe of a damaged session", "observe", func(s *failingStore) {
			s.Spoil(func(key []byte) bool { return bytes.HasPrefix(key, []byte("h\x00")) })
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			failing := &failingStore{Broken: enginetest.Broken{Store: memstore.New()}}
			// Two providers with the same script number their responses alike.
			direct, behind := providers.Start(t), providers.Start(t)
			s := inFront(t, behind.URL, func(o *setup) { o.store = failing })
			changesNoByte(t, s, direct, behind, way.mode) // creates the session
			way.spoil(failing)
			stored := changesNoByte(t, s, direct, behind, way.mode)
			if fails := strings.Contains(way.name, " "); stored["yes"] == (fails || way.mode == "off") {
				t.Errorf("stored: %v", stored)
			}
			if refused := behind.Refusals(); len(refused) > 0 {
				t.Error(refused)
			}
		})
	}
}

// failingStore is a store whose commits can be made to fail.
type failingStore struct {
	enginetest.Broken
	refuses atomic.Pointer[error]
}

func (s *failingStore) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if err := s.refuses.Load(); err != nil {
		return *err
	}
	return s.Broken.Commit(ctx, tenant, b)
}

// changesNoByte sends calls to a provider, directly and through the proxy, and compares what both sides got. It
// returns what the responses say about storage.
func changesNoByte(t *testing.T, s *site, direct, behind *providers.Server, mode string) map[string]bool {
	t.Helper()
	stored := map[string]bool{}
	calls := providers.Think("hm", providers.Reply{Parts: []providers.Part{{Text: "Grüße \u2028 <&>"},
		{Call: &providers.Call{Name: "f", Arguments: `{"a": [1, 2.50]}`}}, {Call: &providers.Call{Name: "f", Arguments: `{}`}}}})
	for path, body := range modelCalls {
		for _, under := range []string{"", "/p/default", "/p/default/s/chat"} {
			for i, body := range []string{body, streamedBody(body), body, streamedBody(body)} {
				reply := calls
				if i > 1 { // a reply that ends a turn
					reply = providers.Say("Grüße \u2028 <&>")
				}
				direct.Script(reply)
				behind.Script(reply)
				req, err := http.NewRequestWithContext(t.Context(), "POST", direct.URL+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer sk-client")
				req.Header.Set("Anthropic-Version", "2023-06-01")
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				want := read(t, res)
				got := s.do("POST", under+path, body, callHeaders("X-Mneme-Mode", mode)...)
				stored[got.header.Get("X-Mneme-Stored")] = true
				if got.status != want.status || !bytes.Equal(got.body, want.body) {
					t.Errorf("%s%s: %d %s\nwant %d %s", under, path, got.status, got.body, want.status, want.body)
				}
				for name, values := range want.header {
					if name != "Date" && name != "Content-Length" && !slices.Equal(values, got.header[name]) {
						t.Errorf("%s%s: %s is %q, want %q", under, path, name, got.header[name], values)
					}
				}
				if got.header.Get("X-Mneme-Request-Id") == "" || mode == "off" && got.header.Get("X-Mneme-Mode") != "off" {
					t.Errorf("%s%s: %v", under, path, got.header)
				}
				seen := behind.Requests()
				last := seen[len(seen)-1]
				if string(last.Body) != body || last.Path != path || last.Header.Get("X-Mneme-Key") != "" {
					t.Errorf("%s%s: the provider saw %s %s %v", under, path, last.Path, last.Body, last.Header)
				}
			}
		}
	}
	return stored
}

// echo starts a provider that responds with the request.
func echo(t testing.TB) string {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/x-echo")
		w.Header().Set("X-Request-Id", "provider-1")
		w.Header().Set("Set-Cookie", "secret=1")
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL, body)
	}))
	t.Cleanup(provider.Close)
	return provider.URL
}

// TestProxyPassesOtherRoutes checks that each other route reaches the same path of the provider, with its query.
func TestProxyPassesOtherRoutes(t *testing.T) {
	t.Parallel()
	s := inFront(t, echo(t))
	for _, r := range s.s.routes {
		if r.proxied == nil || r.proxied.turns {
			continue
		}
		path := strings.NewReplacer("{project}", "default", "{session}", "a", "{model}", "ft:gpt-4o:org::id",
			"{response}", "resp_1", "{operation}", "speech", "{conversation}", "conv_1", "{item}", "msg_1", "{file}", "file_1", "{batch}",
			"batch_1", "{vendor}", "org").Replace(r.path)
		body := ""
		if r.takesBody {
			body = `{"model":"m","input":"x"}`
		}
		_, below, _ := strings.Cut(path, "/v1")
		got := s.do(r.method, path+"?beta=true&a=b%20c", body, callHeaders()...)
		if want := fmt.Sprintf("%s /v1%s?beta=true&a=b%%20c %s", r.method, below, body); got.status != 200 || string(got.body) != want ||
			got.header.Get("X-Request-Id") != "provider-1" || got.header.Get("Set-Cookie") != "" {
			t.Errorf("%s %s: %d %s %v", r.method, path, got.status, got.body, got.header)
		}
	}
	for path, body := range map[string]string{"/v1/embeddings/?a=b": `{"model":"m"}`, "/p/default/v1/batches/batch_1/cancel/": ""} {
		got := s.do("POST", path, body, callHeaders()...)
		_, below, _ := strings.Cut(strings.Replace(path, "/?", "?", 1), "/v1")
		if want := "POST /v1" + strings.TrimSuffix(below, "/") + " " + body; string(got.body) != want {
			t.Errorf("%s: %d %s, wanted %s", path, got.status, got.body, want)
		}
	}
	form := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--b\r\n" +
		"Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n\x00\xff\r\n--b--\r\n"
	got := s.do("POST", "/v1/audio/transcriptions", form, callHeaders("Content-Type", "multipart/form-data; boundary=b")...)
	if want := "POST /v1/audio/transcriptions " + form; string(got.body) != want {
		t.Errorf("%d %q", got.status, got.body)
	}
	for _, path := range []string{"/v1/models/..", "/v1/models/%2e%2e", "/v1/models/a%2fb", "/v1/models/@evil.com", "/v1/models/a;b",
		"/v1/responses/..%5c..", "/v1/audio/.."} {
		method, body := "GET", ""
		if strings.Contains(path, "audio") {
			method, body = "POST", `{}`
		}
		req := &http.Request{Method: method}
		conn := s.dial()
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nX-Mneme-Key: %s\r\nAuthorization: Bearer sk\r\nConnection: close\r\n"+
			"Content-Length: %d\r\n\r\n%s", method, path, s.key("agent"), len(body), body)
		raw, err := io.ReadAll(conn)
		if err != nil || bytes.Contains(raw, []byte("x-echo")) || !bytes.Contains(raw, []byte(" 404 ")) {
			t.Errorf("%s %s: %v %s", req.Method, path, err, raw)
		}
	}
}

// proxyError is an error as a protocol's client reads it.
type proxyError struct {
	Type  string
	Error struct {
		Type, Message string
		Code          *string
	}
	RequestID string `json:"request_id"`
}

// TestProxyErrors checks the format of Mneme's own errors in both protocols, and that the provider's errors are
// unchanged.
func TestProxyErrors(t *testing.T) {
	t.Parallel()
	provider := providers.Start(t)
	s := inFront(t, provider.URL)
	s.patch(`{"upstreams":[{"name":"few","protocol":"openai","base_url":"` + provider.URL + `/v1","models":["gpt-*"],"allow_private":true},` +
		`{"name":"a","protocol":"anthropic","base_url":"` + provider.URL + `/v1","models":["claude-*"]}]}`)
	for _, c := range []struct {
		name, path, body string
		headers          []string
		status           int
		code, kind       string // OpenAI's code, Anthropic's type
		says             string
	}{
		{"no key", "/v1/chat/completions", `{}`, []string{"X-Mneme-Key", ""}, 401, "key_missing", "", "X-Mneme-Key"},
		{"no key", "/v1/messages", `{}`, []string{"X-Mneme-Key", ""}, 401, "", "authentication_error", "X-Mneme-Key"},
		{"unknown key", "/v1/chat/completions", `{}`, []string{"X-Mneme-Key", "mk_nobody"}, 401, "unknown_key", "", ""},
		{"reader", "/v1/messages", `{}`, []string{"X-Mneme-Key", "reader"}, 403, "", "permission_error", "role agent"},
		{"root", "/v1/messages", `{}`, []string{"X-Mneme-Key", rootKey}, 403, "", "permission_error", "tenant's key"},
		{"no provider's key", "/v1/chat/completions", modelCalls["/v1/chat/completions"], []string{"Authorization", ""}, 401,
			"provider_key_missing", "", "provider's key"},
		{"only Mneme's key", "/v1/chat/completions", modelCalls["/v1/chat/completions"],
			[]string{"X-Mneme-Key", "", "Authorization", "Bearer agent"}, 401, "provider_key_missing", "", "provider's key"},
		{"no body", "/v1/chat/completions", ``, nil, 400, "body_missing", "", ""},
		{"no JSON", "/v1/chat/completions", `{"model"`, nil, 400, "invalid_json", "", ""},
		{"a model with a long name", "/v1/chat/completions", `{"model":"` + strings.Repeat("m", 257) + `"}`, nil, 400,
			"invalid_json", "", ""},
		{"two models", "/v1/messages", `{"model":"claude-1","model":"gpt-1"}`, nil, 400, "", "invalid_request_error", "twice"},
		{"no upstream", "/v1/chat/completions", `{"model":"o3"}`, nil, 404, "model_not_found", "", "o3"},
		{"no upstream", "/v1/messages", `{"model":"gpt-4"}`, nil, 404, "", "not_found_error", "gpt-4"},
		{"no project", "/p/nowhere/v1/messages", `{"model":"claude-1"}`, nil, 404, "", "not_found_error", "nowhere"},
		{"a private address", "/v1/messages", `{"model":"claude-1"}`, []string{"X-Api-Key", "sk"}, 403, "", "permission_error", "allow_private"},
		{"a mode that is none", "/v1/chat/completions", `{"model":"gpt-4"}`, []string{"X-Mneme-Mode", "on"}, 422, "invalid_value", "", "X-Mneme-Mode"},
		{"compressed", "/v1/chat/completions", `{}`, []string{"Content-Encoding", "deflate"}, 415, "unsupported_encoding", "", ""},
		{"a key in the URL", "/v1/chat/completions?key=" + s.key("agent"), `{"model":"gpt-4"}`, nil, 400, "key_in_url", "", "logged"},
	} {
		a := s.do("POST", c.path, c.body, callHeaders(c.headers...)...)
		var e proxyError
		if err := json.Unmarshal(a.body, &e); err != nil {
			t.Errorf("%s: %s", c.name, a.body)
			continue
		}
		if a.status != c.status || !strings.Contains(e.Error.Message, c.says) || a.header.Get("X-Should-Retry") != "false" ||
			a.header.Get("Content-Type") != jsonType {
			t.Errorf("%s: %d %s %v", c.name, a.status, a.body, a.header)
		}
		if c.kind != "" && (e.Type != "error" || e.Error.Type != c.kind || e.RequestID == "" || e.RequestID != a.header.Get("Request-Id")) ||
			c.kind == "" && (e.Error.Code == nil || *e.Error.Code != c.code || e.Error.Type == "") {
			t.Errorf("%s: %s", c.name, a.body)
		}
	}
	if n := len(provider.Requests()); n > 0 {
		t.Errorf("the provider saw %d requests", n)
	}
	for _, refusal := range []*providers.Refusal{providers.RateLimited(providers.Chat), providers.ServerError(providers.Chat)} {
		provider.Script(providers.Reply{Fail: refusal})
		a := s.do("POST", "/v1/chat/completions", modelCalls["/v1/chat/completions"], callHeaders()...)
		if a.status != refusal.Status || !strings.Contains(string(a.body), refusal.Message) || a.header.Get("X-Should-Retry") != "" ||
			(a.header.Get("Retry-After") != "") != (refusal.Status == 429) {
			t.Errorf("%d %s %v", a.status, a.body, a.header)
		}
	}
}

// patch changes the settings of project default.
func (s *site) patch(settings string) {
	s.t.Helper()
	if a := s.do("PATCH", "/api/v1/projects/default/settings", settings, "Content-Type", jsonType); a.status != 200 {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
}

// TestUnreachableProviders checks the errors for a provider that refuses, vanishes, or redirects.
func TestUnreachableProviders(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer other.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	vanishing := func(answer string) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil { // otherwise closing would reset the connection
					_, _ = io.Copy(io.Discard, r.Body)
				}
				_, _ = io.WriteString(c, answer)
				_ = c.Close()
			}
		}()
		return "http://" + ln.Addr().String()
	}
	for name, c := range map[string]struct {
		url, code string
		status    int
	}{
		"refused":         {"http://" + closed.Addr().String(), "upstream_unreachable", 502},
		"nothing":         {vanishing(""), "upstream_unreachable", 502},
		"no HTTP":         {vanishing("SSH-2.0-x\r\n"), "upstream_unreachable", 502},
		"half an answer":  {vanishing("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"id\""), "upstream_disconnected", 502},
		"half a header":   {vanishing("HTTP/1.1 200 OK\r\nContent-Le"), "upstream_unreachable", 502},
		"a redirect":      {vanishing("HTTP/1.1 307 Temporary Redirect\r\nConnection: close\r\nContent-Length: 0\r\nLocation: " + other.URL + "\r\n\r\n"), "", 307},
		"a long redirect": {vanishing("HTTP/1.1 308 Permanent Redirect\r\nConnection: close\r\nContent-Length: 0\r\nLocation: http://169.254.169.254/\r\n\r\n"), "", 308},
	} {
		s := inFront(t, c.url)
		for _, path := range []string{"/v1/chat/completions", "/v1/embeddings"} {
			a := s.do("POST", path, `{"model":"m"}`, callHeaders()...)
			var e proxyError
			if c.code != "" {
				if err := json.Unmarshal(a.body, &e); err != nil || e.Error.Code == nil || *e.Error.Code != c.code ||
					a.header.Get("X-Should-Retry") != "true" {
					t.Errorf("%s: %s %v", name, a.body, a.header)
				}
			}
			if a.status != c.status || a.header.Get("Location") != "" || strings.Contains(string(a.body), "127.0.0.1") {
				t.Errorf("%s: %d %s %v", name, a.status, a.body, a.header)
			}
		}
	}
}

// held is a provider whose stream a test controls event by event. It reports when a request was cancelled.
type held struct {
	url   string
	asked chan struct{} // receives a value for each request
	next  chan string   // the next piece of the answer; "" breaks the connection
	gone  chan struct{}
	once  sync.Once
}

func holding(t testing.TB, header string) *held {
	h := &held{asked: make(chan struct{}, 1), next: make(chan string), gone: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", header)
		select {
		case h.asked <- struct{}{}:
		default:
		}
		for {
			select {
			case piece, open := <-h.next:
				switch {
				case !open:
					return
				case piece == "":
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, piece)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				h.once.Do(func() { close(h.gone) })
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

const eventStream = "text/event-stream"

// callModel sends a model call, and returns the response with its body unread.
func (s *site) callModel(ctx context.Context, path string) (*http.Response, error) {
	body := `{"model":"m"}`
	if _, below, ok := strings.Cut(path, "/v1/"); ok && modelCalls["/v1/"+below] != "" {
		body = modelCalls["/v1/"+below]
	}
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.addr+path, strings.NewReader(streamedBody(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	headers := callHeaders()
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return s.trySend(req)
}

// TestEventsArriveAsTheyCome checks that each event is passed on before the next one arrives.
func TestEventsArriveAsTheyCome(t *testing.T) {
	t.Parallel()
	p := holding(t, eventStream)
	s := inFront(t, p.url)
	answered := make(chan *http.Response)
	go func() {
		res, err := s.callModel(t.Context(), "/v1/chat/completions")
		if err != nil {
			t.Error(err)
		}
		answered <- res
	}()
	pieces := []string{`data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n", "data: [DONE]\n\n"}
	p.next <- pieces[0]
	res := <-answered
	for i := range pieces {
		got := make([]byte, len(pieces[i]))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != pieces[i] {
			t.Fatalf("%q %v", got, err)
		}
		if i+1 < len(pieces) {
			p.next <- pieces[i+1]
		}
	}
	close(p.next)
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
}

// TestClientsThatLeave checks that the provider's work ends when the client has gone: before the response, and during
// plain responses and streams.
func TestClientsThatLeave(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"before the answer": "", "in a stream": "data: {}\n\n", "in a plain answer": "{"} {
		for _, path := range []string{"/v1/chat/completions", "/v1/images/generations"} {
			kind := eventStream
			if name == "in a plain answer" {
				kind = jsonType
			}
			p := holding(t, kind)
			s := inFront(t, p.url)
			ctx, cancel := context.WithCancel(t.Context())
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if res, err := s.callModel(ctx, path); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			}()
			if first == "" {
				<-p.asked
			} else {
				p.next <- first
			}
			cancel()
			<-answered
			<-p.gone
			s.drained()
		}
	}
}

// TestProvidersThatDie breaks a stream at each event and within it, and checks that a client never accepts a broken
// response as complete.
func TestProvidersThatDie(t *testing.T) {
	t.Parallel()
	whole, p := providers.Start(t), holding(t, eventStream)
	s, complete := inFront(t, p.url), inFront(t, whole.URL)
	for path, body := range modelCalls {
		whole.Script(providers.Reply{Parts: []providers.Part{{Text: "A text of a few words."}, {Call: &providers.Call{Name: "f", Arguments: `{"a":1}`}}}})
		direct := complete.do("POST", path, streamedBody(body), callHeaders()...)
		events := strings.SplitAfter(string(direct.body), "\n\n")
		events = events[:len(events)-1]
		if len(events) < 4 {
			t.Fatalf("%s: %q", path, events)
		}
		told := map[string]string{"/v1/chat/completions": `"code":"upstream_disconnected"`, "/v1/messages": "event: error\n",
			"/v1/responses": "event: response.failed\n"}[path]
		for n := range events {
			for _, part := range []string{"", events[n][:len(events[n])/2]} {
				const begun = ": begun\n\n"
				go func() {
					for _, e := range append([]string{begun}, events[:n]...) {
						p.next <- e
					}
					if part != "" {
						p.next <- part
					}
					p.next <- ""
				}()
				res, err := s.callModel(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				got := string(read(t, res).body)
				if rest, ok := strings.CutPrefix(got, begun+strings.Join(events[:n], "")); !ok || !strings.Contains(rest, told) ||
					strings.Contains(rest, "[DONE]") || strings.Contains(rest, "message_stop") || strings.Contains(rest, "response.completed") {
					t.Errorf("%s, dead behind event %d of %d: %q", path, n, len(events), rest)
				}
			}
		}
	}
}
