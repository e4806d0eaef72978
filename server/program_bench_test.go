package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/message/tiktoken"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/hostapi"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler/compilertest"
	"github.com/seed-0906e6bc/mneme/policies"
)

// BenchmarkProgram compares all of Mneme (HTTP server and access log, engine, sandboxed policies, decisions stored in
// Badger) with a Fiber route that returns the same response from memory, for windows of a session of 50 messages:
// with the same clients on keep-alive connections, in alternating rounds.
func BenchmarkProgram(b *testing.B) {
	const clients = 8
	addr, key := newProgram(b)
	storeConversation(b, addr, key, "default", 13)
	request := postRequest(contextPath, key, []byte(`{}`))
	answer := bytes.Clone(dial(b, addr).mustExchange(b, request))
	m := benchtest.Compare(b, 2000, loadOf(b, addr, request, clients), loadOf(b, serveBare(b, answer), request, clients))
	b.ReportMetric(1/m.Subject.Seconds(), "mneme/s")
	b.ReportMetric(1/m.Baseline.Seconds(), "fiber/s")
	b.ReportMetric(1/m.Ratio, "of-fiber")
	b.ReportMetric(float64(len(answer)), "bytes")
}

// serveBare starts a Fiber route that returns an answer from memory, for any path, and returns its address.
func serveBare(b *testing.B, answer []byte) (addr string) {
	bare := fiber.New(fiber.Config{DisableStartupMessage: true})
	bare.Post("/*", func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, jsonType)
		return c.Send(answer)
	})
	ln := listen(b)
	go func() { _ = bare.Listener(ln) }()
	return ln.Addr().String()
}

// loadOf returns a function that sends a request n times from clients on connections of their own.
func loadOf(b *testing.B, addr string, request []byte, clients int) func(n int) {
	idle := make(chan *connection, clients)
	for range clients {
		idle <- dial(b, addr)
	}
	return func(n int) {
		benchtest.Share(b, clients, n, func() error {
			c := <-idle
			defer func() { idle <- c }()
			_, err := c.exchange(request)
			return err
		})
	}
}

