package window_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// BenchmarkLength makes windows of a session of 1,000,000 messages and of shorter ones, all on Badger and read from
// its tables. Hot: the session is in memory. Cold: it is not, and every window reads it anew. Both windows are of 50
// messages; but of 100 messages only 100 can be considered, of 1,000 and of 1,000,000 alike the newest 256.
func BenchmarkLength(b *testing.B) {
	dir := b.TempDir()
	db := enginetest.OpenBadger(b, dir)
	k := enginetest.Open(b, &bulk{Store: db})
	for _, messages := range []int{100, 1000, 1_000_000} {
		importSession(k, messages)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	db = enginetest.OpenBadger(b, dir)
	defer db.Close()
	for _, c := range []struct {
		name     string
		hotBytes int
	}{{"hot", 0}, {"cold", 1}} { // in one byte there is room for one session, so that two drive each other out
		k := enginetest.Open(b, db, func(o *engine.Options) { o.HotBytes = c.hotBytes })
		for _, messages := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/1000000-against-%d", c.name, messages), func(b *testing.B) {
				m := benchtest.Compare(b, 1, assembling(b, k, 1_000_000), assembling(b, k, messages))
				b.ReportMetric(m.Subject.Seconds()*1e6, "long-µs")
				b.ReportMetric(m.Baseline.Seconds()*1e6, "short-µs")
				b.ReportMetric(m.Ratio, "x-short")
			})
		}
	}
}

func sessionOf(messages int) string { return fmt.Sprint("session-", messages) }

// assembling makes windows of a session, which must be of 50 messages.
func assembling(b *testing.B, k *enginetest.Kit, messages int) func(n int) {
	var buf []byte
	req := &window.Request{SessionID: sessionOf(messages)}
	raw := []byte(fmt.Sprintf(`{"session_id":%q}`, req.SessionID))
	ask := func(n int) {
		for range n {
			var err error
			if buf, err = k.Assemble(ident.DefaultProject, req, raw, buf[:0]); err != nil {
				b.Fatal(err)
			}
		}
	}
	ask(1)
	var w enginetest.Window
	if err := json.Unmarshal(buf, &w); err != nil || w.Usage["history_messages"] < 47 {
		b.Fatalf("a window of %d messages (%v)", w.Usage["history_messages"], err)
	}
	return ask
}

// importSession makes a session of short turns.
func importSession(k *enginetest.Kit, messages int) {
	k.Helper()
	f := session.File{Version: 1, Session: session.Spec{ID: sessionOf(messages)}}
	for i := range messages / 4 {
		id := fmt.Sprint("call_", i)
		turn := session.FileTurn{Turn: uint32(i + 1)}
		question := enginetest.User(fmt.Sprint("question ", i))
		for _, m := range []string{question, enginetest.Call(id, "search"), enginetest.Result(id, "found"), enginetest.Assistant("answer")} {
			turn.Messages = append(turn.Messages, session.FileMessage{Format: "openai.chat", Message: json.RawMessage(m)})
		}
		f.Turns = append(f.Turns, turn)
	}
	if _, err := k.Sessions.Import(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, f); err != nil {
		k.Fatal(err)
	}
}

// bulk puts batches that expect nothing together, so that filling a store does not sync for each turn.
type bulk struct {
	store.Store
	waiting []store.Pair
}

func (s *bulk) Commit(ctx context.Context, tenant string, b store.Batch) error {
	plain := len(b.Expect)+len(b.Delete) == 0
	if plain {
		s.waiting = append(s.waiting, b.Put...)
	}
	if !plain || len(s.waiting) > 4000 {
		if err := s.Store.Commit(ctx, tenant, store.Batch{Put: s.waiting}); err != nil {
			return err
		}
		s.waiting = nil
	}
	if plain {
		return nil
	}
	return s.Store.Commit(ctx, tenant, b)
}
