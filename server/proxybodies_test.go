package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestBodiesAreOfOneCall checks that the buffers for windows and bodies serve one call at a time: of many concurrent
// clients, each has its own history reach the provider, whether the provider reads it before or while it responds.
func TestBodiesAreOfOneCall(t *testing.T) {
	t.Parallel()
	var sent sync.Map // by client: the messages that the provider should get
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("X-Client-Request-Id") == "early" {
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			w.(http.Flusher).Flush()
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return // The client has left.
		}
		var body struct {
			User     string
			Messages []json.RawMessage
		}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Errorf("the provider got no JSON: %v", err)
		}
		want, _ := sent.Load(body.User)
		if !slices.EqualFunc(body.Messages, want.([]json.RawMessage), func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("the provider got %d other messages of %s", len(body.Messages), body.User)
		}
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"gpt-4.1","choices":[{"index":0,`+
			`"finish_reason":"stop","message":{"role":"assistant","content":"OK."}}]}`)
	}))
	t.Cleanup(server.Close)
	s := inFront(t, server.URL)
	var all sync.WaitGroup
	for c := range 8 {
		all.Go(func() {
			name, when := fmt.Sprint("client-", c), []string{"", "early"}[c%2]
			var history []json.RawMessage
			for i := range 12 {
				question := fmt.Sprintf("%s asks %d: %s", name, i, strings.Repeat(name+" ", 100*(c+i)))
				history = append(history, object(t, map[string]any{"role": "user", "content": question}))
				sent.Store(name, slices.Clone(history))
				body := object(t, map[string]any{"model": "gpt-4.1", "user": name, "messages": history})
				got := s.do("POST", "/v1/chat/completions", string(body), callHeaders("X-Mneme-Session", name,
					"X-Mneme-Mode", "assemble", "X-Client-Request-Id", when)...)
				if mode := got.header.Get("X-Mneme-Mode"); got.status != 200 || mode != "assemble" {
					t.Errorf("%s, call %d: %d %s %s", name, i, got.status, mode, got.body)
				}
				history = append(history, json.RawMessage(`{"role":"assistant","content":"OK."}`))
			}
		})
	}
	all.Wait()
}
