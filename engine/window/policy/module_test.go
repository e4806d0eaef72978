package policy_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// A module longer than one record holds comes back whole after a restart, also to a host that knows nothing of it.
func TestLargeModuleSurvivesRestart(t *testing.T) {
	raw := memstore.New()
	k := enginetest.Open(t, raw)
	var big wasmtest.Module
	big.Custom("padding", []byte(strings.Repeat("x", 1_200_000)))
	code := append(wasmtest.Policy(wasmtest.Manifest("large"), wasmtest.DropFirst()), big.Bytes()[8:]...)
	k.Upload("big", code)
	if all := dump(k, k.Admin.Tenant); all['w'] != 1 || all[0xff] != 2 {
		t.Errorf("%d modules with %d rests", all['w'], all[0xff])
	}
	k.Post("s", enginetest.User("a"))
	k.Post("s", enginetest.User("b"))
	k.SetPipeline(`[{"policy":"big"}]`)
	var forgetful *forgetfulHost
	again := enginetest.Open(t, raw, func(o *engine.Options) {
		forgetful = &forgetfulHost{Host: o.Host, known: map[plan.Digest]bool{}, loads: map[string]int{}}
		o.Host = forgetful
	})
	for range 2 {
		if w := again.Ask(`{"session_id":"s"}`); len(w.Messages) != 1 || w.Pipeline[0].Outcome != "ok" {
			t.Fatalf("%s", w.Raw)
		}
		forgetful.forget()
	}
	if forgetful.loads["default"] == 0 || forgetful.loads[""] == 0 {
		t.Errorf("%v: a module is loaded at its tenant's cost", forgetful.loads)
	}
	// What cannot be loaded is unavailable: the window is made without it, recorded so, and replays equal.
	forgetful.forget()
	forgetful.fail = true
	w := again.Ask(`{"session_id":"s","pipeline":[{"policy":"big"}]}`)
	if len(w.Messages) != 2 || w.Pipeline[0].Outcome != "unavailable" || w.Pipeline[0].Detail == "" {
		t.Fatalf("%s", w.Raw)
	}
	forgetful.fail = false
	again.Replay(w.DecisionID)
	if again.Live("big") != 1 {
		t.Error("being unavailable is no failure of the policy's")
	}
}

// forgetfulHost is a host whose compiled code has to make room.
type forgetfulHost struct {
	policy.Host
	mu    sync.Mutex
	known map[plan.Digest]bool
	loads map[string]int
	fail  bool
}

func (h *forgetfulHost) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.known)
}

func (h *forgetfulHost) Loaded(_ string, d plan.Digest) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[d]
}

func (h *forgetfulHost) Load(ctx context.Context, tenant string, code []byte) (plan.Policy, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail {
		return plan.Policy{}, fmt.Errorf("no room")
	}
	p, err := h.Host.Load(ctx, tenant, code)
	if err == nil {
		h.known[p.Digest] = true
		h.loads[tenant]++
	}
	return p, err
}

func (h *forgetfulHost) Run(ctx context.Context, c plan.Call) plan.Outcome {
	if !h.Loaded(c.Tenant, c.Module) {
		return plan.Outcome{Status: plan.StatusUnavailable, Detail: "not loaded"}
	}
	return h.Host.Run(ctx, c)
}
