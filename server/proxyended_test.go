package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// TestObserved checks that the client's bytes are passed on unchanged, by mode and for clients that manage their own
// history, and that turns are stored.
func TestObserved(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]string{"mode": {"X-Mneme-Mode", "observe"},
		"client": {"X-Claude-Code-Session-Id", "chat", "X-Mneme-Session", ""}} {
		for _, streams := range []bool{false, true} {
			c := newClient(t, chat.OpenAIChat, "gpt-4o")
			c.headers, c.streams = headers, streams
			for n := 1; n <= 3; n++ {
				c.turn(n, 1, false)
			}
			c.ask("the last")
			want := c.body()
			c.call(providers.Say("Yes."))
			if sent := c.sent(); string(sent[len(sent)-1]) != want || c.last.header.Get("X-Mneme-Mode") != "observe" {
				t.Errorf("%s: the provider got %s in %v, the client sent %s", name, sent[len(sent)-1], c.last.header, want)
			}
			rows := c.decisions()
			if len(rows) != 7 || rows[0].Stored == nil || !*rows[0].Stored || rows[0].Call.Turn != 4 || rows[0].Call.Mode != "observe" ||
				rows[0].ID != c.last.header.Get("X-Mneme-Decision") {
				t.Errorf("%s: %+v", name, rows)
			}
		}
	}
}

// TestHiddenUsage requests the usage of a stream, and hides it from a client that did not request it.
func TestHiddenUsage(t *testing.T) {
	t.Parallel()
	c := newClient(t, chat.OpenAIChat, "gpt-4o")
	c.streams = true
	c.turn(1, 0, false)
	if !strings.Contains(string(c.sent()[0]), `"stream_options":{"include_usage":true}`) {
		t.Errorf("the provider was not asked: %s", c.sent()[0])
	}
	if bytes.Contains(c.last.body, []byte(`"prompt_tokens"`)) || !bytes.Contains(c.last.body, []byte("[DONE]")) {
		t.Errorf("the client got %s", c.last.body)
	}
	c.extra = map[string]any{"stream_options": map[string]any{"include_usage": true}}
	c.turn(2, 0, false)
	if !bytes.Contains(c.last.body, []byte(`"prompt_tokens"`)) {
		t.Errorf("the client asked for the usage and got %s", c.last.body)
	}
	if row := c.decisions()[1]; row.Call.Usage == nil || row.Call.Usage.Input == 0 {
		t.Errorf("%+v", row)
	}
}

// TestNothingStored runs every kind of call that becomes no turn. Each creates a decision that says why.
func TestNothingStored(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"observe", "assemble"} {
		for _, tt := range []struct {
			name   string
			says   providers.Reply
			extra  map[string]any
			stream bool
			reason string
			status int
		}{
			{"an error", providers.Reply{Fail: providers.ServerError(providers.Chat)}, nil, false, "upstream_error", 500},
			{"a limit", providers.Reply{Fail: providers.RateLimited(providers.Chat)}, nil, true, "upstream_error", 429},
			{"an error within", providers.Reply{Parts: []providers.Part{{Text: "a"}}, Break: providers.ServerError(providers.Chat)},
				nil, true, "upstream_error", 200},
			{"choices", providers.Say("a"), map[string]any{"n": 2}, false, "n", 200},
		} {
			c := newClient(t, chat.OpenAIChat, "gpt-4o")
			c.headers = []string{"X-Mneme-Mode", mode}
			c.turn(1, 0, false)
			c.ask("again")
			c.extra, c.streams = tt.extra, tt.stream
			c.provider.Script(tt.says)
			got := c.post()
			if got.status != tt.status {
				t.Errorf("%s %s: %d %s", mode, tt.name, got.status, got.body)
			}
			row := c.decisions()[0]
			if row.Stored == nil || *row.Stored || row.Reason != tt.reason || row.Call.Status != tt.status || row.Call.Mode != mode {
				t.Errorf("%s %s: %+v", mode, tt.name, row)
			}
			if stored := got.header.Get("X-Mneme-Stored"); !tt.stream && stored != "no; "+tt.reason {
				t.Errorf("%s %s: %q", mode, tt.name, stored)
			}
			c.extra, c.streams = nil, false
			c.call(providers.Say("now"))
			if c.last.header.Get("X-Mneme-Turn") != "2" {
				t.Errorf("%s %s: the next call is %v", mode, tt.name, c.last.header)
			}
		}
	}
}

// TestDeadProvider lets a provider die in the middle of a stream.
func TestDeadProvider(t *testing.T) {
	t.Parallel()
	dying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"half\"}}]}\n\n"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(dying.Close)
	c := &apiClient{site: inFront(t, dying.URL), format: chat.OpenAIChat, path: "/v1/chat/completions", model: "m",
		session: "chat", streams: true}
	c.ask("q")
	got := c.post()
	if !bytes.Contains(got.body, []byte("upstream_disconnected")) || bytes.Contains(got.body, []byte("[DONE]")) {
		t.Errorf("%s", got.body)
	}
	if row := c.decisions()[0]; row.Stored == nil || *row.Stored || row.Reason != "upstream_disconnected" {
		t.Errorf("%+v", row)
	}
}

