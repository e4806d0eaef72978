// Package enginetest is the kit that the tests of the engine and its packages share: an engine made of real parts over
// a store in memory, with its own clock and ids, and functions for frequent steps of tests.
package enginetest

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/snowball"
	"github.com/seed-0906e6bc/mneme/engine/message/tiktoken"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/hostapi"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler/compilertest"
	"github.com/seed-0906e6bc/mneme/policies"
)

// stoppedTimer never stops a call, so that only fuel does: the machine may be busy with other tests.
func stoppedTimer(func()) hostapi.Timer { return never{} }

type never struct{}

func (never) Reset(time.Duration) bool { return true }
func (never) Stop() bool               { return true }

// Kit is an engine made of real parts over a store in memory, with a clock and ids of its own.
type Kit struct {
	testing.TB
	*engine.Engine
	Store store.Store
	Admin ident.Caller
	Mu    sync.Mutex
	Now   time.Time
}

var Analyser = sync.OnceValue(func() *snowball.Analyser {
	a, err := snowball.New()
	if err != nil {
		panic(err)
	}
	return a
})

var Parts = sync.OnceValues(func() (*tiktoken.Counter, *hostapi.Host) {
	counter, err := tiktoken.New()
	if err != nil {
		panic(err)
	}
	limits := hostapi.DefaultLimits()
	limits.CompileTime = time.Minute // a binary that looks for races compiles ten times as slowly
	host, err := hostapi.New(hostapi.Options{Compiler: compilertest.Command(), CacheDir: compilertest.Dir(),
		Limits: limits, NewTimer: stoppedTimer})
	if err != nil {
		panic(err)
	}
	return counter, host
})

func New(t testing.TB) *Kit { return Open(t, memstore.New()) }

func Open(t testing.TB, raw store.Store, change ...func(*engine.Options)) *Kit {
	t.Helper()
	counter, host := Parts()
	k := &Kit{TB: t, Store: raw, Now: time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)}
	o := engine.Options{Store: store.Seal(raw), Host: host, Tokens: counter, Analyser: Analyser(), BuiltIns: BuiltIns(),
		RootKey: "root-key", Now: k.Clock, Random: entropyFor(t, raw)}
	for _, c := range change {
		c(&o)
	}
	e, _, err := engine.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	k.Engine = e
	k.Admin = ident.Caller{Tenant: ident.DefaultTenant, Role: ident.RoleTenantAdmin, KeyID: "test"}
	return k
}

// BuiltIns are the policies that come with Mneme.
func BuiltIns() (out []policy.BuiltIn) {
	for _, m := range policies.BuiltIn() {
		out = append(out, policy.BuiltIn(m))
	}
	return out
}

func (k *Kit) Clock() time.Time {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	return k.Now
}

func (k *Kit) Advance(d time.Duration) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.Now = k.Now.Add(d)
}

// entropy is a source of ids that repeats from run to run, safe for concurrent use.
func entropy(seed ...byte) io.Reader {
	return &LockedReader{R: rand.NewChaCha8([32]byte(append(seed, make([]byte, 32-len(seed))...)))}
}

// entropyFor returns another source if the store is not empty, so that two programs over it give different ids.
func entropyFor(t testing.TB, raw store.Store) io.Reader {
	r, err := raw.Read(t.Context(), ident.DefaultTenant, store.Query{Ranges: []store.Range{{KeysOnly: true}}})
	if err != nil {
		t.Fatal(err)
	}
	n := len(r.Ranges[0])
	return entropy(1, byte(n), byte(n>>8))
}

type LockedReader struct {
	mu sync.Mutex
	R  io.Reader
}

func (l *LockedReader) Read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.R.Read(b)
}

// Post commits one turn of JSON messages.
func (k *Kit) Post(sessionID string, messages ...string) session.TurnResponse {
	k.Helper()
	r, err := k.TryPost(session.TurnRequest{SessionID: sessionID}, messages...)
	if err != nil {
		k.Fatalf("posting a turn: %v", err)
	}
	return r
}

func (k *Kit) TryPost(req session.TurnRequest, messages ...string) (session.TurnResponse, error) {
	for _, m := range messages {
		req.Messages = append(req.Messages, json.RawMessage(m))
	}
	return k.Sessions.AppendTurn(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, req)
}

// Usage is a window's usage, by name. What its parts take is there as parts.NAME.
type Usage map[string]int

// UnmarshalJSON reads numbers, and numbers in objects.
func (u *Usage) UnmarshalJSON(b []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	*u = Usage{}
	for name, value := range members {
		var n int
		if json.Unmarshal(value, &n) == nil {
			(*u)[name] = n
			continue
		}
		var inner map[string]float64
		if err := json.Unmarshal(value, &inner); err != nil {
			return err
		}
		for part, n := range inner {
			(*u)[name+"."+part] = int(n)
		}
	}
	return nil
}

// Window is a context response, decoded.
type Window struct {
	DecisionID string            `json:"decision_id"`
	Messages   []json.RawMessage `json:"messages"`
	System     string            `json:"system"`
	Text       string            `json:"text"`
	Usage      Usage             `json:"usage"`
	Cut        bool              `json:"cut"`
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

		TokensToKeep *int `json:"tokens_to_keep"`

		Atom        *int `json:"atom"`
		WindowIndex *int `json:"window_index"`
		Step        *int `json:"step"`
	} `json:"report"`
	Raw []byte `json:"-"`
}

// Ask makes a window from a JSON request.
func (k *Kit) Ask(request string, args ...any) Window {
	k.Helper()
	w, err := k.TryAsk(fmt.Sprintf(request, args...))
	if err != nil {
		k.Fatalf("asking for a window: %v", err)
	}
	return w
}

func (k *Kit) TryAsk(request string) (w Window, err error) {
	var req window.Request
	if err := json.Unmarshal([]byte(request), &req); err != nil {
		return w, err
	}
	if w.Raw, err = k.Assemble(ident.DefaultProject, &req, []byte(request), nil); err != nil {
		return w, err
	}
	return w, json.Unmarshal(w.Raw, &w)
}

// Assemble makes a window and returns the JSON of the answer.
func (k *Kit) Assemble(project string, req *window.Request, raw, buffer []byte) ([]byte, error) {
	answer, err := k.Windows.Assemble(k.Context(), k.Admin, project, req, raw, buffer)
	if err != nil {
		return nil, err
	}
	return answer.JSON()
}

// Replay computes a decision again and fails unless it is equal.
func (k *Kit) Replay(id string) {
	k.Helper()
	b, err := k.Windows.Replay(k.Context(), k.Admin, ident.DefaultProject, id, nil)
	if err != nil {
		k.Fatalf("replaying: %v", err)
	}
	var got struct{ Equal bool }
	if err := json.Unmarshal(b, &got); err != nil || !got.Equal {
		k.Fatalf("replay differs: %v %s", err, b)
	}
}

// Drain does all background work there is.
func (k *Kit) Drain() {
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

func User(text string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, text) }

func Assistant(text string) string { return fmt.Sprintf(`{"role":"assistant","content":%q}`, text) }

func Call(id, name string) string {
	return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":"{}"}}]}`, id, name)
}

func Result(id, text string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, text)
}
