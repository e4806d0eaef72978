package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// apis are the providers' names of the formats.
var apis = map[chat.Format]providers.API{chat.OpenAIChat: providers.Chat, chat.OpenAIResponses: providers.Responses,
	chat.AnthropicMessages: providers.Messages}

// failsWith sends the history, a later round of which fails, and checks what the client and the decision are told.
// The same call succeeds afterwards.
func (c *apiClient) failsWith(reason string, says ...providers.Reply) {
	c.t.Helper()
	c.ask("Do you remember?")
	before := len(c.decisions())
	c.provider.Script(says...)
	c.last = c.post()
	if _, err := c.read(c.last.body); err == nil {
		c.t.Errorf("%s: the client takes this for an answer: %s", reason, c.last.body)
	}
	if !c.streams && c.last.status < 400 {
		c.t.Errorf("%s: %d %s", reason, c.last.status, c.last.body)
	}
	if bytes.Contains(c.last.body, []byte("[DONE]")) || bytes.Contains(c.last.body, []byte("message_stop")) {
		c.t.Errorf("%s: the stream ends well: %s", reason, c.last.body)
	}
	rows := c.decisions()
	if row := rows[0]; len(rows) != before+1 || row.Stored == nil || *row.Stored || row.Reason != reason ||
		row.Call.Usage == nil || row.Call.Usage.Input == 0 {
		c.t.Errorf("%s: the decision is %+v", reason, row)
	}
	c.rounds(providers.Say("I do."))
	if c.last.header.Get("X-Mneme-Matched") != "new" && c.last.header.Get("X-Mneme-Matched") != "extend" {
		c.t.Errorf("%s: the next call is %v", reason, c.last.header)
	}
	c.lawful()
}

// TestRoundsThatFail lets later rounds fail in each way. Nothing of them is stored except the usage of the first
// rounds.
func TestRoundsThatFail(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, c *apiClient) {
		recall := providers.Use("memory_recall", `{"query":"tea"}`)
		api := apis[c.format]
		c.failsWith("upstream_error", recall, providers.Reply{Fail: providers.ServerError(api)})
		c.failsWith("upstream_error", recall, recall, providers.Reply{Fail: providers.RateLimited(api)})
		if c.streams {
			c.failsWith("upstream_error", recall, providers.Reply{Parts: []providers.Part{part("I")}, Break: providers.ServerError(api)})
		}
		var always []providers.Reply
		for range maxRounds {
			always = append(always, recall)
		}
		sent := len(c.sent())
		c.failsWith("tool_rounds_exceeded", always...)
		for i, body := range c.sent()[sent : sent+maxRounds] {
			if none := bytes.Contains(body, []byte(`"tool_choice":`)); none != (i == maxRounds-1) {
				t.Errorf("round %d was told: %v", i, none)
			}
		}
	})
}

// TestRoundsWithoutAProvider breaks the connection in the second round.
func TestRoundsWithoutAProvider(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{false, true} {
		c := newToolClient(t, chat.OpenAIChat, streams)
		var calls atomic.Int32
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == 2 {
				if streams {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"half\"}}]}\n\n")
					_ = http.NewResponseController(w).Flush()
				}
				panic(http.ErrAbortHandler)
			}
			out := r.Clone(r.Context())
			out.RequestURI = ""
			out.URL, _ = url.Parse(c.provider.URL + r.URL.Path)
			resp, err := http.DefaultTransport.RoundTrip(out)
			if err != nil {
				panic(err)
			}
			defer resp.Body.Close()
			w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
			_, _ = io.Copy(w, resp.Body)
		}))
		t.Cleanup(front.Close)
		c.site = inFront(t, front.URL)
		c.patch(`{"proxy_tools":["memory_recall"]}`)
		c.ask("Do you remember?")
		c.provider.Script(providers.Use("memory_recall", `{"query":"tea"}`))
		c.last = c.post()
		if r, err := c.read(c.last.body); err == nil {
			t.Errorf("the client takes this for an answer: %s %v", c.last.body, r)
		}
		want := "upstream_unreachable"
		if streams {
			want = "upstream_disconnected"
		}
		if row := c.decisions()[0]; *row.Stored || row.Reason != want || row.Call.Usage == nil {
			t.Errorf("%+v", row)
		}
		c.rounds(providers.Say("I do."))
	}
}