// TestNoSession passes on a call that names no session, and refuses it if the project wants all calls stored.
func TestNoSession(t *testing.T) {
	t.Parallel()
	c := newClient(t, chat.OpenAIChat, "gpt-4o")
	c.session = ""
	c.ask("q")
	want := c.body()
	c.call(providers.Say("a"))
	if h := c.last.header; h.Get("X-Mneme-Stored") != "no; no_session" || h.Get("X-Mneme-Mode") != "off" || string(c.sent()[0]) != want {
		t.Errorf("%v: %s", h, c.sent()[0])
	}
	c.do("PATCH", "/api/v1/projects/default/settings", `{"proxy_require_session":true}`)
	if got := c.post(); got.status != 400 || !strings.Contains(string(got.body), "session_required") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestPromptTooLong checks that prompts that cannot fit are refused in the words of each provider.
func TestPromptTooLong(t *testing.T) {
	t.Parallel()
	for f, words := range map[chat.Format]string{chat.OpenAIChat: `"code":"context_length_exceeded"`,
		chat.OpenAIResponses: "exceeds the context window", chat.AnthropicMessages: `prompt is too long: `} {
		c := newClient(t, f, "m", func(o *setup) {
			for _, u := range o.upstreams.Defaults {
				u.ContextTokens, u.OutputTokens = 3000, 1000
			}
		})
		c.ask(strings.Repeat("word ", 9000))
		got := c.post()
		if got.status != 400 || !strings.Contains(string(got.body), words) || len(c.sent()) > 0 {
			t.Errorf("%v: %d %s", f, got.status, got.body)
		}
	}
}

// TestBypassIsCounted checks that a call whose session cannot be read continues without Mneme, and the metrics say
// why.
func TestBypassIsCounted(t *testing.T) {
	t.Parallel()
	damaged := &enginetest.Broken{Store: memstore.New()}
	c := newClient(t, chat.OpenAIChat, "gpt-4o", func(o *setup) { o.store = damaged })
	c.turn(1, 0, false)
	damaged.Spoil(func(key []byte) bool { return bytes.HasPrefix(key, []byte("h\x00")) })
	c.ask("q")
	c.provider.Script(providers.Say("a"))
	got := c.post()
	reason, no := strings.CutPrefix(got.header.Get("X-Mneme-Stored"), "no; ")
	if !no || got.status != 200 || got.header.Get("X-Mneme-Mode") != "bypass" {
		t.Fatalf("%d %v", got.status, got.header)
	}
	metrics := string(c.do("GET", "/metrics", "", "Authorization", "Bearer root").body)
	if counted := `mneme_proxy_exchanges_total{stored="` + reason + `"} 1`; !strings.Contains(metrics, counted) {
		t.Errorf("/metrics lacks %s", counted)
	}
}

// TestBypass checks that calls whose window cannot be made continue, unless the project wants them refused.
func TestBypass(t *testing.T) {
	t.Parallel()
	c := newClient(t, chat.OpenAIChat, "gpt-4o")
	c.turn(1, 0, false)
	c.ask("q")
	c.extra = map[string]any{"tools": []any{map[string]any{"type": 7}}}
	want := c.body()
	c.provider.Script(providers.Say("a"))
	got := c.post()
	if sent := c.sent(); got.header.Get("X-Mneme-Mode") != "bypass" || string(sent[len(sent)-1]) != want {
		t.Errorf("%v: %s", got.header, sent[len(sent)-1])
	}
	c.do("PATCH", "/api/v1/projects/default/settings", `{"proxy_on_error":"closed"}`)
	n := len(c.sent())
	if got := c.post(); got.status < 400 || len(c.sent()) != n {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestThinkingRefused checks that a call is repeated without any thinking if the provider refuses some, before the
// client has received a byte.
func TestThinkingRefused(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{false, true} {
		c := newClient(t, chat.AnthropicMessages, "claude-fable-5-2")
		c.streams = streams
		c.turn(1, 1, true)
		// A thinking block of another conversation, which Mneme takes for a part of this one.
		var first map[string]any
		if err := json.Unmarshal(c.history[1], &first); err != nil {
			t.Fatal(err)
		}
		other := newClient(t, chat.AnthropicMessages, "claude-fable-5-2")
		other.turn(7, 1, true)
		foreign := append(other.history[1:2:2], other.history[2:]...)
		c.session = "foreign"
		c.history = append([]json.RawMessage{object(t, map[string]any{"role": "user", "content": "another question"})}, foreign...)
		c.ask("and now?")
		c.provider.Script(providers.Say("Yes."))
		c.call(providers.Say("Yes."))
		sent := c.sent()
		last := sent[len(sent)-1]
		if c.last.status != 200 || bytes.Contains(last, []byte(`"thinking","thinking"`)) {
			t.Errorf("%d %s", c.last.status, last)
		}
		rows := c.decisions()
		if refusals := len(c.provider.Refusals()); refusals != 1 || rows[0].Call.Retried != "thinking_refused" || rows[0].Stored == nil ||
			!*rows[0].Stored {
			t.Errorf("%d refusals, %+v", refusals, rows[0])
		}
	}
}

// TestCalibrationShown checks that the providers' token counts appear in the settings and as metrics.
func TestCalibrationShown(t *testing.T) {
	t.Parallel()
	c := newClient(t, chat.OpenAIChat, "gpt-4o")
	for n := 1; n <= 21; n++ {
		c.turn(n, 0, false)
	}
	var shown struct {
		Calibration []struct {
			Model string
			Calls int
			Ratio float64
		}
	}
	got := c.do("GET", "/api/v1/projects/default/settings", "")
	if err := json.Unmarshal(got.body, &shown); err != nil || len(shown.Calibration) != 1 || shown.Calibration[0].Model != "gpt-4o" ||
		shown.Calibration[0].Calls != 21 || shown.Calibration[0].Ratio <= 0 {
		t.Errorf("%s", got.body)
	}
	metrics := string(c.do("GET", "/metrics", "", "Authorization", "Bearer root").body)
	for _, name := range []string{"mneme_proxy_prompt_tokens_total", "mneme_proxy_cached_tokens_total", "mneme_proxy_token_ratio"} {
		if !strings.Contains(metrics, name+`{model="gpt-4o",project="default",tenant="default"}`) {
			t.Errorf("/metrics has no %s", name)
		}
	}
}
