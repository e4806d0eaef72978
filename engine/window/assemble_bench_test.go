package window_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// BenchmarkAssemble makes one window of a session in memory, decision included.
func BenchmarkAssemble(b *testing.B) {
	for _, n := range []int{50, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			k := enginetest.New(b)
			fill(k, n)
			raw := []byte(fmt.Sprintf(`{"budget":{"max_messages":%d,"max_tokens":0}}`, n))
			budget := n
			zero := 0
			req := &window.ContextRequest{Budget: window.Budget{MaxMessages: &budget, MaxTokens: &zero}}
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if buf, err = k.Windows.Assemble(b.Context(), k.Admin, ident.DefaultProject, req, raw, buf[:0]); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

func fill(k *enginetest.Kit, messages int) {
	text := strings.Repeat("some words of a usual message ", 12)
	for i := range messages / 4 {
		id := fmt.Sprint("call_", i)
		k.Post("dashboard", enginetest.User(fmt.Sprint(i, text)), enginetest.Call(id, "search"), enginetest.Result(id, text), enginetest.Assistant(text))
	}
}
