package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// BenchmarkTurns commits durable turns of four messages, each writer to its own session. For comparison, the same
// number of writers append the same bytes to a plain file and sync it together.
func BenchmarkTurns(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(writers, "-writers"), func(b *testing.B) {
			db := enginetest.OpenBadger(b, b.TempDir())
			defer db.Close()
			w := &weighed{Store: db}
			k := enginetest.Open(b, w)
			w.bytes = 0
			sessions := make(chan string, writers)
			text := strings.Repeat("some words of a usual message ", 8)
			req := session.TurnRequest{}
			for _, m := range []string{enginetest.User(text), enginetest.Call("call", "search"), enginetest.Result("call", text), enginetest.Assistant(text)} {
				req.Messages = append(req.Messages, json.RawMessage(m))
			}
			turn := func() error {
				req := req
				req.SessionID = <-sessions
				defer func() { sessions <- req.SessionID }()
				_, err := k.Sessions.AppendTurn(b.Context(), k.Admin, ident.Once{}, ident.DefaultProject, req)
				return err
			}
			for i := range writers {
				sessions <- fmt.Sprint("session-", i)
				if err := turn(); err != nil {
					b.Fatal(err)
				}
			}
			same := make([]byte, w.bytes)
			raw := benchtest.NewRawLog(b)
			var processor time.Duration
			m := benchtest.Compare(b, 16*writers,
				func(n int) {
					before := benchtest.ProcessorTime()
					benchtest.Share(b, writers, n, turn)
					processor += benchtest.ProcessorTime() - before
				},
				func(n int) { benchtest.Share(b, writers, n, func() error { return raw.Append(same) }) })
			b.ReportMetric(1/m.Subject.Seconds(), "turns/s")
			b.ReportMetric(1/m.Baseline.Seconds(), "raw/s")
			b.ReportMetric(1/m.Ratio, "of-raw")
			b.ReportMetric(float64(processor.Microseconds())/float64(b.N), "cpu-µs/turn")
			b.ReportMetric(float64(len(same)), "bytes/turn")
		})
	}
}

// weighed records the size of the tenant's first commit since bytes was reset to 0.
type weighed struct {
	store.Store
	bytes int
}

func (s *weighed) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if s.bytes == 0 && tenant == ident.DefaultTenant {
		for _, p := range b.Put {
			s.bytes += len(p.Key) + len(p.Value)
		}
	}
	return s.Store.Commit(ctx, tenant, b)
}
