package window_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
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
			req := &window.Request{Budget: window.Budget{MaxMessages: &budget, MaxTokens: &zero}}
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if buf, err = k.Assemble(ident.DefaultProject, req, raw, buf[:0]); err != nil {
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

// BenchmarkReading reads the decision of a window with its report against making the window, of the newest of 400
// messages. Processor time is what counts, so nothing else runs.
func BenchmarkReading(b *testing.B) {
	k := enginetest.New(b)
	fill(k, 800)
	var buf []byte
	raw := []byte(`{}`)
	make := func(n int) {
		for range n {
			var err error
			if buf, err = k.Assemble(ident.DefaultProject, new(window.Request), raw, buf[:0]); err != nil {
				b.Fatal(err)
			}
		}
	}
	make(1)
	var w enginetest.Window
	if err := json.Unmarshal(buf, &w); err != nil {
		b.Fatal(err)
	}
	var out []byte
	m := benchtest.Compare(b, 20, func(n int) {
		for range n {
			d, err := k.Trials.Decision(b.Context(), k.Admin, ident.DefaultProject, w.DecisionID)
			if err != nil {
				b.Fatal(err)
			}
			if out, err = d.Append(out[:0]); err != nil {
				b.Fatal(err)
			}
		}
	}, make)
	b.ReportMetric(m.Subject.Seconds()*1e6, "read-µs")
	b.ReportMetric(m.Baseline.Seconds()*1e6, "make-µs")
	b.ReportMetric(m.Ratio, "x-make")
}