// BenchmarkDecisions measures the processor time of a window by the project's setting decisions, beside that of a Fiber
// route that returns the same response from memory, clients included. The four take turns; the metrics are medians of
// the rounds, and medians of their ratios to `all`.
func BenchmarkDecisions(b *testing.B) {
	const clients, round = 8, 1000
	for _, turns := range []int{1, 13} {
		b.Run(fmt.Sprint("turns=", turns), func(b *testing.B) {
			addr, key := newProgram(b)
			names := []string{"all", "errors", "none", "fiber"}
			var loads []func(n int)
			var answer []byte
			for _, setting := range names[:3] {
				c := dial(b, addr)
				project := "/api/v1/projects/" + setting
				c.mustExchange(b, jsonRequest("PUT", project, key, []byte(`{}`)))
				c.mustExchange(b, jsonRequest("PATCH", project+"/settings", key, fmt.Appendf(nil, `{"decisions":%q}`, setting)))
				storeConversation(b, addr, key, setting, turns)
				request := postRequest(project+"/context", key, []byte(`{}`))
				answer = bytes.Clone(c.mustExchange(b, request))
				loads = append(loads, loadOf(b, addr, request, clients))
			}
			request := postRequest(contextPath, key, []byte(`{}`))
			loads = append(loads, loadOf(b, serveBare(b, answer), request, clients))
			took, ratios := make([][]float64, len(loads)), make([][]float64, len(loads))
			b.ResetTimer()
			for done := 0; done < b.N && !b.Failed(); done += round {
				for i, load := range loads {
					began := benchtest.ProcessorTime()
					load(round)
					took[i] = append(took[i], float64(benchtest.ProcessorTime()-began)/round/1000)
				}
				for i := range loads {
					last := len(took[i]) - 1
					ratios[i] = append(ratios[i], took[i][last]/took[0][last])
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, name := range names {
				slices.Sort(took[i])
				slices.Sort(ratios[i])
				b.ReportMetric(took[i][len(took[i])/2], name+"-µs")
				b.ReportMetric(ratios[i][len(ratios[i])/2], name+"/all")
			}
		})
	}
}

// newProgram starts what `serve` starts, and returns its address and the admin's key.
func newProgram(b *testing.B) (addr, key string) {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	devNull, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(err)
	log := slog.New(slog.NewTextHandler(devNull, nil))
	db, err := badgerstore.Open(badgerstore.Options{Dir: b.TempDir(), Logger: log})
	must(err)
	counter, err := tiktoken.New()
	must(err)
	host, err := hostapi.New(hostapi.Options{Compiler: compilertest.Command()})
	must(err)
	var builtIns []policy.BuiltIn
	for _, m := range policies.BuiltIn() {
		builtIns = append(builtIns, policy.BuiltIn(m))
	}
	e, key, err := engine.New(b.Context(), engine.Options{Store: store.Seal(store.Pausing(db, false, admission.Pause)), Host: host, Tokens: counter,
		BuiltIns: builtIns, Logger: log})
	must(err)
	s, err := New(Options{Engine: e, Logger: log, LogSample: 1})
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	ln := listen(b)
	go func() { ended <- s.Serve(ctx, ln) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		if err := host.Close(context.Background()); err != nil {
			b.Error(err)
		}
		if err := db.Close(); err != nil {
			b.Error(err)
		}
		_ = devNull.Close()
	})
	return ln.Addr().String(), key
}

// storeConversation posts turns of up to four messages of 400 bytes, some of them tool calls with results. The last turn
// has two, so 13 turns have 50 messages.
func storeConversation(b *testing.B, addr, key, project string, turns int) {
	b.Helper()
	c := dial(b, addr)
	text := strings.Repeat("some words of a usual message ", 12)
	for turn := range turns {
		id := fmt.Sprint("call_", turn)
		messages := []map[string]any{
			{"role": "user", "content": fmt.Sprint(turn, " ", text)},
			{"role": "assistant", "content": text},
			{"role": "assistant", "content": nil, "tool_calls": []map[string]any{
				{"id": id, "type": "function", "function": map[string]any{"name": "search", "arguments": "{}"}}}},
			{"role": "tool", "tool_call_id": id, "content": text},
		}
		if turn == turns-1 {
			messages = messages[:2]
		}
		body, err := json.Marshal(map[string]any{"messages": messages})
		if err != nil {
			b.Fatal(err)
		}
		c.mustExchange(b, postRequest("/api/v1/projects/"+project+"/turns", key, body))
	}
}

func listen(b *testing.B) net.Listener {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ln.Close() })
	return ln
}

// connection is a client with very low overhead, because it shares the machine with the server.
type connection struct {
	net.Conn
	r    *bufio.Reader
	body []byte
}

func dial(b *testing.B, addr string) *connection {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return &connection{Conn: c, r: bufio.NewReaderSize(c, 64<<10)}
}

func postRequest(path, key string, body []byte) []byte { return jsonRequest("POST", path, key, body) }

func jsonRequest(method, path, key string, body []byte) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, key, len(body), body)
}

// exchange sends a request and returns the response body, which is valid until the next call. Any success is
// accepted.
func (c *connection) exchange(request []byte) ([]byte, error) {
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	status, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	failed := !bytes.HasPrefix(status, []byte("HTTP/1.1 20"))
	length := 0
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return nil, err
			}
		}
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	body := c.body[:length]
	if _, err := io.ReadFull(c.r, body); err != nil {
		return nil, err
	}
	if failed {
		return nil, fmt.Errorf("refused: %s", body)
	}
	return body, nil
}

func (c *connection) mustExchange(b *testing.B, request []byte) []byte {
	b.Helper()
	body, err := c.exchange(request)
	if err != nil {
		b.Fatal(err)
	}
	return body
}
