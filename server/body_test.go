package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/session"
)

func small(o *setup) { o.limits.body = 100_000 }

// body returns a turn of n bytes.
func body(n int) string {
	const head, tail = `{"messages":["`, `"]}`
	return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	s := start(t, anyTurn, small)
	for _, chunked := range []bool{false, true} {
		for n, status := range map[int]int{100: 201, 8 << 10: 201, 8<<10 + 1: 201, 100_000: 201, 100_001: 413,
			5_000_000: 413} {
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.addr+turns,
				strings.NewReader(body(n)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer agent")
			if chunked {
				req.ContentLength = -1
			}
			a := read(t, s.send(req))
			if a.status != status {
				t.Errorf("%d bytes, chunked %v: %d %s", n, chunked, a.status, a.body)
			}
			if a.status == 413 {
				if p := a.problem(t); p.Code != "body_too_large" {
					t.Errorf("%+v", p)
				}
			}
		}
	}
}

// A client that writes everything before it reads must still get its response, whether or not it may write at all.
func TestRefusedUploadsGetTheirAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, anyTurn, small, limited(func(l *limits) { l.linger = time.Minute }))
	for _, c := range []struct{ key, framing string }{
		{"agent", "Content-Length: 20000000"}, {"agent", "Transfer-Encoding: chunked"},
		{"nobody", "Content-Length: 20000000"}, {"nobody", "Transfer-Encoding: chunked"},
	} {
		conn, key := s.dial(), c.key
		if key == "agent" {
			key = s.key(key)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", turns, key,
			c.framing)
		chunk := bytes.Repeat([]byte("x"), 0xfffe)
		for range 20_000_000 / len(chunk) {
			var err error
			if strings.Contains(c.framing, "chunked") {
				_, err = fmt.Fprintf(conn, "fffe\r\n%s\r\n", chunk)
			} else {
				_, err = conn.Write(chunk)
			}
			if err != nil {
				t.Fatalf("%v: writing: %v", c, err)
			}
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		a := read(t, res)
		want := map[string]int{"agent": 413, "nobody": 401}[c.key]
		if p := a.problem(t); p.Status != want || !a.close {
			t.Errorf("%v: %+v, close %v", c, p, a.close)
		}
	}
}

// The rest of a refused body must not be read as the next request.
func TestRefusedBodyIsNotTheNextRequest(t *testing.T) {
	t.Parallel()
	s := start(t)
	smuggled := "DELETE /api/v1/projects/default HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " +
		s.key("tenant_admin") + "\r\n\r\n"
	padded := smuggled + strings.Repeat(" ", 40_000)
	for name, request := range map[string]string{
		"short":    fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(smuggled), smuggled),
		"streamed": fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(padded), padded),
		"chunked":  fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled),
	} {
		for _, path := range []string{turns, "/nowhere", "/healthz"} {
			conn := s.dial()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s", path, request)
			fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: second\r\n\r\n")
			r := bufio.NewReader(conn)
			for i := 0; ; i++ {
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					break
				}
				if a := read(t, res); i > 0 && a.header.Get("X-Request-Id") != "second" {
					t.Fatalf("%s %s: answer %d is %d %s", name, path, i, a.status, a.body)
				}
			}
		}
	}
	if strings.Contains(s.log.String(), "DELETE") {
		t.Error("the body was served as a request")
	}
}

// Headers that announce a large body must not cost much memory.
func TestPromisedBytesAreNotAllocated(t *testing.T) {
	s := start(t, anyTurn, limited(func(l *limits) { l.bytes = 1 << 40 }))
	key := s.key("agent")
	s.do("POST", turns, `{}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const clients = 50
	for range clients {
		conn := s.dial()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
			turns, key, defaultMaxBody, strings.Repeat("x", 10_000))
	}
	for s.s.metrics.inFlight.Load() < clients {
		runtime.Gosched()
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > clients*256<<10 {
		t.Errorf("%d connections promising 8 MiB each cost %d KiB", clients, grown>>10)
	}
}

func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	s := start(t, anyTurn)
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"truncated, short": {"Content-Length: 100\r\n\r\n{}", 400},
		"truncated, long":  {"Content-Length: 100000\r\n\r\n{}" + strings.Repeat(" ", 50_000), 400},
		"broken chunk":     {"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400},
		"cut off chunk":    {"Transfer-Encoding: chunked\r\n\r\n20\r\n{}", 400},
		"no last chunk":    {"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 400},
		"negative length":  {"Content-Length: -5\r\n\r\n", 400},
		"absurd length":    {"Content-Length: 99999999999999999999999\r\n\r\n", 400},
		"huge length":      {"Content-Length: 9000000000000000\r\n\r\n" + strings.Repeat(" ", 9_000), 413},
		"no chunks":        {"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	} {
		conn := s.dial()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s", turns, s.key("agent"),
			c.request)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p := read(t, res).problem(t); p.Status != c.status {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A client that sends slowly holds a connection for a limited time, and no other client waits.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	s := start(t, limited(func(l *limits) { l.headers, l.read = 150*time.Millisecond, 150*time.Millisecond }))
	head := "POST " + turns + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + s.key("agent") + "\r\n"
	for name, begin := range map[string]string{
		"nothing":      "",
		"headers":      head,
		"body":         head + "Content-Length: 90000\r\n\r\n{",
		"chunked body": head + "Transfer-Encoding: chunked\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := s.dial()
			fmt.Fprint(conn, begin)
			got, err := io.ReadAll(conn) // ends only when the server closes
			if err != nil && !strings.Contains(err.Error(), "reset") {
				t.Fatalf("still open: %v", err)
			}
			if len(got) > 0 && !bytes.HasPrefix(got, []byte("HTTP/1.1 408 ")) {
				t.Errorf("%.60q", got)
			}
		})
	}
}

func TestLongHeadersAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	conn := s.dial()
	fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Filler: %s\r\n\r\n", strings.Repeat("x", 20_000))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := read(t, res).problem(t); p.Status != 431 || p.Code != "headers_too_large" {
		t.Errorf("%+v", p)
	}
}

func TestStopFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	running, finish := make(chan struct{}), make(chan struct{})
	var done atomic.Bool
	s := start(t, appending(func(ctx context.Context, _ *call[session.TurnRequest]) error {
		close(running)
		<-finish
		done.Store(true)
		return ctx.Err()
	}))
	idle := s.dial()
	fmt.Fprint(idle, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(idle), nil); err != nil {
		t.Fatal(err)
	}
	answered := make(chan answer)
	go func() { answered <- s.do("POST", turns, "{}") }()
	<-running
	stopped := make(chan error)
	go func() { stopped <- s.stop() }()
	for { // until the listener is closed
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	close(finish)
	if a := <-answered; a.status != 201 || !a.close {
		t.Errorf("the request in flight: %d, close %v", a.status, a.close)
	}
	if err := <-stopped; err != nil || !done.Load() {
		t.Errorf("stopped with %v, request done %v", err, done.Load())
	}
}

func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	running := make(chan struct{})
	ended := make(chan error, 1)
	s := start(t, appending(func(ctx context.Context, _ *call[session.TurnRequest]) error {
		close(running)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}), limited(func(l *limits) { l.drain = time.Millisecond }))
	conn := s.dial()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 2\r\n\r\n{}",
		turns, s.key("agent"))
	<-running
	if err := s.stop(); err == nil || !strings.Contains(err.Error(), "did not finish") {
		t.Errorf("stopped with %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v", err)
	}
}
