package server

import (
	"bytes"
	"context"
	"log/slog"
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
	request := postRequest(contextPath, "agent", []byte(body))
	for name, app := range map[string]*fiber.App{"bare": bare, "edge": edge.app} {
		b.Run(name, func(b *testing.B) {
			ln := listen(b)
			go func() { _ = app.Listener(ln) }()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				c := dial(b, ln.Addr().String())
				for pb.Next() {
					if _, err := c.exchange(request); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
