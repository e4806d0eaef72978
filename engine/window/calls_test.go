package window_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// countedReads counts the keys that are asked for.
type countedReads struct {
	store.Store
	keys atomic.Int64
}

func (c *countedReads) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	c.keys.Add(int64(len(q.Keys)))
	return c.Store.Read(ctx, tenant, q)
}

// calls is one assistant message with n parallel calls.
func calls(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}`, i)
	}
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(list, ",") + `]}`
}

// A message's calls share its body: a window reads it once, however many results are answered or made up.
func TestManyCallsReadTheirBodyOnce(t *testing.T) {
	const n = 500
	reads := &countedReads{Store: memstore.New()}
	k := enginetest.Open(t, reads)
	k.Post("s", calls(n))
	for i := range n / 2 {
		k.Post("s", enginetest.Result(fmt.Sprint("c", i), "late"))
	}
	k.Post("s", enginetest.User("next"))
	k = enginetest.Open(t, reads) // with nothing in memory
	reads.keys.Store(0)
	w := k.Ask(`{"session_id":"s","budget":{"max_messages":0,"max_tokens":0},"pipeline":[]}`)
	if len(w.Messages) != n+2 {
		t.Fatalf("%d messages, want a call, %d results and a question: %.300s", len(w.Messages), n, w.Raw)
	}
	if got := reads.keys.Load(); got > n/2+20 {
		t.Errorf("%d keys read for %d bodies", got, n/2+2)
	}
}

// Calls that no turn could answer are refused, and so is what would be stored many times over.
func TestAmplifyingMessagesAreRefused(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", calls(4096))
	if _, err := tryAnthropic(k, "s", 0, 4097); err == nil || !strings.Contains(err.Error(), "too_many_calls") {
		t.Errorf("4,097 calls: %v", err)
	}
	if _, err := tryAnthropic(k, "small", 1<<10, 1000); err != nil {
		t.Errorf("1,000 results beside 1 KiB: %v", err)
	}
	if _, err := tryAnthropic(k, "large", 1<<20, 1000); err == nil || !strings.Contains(err.Error(), "message_too_large") {
		t.Errorf("1,000 results beside 1 MiB: %v", err)
	}
}

// tryAnthropic posts n calls and one message with all their results and a further field of some bytes.
func tryAnthropic(k *enginetest.Kit, sessionID string, bytes, n int) (session.TurnResponse, error) {
	uses, results := make([]string, n), make([]string, n)
	for i := range n {
		uses[i] = fmt.Sprintf(`{"type":"tool_use","id":"c%d","name":"f","input":{}}`, i)
		results[i] = fmt.Sprintf(`{"type":"tool_result","tool_use_id":"c%d","content":"r"}`, i)
	}
	return k.TryPost(session.TurnRequest{SessionID: sessionID, Format: "anthropic.messages"},
		`{"role":"assistant","content":[`+strings.Join(uses, ",")+`]}`,
		`{"role":"user","x":"`+strings.Repeat("x", bytes)+`","content":[`+strings.Join(results, ",")+`]}`)
}
