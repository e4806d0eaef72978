package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"
)

// counting counts the buffers that are written separately. Go's vectored writes bypass it.
type counting struct {
	*net.TCPConn
	alone *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	c.alone.Add(1)
	return c.TCPConn.Write(b)
}

type countingListener struct {
	net.Listener
	alone *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return counting{c.(*net.TCPConn), l.alone}, nil
}

// Responses of all lengths arrive completely and in order, also in sequence and without their bodies.
func TestAnswersOfAllLengths(t *testing.T) {
	t.Parallel()
	beneath, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456789abcde\n"), 8<<10)
	server := &fasthttp.Server{WriteBufferSize: responseBuffer, Handler: func(ctx *fasthttp.RequestCtx) {
		n, err := strconv.Atoi(string(ctx.Path()[1:]))
		if err != nil {
			t.Error(err)
		}
		ctx.SetBody(text[:n])
		ctx.Conn().(*conn).overflows = overflows(ctx)
	}}
	cs := &connections{log: slog.New(slog.DiscardHandler), max: 10, addresses: map[netip.Prefix]*address{}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener{beneath, cs}) }()
	defer func() {
		if err := server.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	client, err := net.Dial("tcp", beneath.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	in := bufio.NewReader(client)
	exchange := func(method string, lengths ...int) {
		t.Helper()
		var requests strings.Builder
		for _, n := range lengths {
			fmt.Fprintf(&requests, "%s /%d HTTP/1.1\r\nHost: x\r\n\r\n", method, n)
		}
		if _, err := io.WriteString(client, requests.String()); err != nil {
			t.Fatal(err)
		}
		for i, n := range lengths {
			res, err := http.ReadResponse(in, &http.Request{Method: method})
			if err != nil {
				t.Fatalf("answer %d of %v: %v", i, lengths, err)
			}
			want := text[:n]
			if method == http.MethodHead {
				want = nil
			}
			if body, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(body, want) {
				t.Fatalf("answer %d of %v: %d bytes, %v", i, lengths, len(body), err)
			}
		}
	}
	for n := responseBuffer - 256; n <= responseBuffer+256; n++ {
		exchange(http.MethodGet, n)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		lengths := make([]int, 1+random.IntN(5))
		for i := range lengths {
			lengths[i] = random.IntN(1 << (4 + random.IntN(13)))
		}
		method := http.MethodGet
		if random.IntN(4) == 0 {
			method = http.MethodHead
		}
		exchange(method, lengths...)
	}
}

// A long response is written at once, a short one as fasthttp does.
func TestLongAnswerIsOneWrite(t *testing.T) {
	t.Parallel()
	var alone atomic.Int64
	s := start(t, func(o *setup) {
		o.listener = func(ln net.Listener) net.Listener { return countingListener{ln, &alone} }
	})
	for path, want := range map[string]int64{"/openapi.json": 0, "/healthz": 1} {
		alone.Store(0)
		if got := s.do("GET", path, ""); got.status != 200 || alone.Load() != want {
			t.Errorf("%s answers %d with %d writes by themselves, want %d", path, got.status, alone.Load(), want)
		}
	}
}