// TestHeldResultsSurviveARestart restarts the server while a client runs its own tools of a mixed response.
func TestHeldResultsSurviveARestart(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, c *apiClient) {
		kept := memstore.New()
		restart := func() {
			_ = c.stop()
			keys := c.keys
			c.site = inFront(t, c.provider.URL, func(o *setup) { o.store = kept })
			c.site.keys = keys
		}
		c.site = inFront(t, c.provider.URL, func(o *setup) { o.store = kept })
		c.patch(`{"proxy_tools":["memory_recall","memory_store"]}`)
		c.ask("Where is my order?")
		r := c.rounds(providers.Think("both", providers.Reply{Parts: []providers.Part{callPart("memory_store", remember),
			callPart("lookup", `{"order":1}`)}}))
		c.results(r, "shipped")
		restart()
		r = c.rounds(providers.Use("lookup", `{"order":2}`))
		c.results(r, "lost")
		restart()
		c.rounds(providers.Say("One is lost."))
		c.lawful()
		sent := c.sent()
		for _, body := range sent[len(sent)-2:] {
			if !strings.Contains(string(body), "Stored memory") {
				t.Errorf("the provider did not get the result that was held: %s", body)
			}
		}
		want := 2
		if c.format == chat.OpenAIResponses { // the reasoning is a separate item
			want = 3
		}
		if stored := c.stored(); strings.Count(stored, `"hidden":true`) != want {
			t.Errorf("stored is %s", stored)
		}
	})
}

// TestToolsThatAreNotAdded checks that a call is unchanged if the project enables no tools, if it is observed, and if
// the client has tools of the same names.
func TestToolsThatAreNotAdded(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, c *apiClient) {
		c.ask("Hello.")
		c.headers = []string{"X-Mneme-Mode", "observe"}
		want := c.body()
		c.rounds(providers.Say("Hi."))
		if sent := c.sent(); string(sent[0]) != want {
			t.Errorf("the provider got %s, the client sent %s", sent[0], want)
		}
		c.headers = nil
		schema := map[string]any{"type": "object", "properties": map[string]any{}}
		own := map[string]any{"name": "memory_recall", "input_schema": schema}
		switch c.format {
		case chat.OpenAIChat:
			own = map[string]any{"type": "function", "function": map[string]any{"name": "memory_recall", "parameters": schema}}
		case chat.OpenAIResponses:
			own = map[string]any{"type": "function", "name": "memory_recall", "parameters": schema}
		}
		c.extra = map[string]any{"tools": []any{own}}
		c.ask("Do you remember?")
		r := c.rounds(providers.Use("memory_recall", `{}`))
		if !strings.Contains(fmt.Sprintf("%s", r.Messages), "memory_recall") || r.Format != c.format {
			t.Errorf("the client did not get its own call: %s", r.Messages)
		}
		c.extra = nil
		c.patch(`{"proxy_tools":null}`)
		fresh := &apiClient{site: c.site, provider: c.provider, format: c.format, path: c.path, model: c.model, session: "other",
			streams: c.streams}
		fresh.ask("Hello.")
		fresh.rounds(providers.Say("Hi."))
		if sent := fresh.sent(); bytes.Contains(sent[len(sent)-1], []byte("memory_")) {
			t.Errorf("the provider got %s", sent[len(sent)-1])
		}
	})
}

// TestClientsThatLeaveBetweenRounds closes a client's connection while the provider works on the second round, which
// ends then. The usage of the first round is recorded, and nothing is stored.
func TestClientsThatLeaveBetweenRounds(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{false, true} {
		c := newToolClient(t, chat.OpenAIChat, streams)
		var calls atomic.Int32
		reached, ended := make(chan struct{}), make(chan struct{})
		to, err := url.Parse(c.provider.URL)
		if err != nil {
			t.Fatal(err)
		}
		pass := httputil.NewSingleHostReverseProxy(to)
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) != 2 {
				pass.ServeHTTP(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			close(reached)
			<-r.Context().Done()
			close(ended)
		}))
		t.Cleanup(front.Close)
		c.site = inFront(t, front.URL)
		c.patch(`{"proxy_tools":["memory_recall"]}`)
		c.ask("Do you remember?")
		c.provider.Script(providers.Use("memory_recall", `{"query":"tea"}`))
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", "http://"+c.addr+c.path, strings.NewReader(c.body()))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"X-Mneme-Key": c.key("agent"), "Authorization": "Bearer sk-client",
			"Content-Type": "application/json", "X-Mneme-Session": c.session} {
			req.Header.Set(name, value)
		}
		left := make(chan struct{})
		go func() {
			defer close(left)
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
		<-reached
		leave()
		<-left
		<-ended
		var rows []decisionRow
		for len(rows) == 0 || rows[0].Stored == nil { // It is recorded after the call.
			rows = c.decisions()
		}
		if *rows[0].Stored || rows[0].Reason != "client_gone" || rows[0].Call.Usage == nil {
			t.Errorf("stream %v: %+v", streams, rows[0])
		}
		c.rounds(providers.Say("I do."))
	}
}
