package e2e

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// limitedTo returns a script that starts the server with a limit on open files.
func limitedTo(t *testing.T, files int) string {
	t.Helper()
	binary, err := mneme.build()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "mneme")
	text := fmt.Sprintf("#!/bin/sh\nulimit -n %d && exec '%s' \"$@\"\n", files, binary)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return script
}

// TestSilentUpstream sends, with one agent key and from another address, far more model calls than there are
// descriptors to a provider that never answers. A tenth of these clients reconnect all the time. Another tenant's
// turns, windows and model calls must all succeed meanwhile.
func TestSilentUpstream(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts its connections
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}`)
	}))
	defer answering.Close()
	p, err := launchWith(limitedTo(t, 640), t.TempDir(), []string{"OPENAI_BASE_URL=http://" + silent.Addr().String() + "/v1",
		"ANTHROPIC_BASE_URL=" + answering.URL, "GOMAXPROCS=2"}) // the descriptors for compilers depend on this
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	root := p.client(t).as(rootKey)
	var made struct {
		AdminKey string `json:"admin_key"`
	}
	root.post("/api/v1/tenants", object{"id": "quiet"}).want(201).into(&made)
	quiet := root.as(made.AdminKey)

	stop := make(chan struct{})
	var flood sync.WaitGroup
	var refused atomic.Int64
	for i := range 500 {
		tries := 2
		if i%10 == 0 {
			tries = math.MaxInt
		}
		flood.Go(func() { callSilently(p, tries, stop, &refused) })
	}
	defer flood.Wait()
	defer close(stop)
	// The store leaves 384, of which 128 less 48 are for upstreams: 80, half of them for one tenant.
	for !strings.Contains(string(root.get("/metrics").body), `mneme_descriptors{use="upstreams"} 40`+"\n") ||
		refused.Load() == 0 {
	}
	for i := range 20 {
		turn := object{"session_id": "s", "messages": []object{user("What is next?"), assistant(fmt.Sprint(i))}}
		quiet.post("/api/v1/projects/default/turns", turn).want(201)
		quiet.post("/api/v1/projects/default/context", object{"session_id": "s"}).want(200)
		quiet.do("POST", "/v1/messages", object{"model": "claude", "max_tokens": 9, "messages": []object{user("Is it?")}},
			"X-Mneme-Key", quiet.key, "X-Api-Key", "sk").want(200)
	}
	if metrics := string(root.get("/metrics").body); !strings.Contains(metrics, `mneme_descriptors_max{use="upstreams"} 80`) {
		t.Errorf("the metrics do not name the bound of upstreams:\n%s", metrics)
	}
	root.get("/readyz").want(200)
}

// callSilently sends model calls, each over a new connection, until stop is closed.
func callSilently(p *process, tries int, stop chan struct{}, refused *atomic.Int64) {
	const body = `{"model":"gpt-4.1","messages":[{"role":"user","content":"Hello?"}]}`
	addr := strings.TrimPrefix(p.url, "http://")
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range tries {
		conn, err := from.Dial("tcp", addr)
		if err != nil {
			return
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			answer := make([]byte, 12)
			n, _ := conn.Read(answer)
			if strings.HasSuffix(string(answer[:n]), " 503") {
				refused.Add(1)
			}
		}()
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Mneme-Key: %s\r\nAuthorization: Bearer sk\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", p.key, len(body), body)
		select {
		case <-ended:
			_ = conn.Close()
		case <-stop:
			_ = conn.Close()
			<-ended
			return
		}
	}
}
