package engine_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/snowball"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tiktoken"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/hostapi"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler/compilertest"
	"github.com/seed-0906e6bc/mneme/policies"
)

// stoppedTimer leaves it to fuel alone when a call ends: the machine may be busy with other tests.
func stoppedTimer(func()) hostapi.Timer { return never{} }

type never struct{}

func (never) Reset(time.Duration) bool { return true }
func (never) Stop() bool               { return true }

// kit is an engine made of real parts over a store in memory, with a clock and ids of its own.
type kit struct {
	testing.TB
	*engine.Engine
	store store.Store
	admin access.Caller
	mu    sync.Mutex
	now   time.Time
}

var analyser = sync.OnceValue(func() *snowball.Analyser {
	a, err := snowball.New()
	if err != nil {
		panic(err)
	}
	return a
})

var parts = sync.OnceValues(func() (*tiktoken.Counter, *hostapi.Host) {
	counter, err := tiktoken.New()
	if err != nil {
		panic(err)
	}
	host, err := hostapi.New(hostapi.Options{Compiler: compilertest.Command(), NewTimer: stoppedTimer})
	if err != nil {
		panic(err)
	}
	return counter, host
})

func newKit(t testing.TB) *kit { return openKit(t, memstore.New()) }

func openKit(t testing.TB, raw store.Store, change ...func(*engine.Options)) *kit {
	t.Helper()
	counter, host := parts()
	k := &kit{TB: t, store: raw, now: time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)}
	var builtIns []policy.BuiltIn
	for _, m := range policies.BuiltIn() {
		builtIns = append(builtIns, policy.BuiltIn{Name: m.Name, Wasm: m.Wasm})
	}
	o := engine.Options{Store: store.Seal(raw), Host: host, Tokens: counter, Analyser: analyser(), BuiltIns: builtIns,
		RootKey: "root-key", Now: k.clock, Random: entropyFor(t, raw)}
	for _, c := range change {
		c(&o)
	}
	e, _, err := engine.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	k.Engine = e
	k.admin = access.Caller{Tenant: ident.DefaultTenant, Role: access.RoleTenantAdmin, KeyID: "test"}
	return k
}

func (k *kit) clock() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

func (k *kit) advance(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = k.now.Add(d)
}

// entropy is a source of ids that repeats from run to run, safe for concurrent use.
func entropy(seed ...byte) io.Reader {
	return &lockedReader{r: rand.NewChaCha8([32]byte(append(seed, make([]byte, 32-len(seed))...)))}
}

// entropyFor is another one where the store holds something already, so that two programs over it give different ids.
func entropyFor(t testing.TB, raw store.Store) io.Reader {
	r, err := raw.Read(t.Context(), ident.DefaultTenant, store.Query{Ranges: []store.Range{{KeysOnly: true}}})
	if err != nil {
		t.Fatal(err)
	}
	n := len(r.Ranges[0])
	return entropy(1, byte(n), byte(n>>8))
}

type lockedReader struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedReader) Read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(b)
}

// post commits one turn of JSON messages.
func (k *kit) post(sessionID string, messages ...string) session.TurnResponse {
	k.Helper()
	r, err := k.tryPost(session.TurnRequest{SessionID: sessionID}, messages...)
	if err != nil {
		k.Fatalf("posting a turn: %v", err)
	}
	return r
}

func (k *kit) tryPost(req session.TurnRequest, messages ...string) (session.TurnResponse, error) {
	for _, m := range messages {
		req.Messages = append(req.Messages, json.RawMessage(m))
	}
	return k.Sessions.AppendTurn(k.Context(), k.admin, access.Once{}, ident.DefaultProject, req)
}

// answer is a context response, decoded.
type answer struct {
	DecisionID string            `json:"decision_id"`
	Messages   []json.RawMessage `json:"messages"`
	System     string            `json:"system"`
	Text       string            `json:"text"`
	Usage      map[string]int    `json:"usage"`
	Pipeline   []struct {
		Policy, Outcome, Detail string
		Fuel                    uint64
	} `json:"pipeline"`
	Report []struct {
		MessageID  string `json:"message_id"`
		Turn       int    `json:"turn"`
		Action     string `json:"action"`
		Policy     string `json:"policy"`
		ReasonCode string `json:"reason_code"`
		Reason     string `json:"reason"`
		Before     int    `json:"tokens_before"`
		After      int    `json:"tokens_after"`
		Count      int    `json:"count"`
		Turns      []int  `json:"turns"`
	} `json:"report"`
	raw []byte
}

// ask makes a window from a JSON request.
func (k *kit) ask(request string, args ...any) answer {
	k.Helper()
	w, err := k.tryAsk(fmt.Sprintf(request, args...))
	if err != nil {
		k.Fatalf("asking for a window: %v", err)
	}
	return w
}

func (k *kit) tryAsk(request string) (w answer, err error) {
	var req window.ContextRequest
	if err := json.Unmarshal([]byte(request), &req); err != nil {
		return w, err
	}
	w.raw, err = k.Windows.Assemble(k.Context(), k.admin, ident.DefaultProject, &req, []byte(request), nil)
	if err != nil {
		return w, err
	}
	return w, json.Unmarshal(w.raw, &w)
}

// replay computes a decision again and fails unless it is equal.
func (k *kit) replay(id string) {
	k.Helper()
	b, err := k.Windows.Replay(k.Context(), k.admin, ident.DefaultProject, id, nil)
	if err != nil {
		k.Fatalf("replaying: %v", err)
	}
	var got struct{ Equal bool }
	if err := json.Unmarshal(b, &got); err != nil || !got.Equal {
		k.Fatalf("replay differs: %v %s", err, b)
	}
}

// drain does all background work there is.
func (k *kit) drain() {
	k.Helper()
	for {
		more, err := k.Step(k.Context())
		if err != nil {
			k.Fatal(err)
		}
		if !more {
			return
		}
	}
}
