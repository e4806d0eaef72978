package relay

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
)

// TestTaken checks that a body counts as taken once the provider has read it, but not while it is still being sent
// because the provider answered early.
func TestTaken(t *testing.T) {
	goOn, read := make(chan struct{}), make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		early := r.Header.Get("X-Client-Request-Id") == "early"
		if early {
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			w.(http.Flusher).Flush()
			<-goOn
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		read <- body
	}))
	defer server.Close()
	u := newProvider(t, provider.OpenAI, server.URL)
	u.AllowPrivate = true
	host := server.Listener.Addr().String()
	clients := NewClients(provider.Allowed{Private: []string{host}}, func(string) bool { return false })
	body := bytes.Repeat([]byte("all that was said "), 1<<20) // more than the buffers of a connection can hold
	for _, id := range []string{"", "early"} {
		r := &Request{Method: "POST", Path: "/chat/completions", Body: body,
			Header: http.Header{"Authorization": {"Bearer sk"}, "X-Client-Request-Id": {id}}}
		resp, err := clients.Do(t.Context(), u, r)
		if err != nil {
			t.Fatal(err)
		}
		if id == "early" {
			if r.Taken() {
				t.Error("the body is taken, but the provider has not read it")
			}
			close(goOn)
		}
		if got := <-read; !bytes.Equal(got, body) {
			t.Errorf("%q: the provider read %d bytes, not the %d of the body", id, len(got), len(body))
		}
		if !r.Taken() {
			t.Errorf("%q: the provider has read the body, but it is not taken", id)
		}
		_ = resp.Body.Close()
	}
}
