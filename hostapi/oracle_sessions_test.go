package hostapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/tiktoken"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/hostapi"
	"github.com/seed-0906e6bc/mneme/policies"
	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// listener forwards calls and shows each to a test while its request is still valid.
type listener struct {
	*hostapi.Host
	heard func(plan.Call, plan.Outcome)
}

func (l *listener) Run(ctx context.Context, call plan.Call) plan.Outcome {
	out := l.Host.Run(ctx, call)
	l.heard(call, out)
	return out
}

// windows is an engine whose every policy call is compared with the oracle.
type windows struct {
	*engine.Engine
	oracle   *oracle
	listener *listener
	calls    map[string]int // by policy: those that returned ops
}

var operator = ident.Caller{Tenant: ident.DefaultTenant, Role: ident.RoleTenantAdmin, KeyID: "test"}

func newWindows(t *testing.T) *windows {
	t.Helper()
	counter, err := tiktoken.New()
	if err != nil {
		t.Fatal(err)
	}
	o := newOracle(t)
	w := &windows{oracle: o, listener: &listener{Host: o.sandboxes[0].host}, calls: map[string]int{}}
	var builtIns []policy.BuiltIn
	for _, m := range policies.BuiltIn() {
		builtIns = append(builtIns, policy.BuiltIn(m))
	}
	w.Engine, _, err = engine.New(t.Context(), engine.Options{
		Store: store.Seal(memstore.New()), Host: w.listener, Tokens: counter, BuiltIns: builtIns,
		Now:    func() time.Time { return time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC) },
		Random: rand.NewChaCha8([32]byte{1}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// listen checks the calls made from now on for this test.
func (w *windows) listen(t *testing.T) {
	w.listener.heard = func(call plan.Call, got plan.Outcome) {
		t.Helper()
		want := w.oracle.check(t, call)
		if got.Fuel != want.Fuel {
			t.Fatalf("the engine was told %d fuel, the oracle %d", got.Fuel, want.Fuel)
		}
		if len(want.Ops) > 0 {
			for name, digest := range w.oracle.digest {
				if digest == call.Module {
					w.calls[name]++
				}
			}
		}
	}
}

// post commits a generated turn.
func (w *windows) post(t *testing.T, sessionID string, turn hard.Turn) {
	t.Helper()
	req := session.TurnRequest{SessionID: sessionID, Agent: turn.Agent, Format: string(turn.Format),
		Messages: turn.Input}
	if turn.Delegation != "" {
		req.DelegationID = &turn.Delegation
	}
	if _, err := w.Sessions.AppendTurn(t.Context(), operator, ident.Once{}, ident.DefaultProject, req); err != nil {
		t.Fatal(err)
	}
}

// ask makes a window with random budgets, viewer and pipeline. Budgets that are too small may be refused.
func (w *windows) ask(t *testing.T, rng *rand.Rand, session string, viewers []string) {
	t.Helper()
	pick := func(values ...int) *int { return &values[rng.IntN(len(values))] }
	req := window.Request{SessionID: session, Pipeline: drawPipeline(rng),
		Viewer: ident.Viewer{Agent: "main", DelegationID: &viewers[rng.IntN(len(viewers))]},
		Budget: window.Budget{MaxMessages: pick(0, 0, 1, 2, 3, 5, 8, 13, 21, 34, 200, 5000),
			MaxTokens: pick(0, 0, 60, 200, 500, 1000, 3000, 20_000, 1<<30)},
		Format:      []string{"openai.chat", "anthropic.messages", "openai.responses", "text"}[rng.IntN(4)],
		ToolResults: []string{"messages", "markdown"}[rng.IntN(2)],
	}
	if rng.IntN(3) == 0 { // which all formats read alike
		req.Pending = []json.RawMessage{json.RawMessage(`{"role":"user","content":"and now?"}`)}
	}
	if rng.IntN(3) == 0 {
		req.System, req.Budget.ContextWindow = json.RawMessage(`"You are terse."`), pick(100, 700, 5000)
	}
	raw, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Windows.Assemble(t.Context(), operator, ident.DefaultProject, &req, raw, nil)
	if refused := (*fault.Error)(nil); errors.As(err, &refused) && refused.Code == "budget_too_small" {
		return
	}
	if err != nil {
		t.Fatalf("%v\nasked: %s", err, raw)
	}
}

// drawPipeline returns the built-in policies in random order with random configs.
func drawPipeline(rng *rand.Rand) []project.PipelineStep {
	trim := fmt.Sprintf(`{"marker":%t,"low_water":%g}`, rng.IntN(3) > 0, 0.1+0.9*rng.Float64())
	if rng.IntN(2) == 0 {
		trim = fmt.Sprintf(`{"marker":%t}`, rng.IntN(3) > 0)
	}
	steps := []project.PipelineStep{
		{Policy: "delegation-filter"},
		{Policy: "tool-result-clear", Config: json.RawMessage(fmt.Sprintf(`{"max_result_tokens":%d,"trigger":%d,"keep":%d}`,
			rng.IntN(200), rng.IntN(4000), rng.IntN(5)))},
		{Policy: "summarise", Config: json.RawMessage(fmt.Sprintf(`{"enabled":%t,"threshold":%d,"keep_last":%d}`,
			rng.IntN(4) > 0, 1+rng.IntN(60), 1+rng.IntN(20)))},
		{Policy: "depth-compress", Config: json.RawMessage(fmt.Sprintf(`{"depth":%d}`, 1+rng.IntN(1+rng.IntN(100))))},
		{Policy: "tool-pair-trim", Config: json.RawMessage(trim)},
	}
	if rng.IntN(3) == 0 {
		rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	}
	return steps
}

// For windows of generated sessions, modules and sources return the same plans.
func TestWindowsAskModulesAndSourceAlike(t *testing.T) {
	w := newWindows(t)
	for i, format := range hard.Formats() {
		for seed := range uint64(3) {
			knobs := hard.Knobs{Seed: seed, Format: format, Messages: 80 + 90*int(seed), Longest: 1500,
				Delegations: seed%2 == 0}
			t.Run(fmt.Sprintf("%s/%d", format, seed), func(t *testing.T) { w.walk(t, knobs, uint64(i)) })
		}
	}
	// Enough turns for the large arenas and for more messages than one table may hold.
	t.Run("long", func(t *testing.T) {
		knobs := hard.Knobs{Seed: 9, Messages: 4500, Delegations: true, Longest: 200}
		if testing.Short() {
			knobs.Messages = 1200
		}
		w.walk(t, knobs, 9)
	})
	for _, name := range w.oracle.names {
		if w.calls[name] < 50 && name != "redact-secrets" { // the talks have no secrets
			t.Errorf("%s was answered with ops %d times only", name, w.calls[name])
		}
	}
}

// walk posts a session turn by turn and requests windows in between.
func (w *windows) walk(t *testing.T, knobs hard.Knobs, salt uint64) {
	w.listen(t)
	transcript := hard.Generate(knobs)
	rng := rand.New(rand.NewPCG(knobs.Seed, salt))
	session := fmt.Sprintf("%d-%d", salt, knobs.Seed)
	viewers := append(transcript.Delegations(), "", "no_such")
	step := 1 + len(transcript.Turns)/12
	for i, turn := range transcript.Turns {
		w.post(t, session, turn)
		if i%step != 0 && i != len(transcript.Turns)-1 {
			continue
		}
		for range 6 {
			w.ask(t, rng, session, viewers)
		}
	}
}
