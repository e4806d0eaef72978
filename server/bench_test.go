package server

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/seed-0906e6bc/mneme/engine/window"
)

// BenchmarkContextRoute compares the context route, with a window that costs nothing to make, with a bare Fiber route
// that returns the same bytes. The server may cost as much again as Fiber, not more.
func BenchmarkContextRoute(b *testing.B) {
	stored := bytes.Repeat([]byte(`{"role":"user","content":"some words"},`), 500) // 19.5 kB
	devNull, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer devNull.Close()
	answer := func(_ context.Context, c *call[window.Request]) (spliced[window.Answer], error) {
		return append(c.buffer(), stored...), nil
	}
	site := start(b, answering("assemble", answer), func(o *setup) {
		o.Logger = slog.New(slog.NewTextHandler(devNull, nil))
	})
	bare := fiber.New(fiber.Config{DisableStartupMessage: true})
	bare.Post(contextPath, func(c *fiber.Ctx) error { return c.Send(stored) })

	const body = `{"session_id":"dashboard","budget":{"max_tokens":8000},"explain":false}`
	request := postRequest(contextPath, site.key("agent"), []byte(body))
	ln := listen(b)
	go func() { _ = bare.Listener(ln) }()
	for name, addr := range map[string]string{"bare": ln.Addr().String(), "edge": site.addr} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				c := dial(b, addr)
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
