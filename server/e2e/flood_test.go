package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// TestCampaignFlood has one tenant flood the server over many connections, which send the next turn as soon as the
// previous one is answered and ignore Retry-After. Meanwhile each request of a quiet tenant must be served, and the
// flood must wait. The test prints the quiet tenant's times during the flood as multiples of those without it, and for
// comparison those beside a loop that does not use the server.
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
	measure() // work that is done once, such as loading the built-in policies
	alone := measure()

	loop := elsewhere(t, "loop")
	besideLoop := measure()
	loop.stop()
	flood := elsewhere(t, fmt.Sprintf("%s %s %d", server.url, loud.key, connections))
	for waiting := ""; waiting == "" || waiting == "0"; { // until the flood has to wait
		for line := range strings.Lines(string(quiet.get("/metrics").body)) {
			if value, ok := strings.CutPrefix(line, "mneme_http_requests_waiting "); ok {
				waiting = strings.TrimSpace(value)
			}
		}
	}
	beside := measure()
	var answered, refused int
	said := flood.stop()
	if _, err := fmt.Sscanf(said, "%d answered, %d refused", &answered, &refused); err != nil || answered == 0 {
		t.Errorf("the flood of %d connections: %q, %v", connections, said, err)
	}
	t.Logf("flood of %d connections: %s", connections, said)
	for _, part := range []int{50, 99} {
		at := func(times []time.Duration) time.Duration { return times[len(times)*part/100] }
		ratio := func(times []time.Duration) float64 { return float64(at(times)) / float64(at(alone)) }
		t.Logf("quiet tenant, p%d: alone %v, beside a loop that keeps one processor busy %.2f times that, beside the flood %.2f",
			part, at(alone), ratio(besideLoop), ratio(beside))
	}
}

// neighbour is a separate process of this test binary, so that its load competes with the server for processors as
// other programs do, and not with the quiet tenant's client. It has a low priority, because real clients run on other
// machines.
type neighbour struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Closer
	said strings.Builder
}

// neighbourTask is the environment variable with a neighbour's task: `loop`, `provider ADDRESS`, or a flood: URL KEY
// CONNECTIONS.
const neighbourTask = "MNEME_E2E_NEIGHBOUR"

func elsewhere(t *testing.T, task string) *neighbour {
	t.Helper()
	n := &neighbour{t: t, cmd: exec.Command("nice", "-n", "14", os.Args[0])}
	n.cmd.Env = append(os.Environ(), neighbourTask+"="+task)
	n.cmd.Stdout, n.cmd.Stderr = &n.said, os.Stderr
	var err error
	if n.in, err = n.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.stop() })
	return n
}

// stop ends the neighbour's task and returns its report.
func (n *neighbour) stop() string {
	if n.cmd.ProcessState == nil {
		_ = n.in.Close()
		if err := n.cmd.Wait(); err != nil {
			n.t.Errorf("a neighbour: %v", err)
		}
	}
	return n.said.String()
}

// beNeighbour does a task until standard input ends.
func beNeighbour(task string) error {
	if addr, ok := strings.CutPrefix(task, "provider "); ok {
		return provideSteps(addr)
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	if task == "loop" {
		go func() {
			for n := new(atomic.Int64); ; n.Add(1) {
			}
		}()
		<-ended
		return nil
	}
	var url, key string
	var connections int
	if _, err := fmt.Sscan(task, &url, &key, &connections); err != nil {
		return err
	}
	f := &flood{}
	if err := f.start(url, key, connections); err != nil {
		return err
	}
	<-ended
	return f.stop()
}

// flood is one tenant's connections, which never pause.
type flood struct {
	ended             atomic.Bool
	answered, refused atomic.Int64
	mu                sync.Mutex
	broken            error // the first unexpected answer or error
	conns             []net.Conn
	running           sync.WaitGroup
}

func (f *flood) start(url, key string, connections int) error {
	for i := range connections {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			return err
		}
		f.conns = append(f.conns, conn)
		body, err := json.Marshal(object{"session_id": fmt.Sprintf("s%d", i), "messages": []object{
			user(strings.Repeat("How does the river find its way to the sea? ", 180))}})
		if err != nil {
			return err
		}
		request := fmt.Appendf(nil, "POST /api/v1/projects/default/turns HTTP/1.1\r\nHost: x\r\n"+
			"Authorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			key, len(body), body)
		f.running.Go(func() {
			err := f.send(conn, request)
			if !f.ended.Load() {
				f.mu.Lock()
				f.broken = cmp.Or(f.broken, err)
				f.mu.Unlock()
			}
		})
	}
	return nil
}

// send repeats a request until it fails.
func (f *flood) send(conn net.Conn, request []byte) error {
	in := bufio.NewReader(conn)
	for {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(r.Body)
		switch {
		case err != nil:
			return err
		case r.StatusCode == 201:
			f.answered.Add(1)
		case r.StatusCode == 503 && strings.Contains(string(text), `"busy"`) && r.Header.Get("Retry-After") != "":
			f.refused.Add(1)
		default:
			return fmt.Errorf("flood: %d %s", r.StatusCode, text)
		}
	}
}

// stop ends the flood and prints how many requests were answered and refused.
func (f *flood) stop() error {
	f.ended.Store(true)
	for _, conn := range f.conns {
		_ = conn.Close()
	}
	f.running.Wait()
	fmt.Printf("%d answered, %d refused", f.answered.Load(), f.refused.Load())
	return f.broken
}
