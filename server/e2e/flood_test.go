package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// TestCampaignFlood has one tenant flood the server over many connections, which send the next turn as soon as the one
// before is answered and heed no Retry-After. A quiet tenant beside it must be served each time; the flood must wait.
// In the long form it prints the quiet tenant's times alone and beside the flood.
func TestCampaignFlood(t *testing.T) {
	connections, requests := campaign.Size(50, 500), campaign.Size(40, 1000)
	server := start(t, t.TempDir())
	root := server.client(t).as(rootKey)
	tenant := func(name string) client {
		var made struct {
			AdminKey string `json:"admin_key"`
		}
		root.post("/api/v1/tenants", object{"id": name}).want(201).into(&made)
		return root.as(made.AdminKey)
	}
	quiet, loud := tenant("quiet"), tenant("loud")
	turn := encodeJSON(t, object{"messages": []object{user("What is next?"), assistant("The next thing.")}})
	measure := func() (times []time.Duration) {
		for range requests {
			for path, status := range map[string]int{"turns": 201, "context": 200} {
				body := turn
				if path == "context" {
					body = []byte("{}")
				}
				begun := time.Now()
				quiet.do("POST", "/api/v1/projects/default/"+path, body).want(status)
				times = append(times, time.Since(begun))
			}
		}
		slices.Sort(times)
		return times
	}
	measure() // what happens once, such as loading the built-in policies
	alone := measure()

	flood := startFlood(t, server.url, loud.key, connections)
	for waiting := ""; waiting == "" || waiting == "0"; { // until the flood has to wait
		for line := range strings.Lines(string(quiet.get("/metrics").body)) {
			if value, ok := strings.CutPrefix(line, "mneme_http_requests_waiting "); ok {
				waiting = strings.TrimSpace(value)
			}
		}
	}
	beside := measure()
	answered, refused := flood.stop()
	if answered == 0 {
		t.Error("the flood was never answered")
	}
	at := func(times []time.Duration, part int) time.Duration { return times[len(times)*part/100] }
	t.Logf("flood of %d connections: %d answered, %d refused", connections, answered, refused)
	for _, part := range []int{50, 99} {
		a, b := at(alone, part), at(beside, part)
		t.Logf("quiet tenant, p%d: alone %v, beside the flood %v, ratio %.2f", part, a, b, float64(b)/float64(a))
	}
}

// flood is one tenant's connections that never pause.
type flood struct {
	ended             atomic.Bool
	answered, refused atomic.Int64
	conns             []net.Conn
	running           sync.WaitGroup
}

func startFlood(t *testing.T, url, key string, connections int) *flood {
	f := &flood{}
	for i := range connections {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		f.conns = append(f.conns, conn)
		body := encodeJSON(t, object{"session_id": fmt.Sprintf("s%d", i), "messages": []object{
			user(strings.Repeat("How does the river find its way to the sea? ", 180))}})
		request := fmt.Appendf(nil, "POST /api/v1/projects/default/turns HTTP/1.1\r\nHost: x\r\n"+
			"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
		f.running.Go(func() { f.send(t, conn, request) })
	}
	t.Cleanup(func() { f.stop() })
	return f
}

func (f *flood) send(t *testing.T, conn net.Conn, request []byte) {
	in := bufio.NewReader(conn)
	for {
		if _, err := conn.Write(request); err != nil {
			break
		}
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			break
		}
		text, err := io.ReadAll(r.Body)
		switch {
		case err != nil:
		case r.StatusCode == 201:
			f.answered.Add(1)
		case r.StatusCode == 503 && strings.Contains(string(text), `"busy"`) && r.Header.Get("Retry-After") != "":
			f.refused.Add(1)
		default:
			t.Errorf("flood: %d %s", r.StatusCode, text)
		}
	}
	if !f.ended.Load() {
		t.Error("a connection of the flood was cut")
	}
}

// stop ends the flood, and says how often it was answered and refused.
func (f *flood) stop() (answered, refused int64) {
	f.ended.Store(true)
	for _, conn := range f.conns {
		_ = conn.Close()
	}
	f.running.Wait()
	return f.answered.Load(), f.refused.Load()
}
