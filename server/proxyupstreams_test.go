package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestStreamsWithoutDone relays streams of a server that ends them without [DONE], with and without the last empty line.
// They reach the client as they came, and the answer is stored. A stream that has not said why it ends has broken off.
func TestStreamsWithoutDone(t *testing.T) {
	t.Parallel()
	const delta = `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}` + "\n\n"
	const stop = `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	for sent, stored := range map[string]bool{delta + stop + "\n\n": true, delta + stop + "\n": true, delta + stop: true, delta: false} {
		provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, sent)
		}))
		t.Cleanup(provider.Close)
		s := inFront(t, provider.URL)
		for _, mode := range []string{"observe", "recall", "assemble"} {
			a := s.do("POST", "/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"q"}]}`,
				callHeaders("X-Mneme-Session", mode, "X-Mneme-Mode", mode)...)
			if got := string(a.body); stored && got != sent || !stored && !strings.Contains(got, "upstream_disconnected") {
				t.Errorf("%s: the client got %q of %q", mode, got, sent)
			}
			if d := s.decided(a); d.Stored == nil || *d.Stored != stored {
				t.Errorf("%s: %q: %+v", mode, sent, d)
			}
		}
	}
}

// TestProvidersWithoutStreamOptions calls a server that refuses stream_options. Where Mneme has added them, it asks once
// more without, and does not add them again.
func TestProvidersWithoutStreamOptions(t *testing.T) {
	t.Parallel()
	for _, own := range []string{"", `,"stream_options":{"include_obfuscation":false}`} {
		var mu sync.Mutex
		var bodies []string
		provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			bodies = append(bodies, string(body))
			mu.Unlock()
			if strings.Contains(string(body), "include_usage") {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = io.WriteString(w, `{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`+
				"\n\ndata: [DONE]\n\n")
		}))
		t.Cleanup(provider.Close)
		s := inFront(t, provider.URL)
		for n := range 2 {
			a := s.do("POST", "/v1/chat/completions", `{"model":"mistral-large","stream":true`+own+`,"messages":[{"role":"user","content":"q"}]}`,
				callHeaders("X-Mneme-Session", "s", "X-Mneme-Mode", "assemble")...)
			if d := s.decided(a); a.status != 200 || d.Stored == nil || !*d.Stored {
				t.Errorf("call %d: %d %s %+v", n, a.status, a.body, d)
			}
		}
		if len(bodies) != 3 || !strings.HasSuffix(bodies[2], "}") || strings.Contains(bodies[1], "stream_options") != (own != "") {
			t.Errorf("the provider got %q", bodies)
		}
	}
}
