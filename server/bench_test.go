package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/gofiber/fiber/v2"
)

// The hot path's price: the context route, with a window that costs nothing to make, against a bare Fiber route that
// answers the same bytes. The edge may cost as much again as Fiber, not more.
func BenchmarkContextRoute(b *testing.B) {
	window := bytes.Repeat([]byte(`{"role":"user","content":"some words"},`), 500) // 19.5 kB
	devNull, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer devNull.Close()
	e := &fakeEngine{assemble: func(_ context.Context, dst []byte) ([]byte, error) {
		return append(dst, window...), nil
	}}
	edge, err := newServer(Options{Engine: e, Logger: slog.New(slog.NewTextHandler(devNull, nil))}, defaultLimits())
	if err != nil {
		b.Fatal(err)
	}
	bare := fiber.New(fiber.Config{DisableStartupMessage: true})
	bare.Post(contextPath, func(c *fiber.Ctx) error { return c.Send(window) })

	const body = `{"session_id":"dashboard","budget":{"max_tokens":8000},"explain":false}`
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer agent\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", contextPath, len(body), body)
	for name, app := range map[string]*fiber.App{"bare": bare, "edge": edge.app} {
		b.Run(name, func(b *testing.B) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer ln.Close()
			go func() { _ = app.Listener(ln) }()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) { roundTrips(b, ln.Addr().String(), request, pb) })
		})
	}
}

func roundTrips(b *testing.B, addr string, request []byte, pb *testing.PB) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 64<<10)
	for pb.Next() {
		if _, err := conn.Write(request); err != nil {
			b.Error(err)
			return
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != http.StatusOK {
			b.Error(res, err)
			return
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			b.Error(err)
			return
		}
	}
}
