package hostapi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler/compilertest"
	"github.com/seed-0906e6bc/mneme/policies"
	delegationfilter "github.com/seed-0906e6bc/mneme/policies/delegation-filter"
	depthcompress "github.com/seed-0906e6bc/mneme/policies/depth-compress"
	"github.com/seed-0906e6bc/mneme/policies/policytest"
	redactsecrets "github.com/seed-0906e6bc/mneme/policies/redact-secrets"
	"github.com/seed-0906e6bc/mneme/policies/summarise"
	toolpairtrim "github.com/seed-0906e6bc/mneme/policies/tool-pair-trim"
	toolresultclear "github.com/seed-0906e6bc/mneme/policies/tool-result-clear"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// oracle runs each built-in policy in two ways: its source compiled into this test, and its shipped module in every
// kind of sandbox. All must return the same plan, and the sandboxes use the same fuel.
type oracle struct {
	names     []string
	native    map[plan.Digest]mneme.Policy
	digest    map[string]plan.Digest
	sandboxes []sandbox
}

// sandbox is one way to run a module.
type sandbox struct {
	name   string
	host   *hostapi.Host
	tenant string
}

func newOracle(t testing.TB) *oracle {
	t.Helper()
	sources := map[string]mneme.Policy{
		"delegation-filter": delegationfilter.Assemble,
		"summarise":         summarise.Assemble,
		"depth-compress":    depthcompress.Assemble,
		"tool-pair-trim":    toolpairtrim.Assemble,
		"tool-result-clear": toolresultclear.Assemble,
		"redact-secrets":    redactsecrets.Assemble,
	}
	open := func(options hostapi.Options) *hostapi.Host {
		h, err := hostapi.New(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := h.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return h
	}
	never := hostapi.DefaultLimits()
	never.IdleBytes = 1
	child := compilertest.Command()
	compiled, fresh := open(hostapi.Options{Compiler: child, NewTimer: hostapi.StoppedTimer}),
		open(hostapi.Options{Compiler: child, NewTimer: hostapi.StoppedTimer, Limits: never})
	interpreted := open(hostapi.Options{Interpreter: true, NewTimer: hostapi.StoppedTimer})
	o := &oracle{native: map[plan.Digest]mneme.Policy{}, digest: map[string]plan.Digest{}, sandboxes: []sandbox{
		{"compiled", compiled, "one"},
		{"restored", compiled, "one"},
		{"another tenant's", compiled, "two"},
		{"never used", fresh, "one"},
		{"interpreted", interpreted, "one"},
	}}
	for _, m := range policies.BuiltIn() {
		source := sources[m.Name]
		if source == nil && slices.Contains([]string{"guard-trust", "refuse-noise", "dedupe"}, m.Name) {
			continue // They have no windows.
		}
		if source == nil {
			t.Fatalf("no source is known for the built-in policy %s", m.Name)
		}
		for _, h := range []*hostapi.Host{compiled, fresh, interpreted} {
			p, err := h.Load(context.Background(), "", m.Wasm)
			if err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
			o.native[p.Digest], o.digest[m.Name] = source, p.Digest
		}
		o.names = append(o.names, m.Name)
	}
	return o
}

// check makes one call in every way and returns what the sandboxes agreed on.
func (o *oracle) check(t testing.TB, call plan.Call) plan.Outcome {
	t.Helper()
	want := o.expect(t, call)
	for i, s := range o.sandboxes {
		call.Tenant = s.tenant
		got := s.host.Run(context.Background(), call)
		if i == 0 {
			want.Fuel = got.Fuel // a native build has none
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %s", s.name, difference(got, want))
		}
	}
	if want.Fuel == 0 {
		t.Fatal("the call cost no fuel")
	}
	return want
}

// expect returns what the policy's source returns.
func (o *oracle) expect(t testing.TB, call plan.Call) plan.Outcome {
	t.Helper()
	table := tableOf(t, call)
	result, err := mnemetest.Run(o.native[call.Module], table)
	out := plan.Outcome{Status: plan.StatusOK}
	for _, line := range result.Log {
		out.Log = append(out.Log, plan.LogLine{Level: uint8(line.Level), Message: line.Line})
	}
	own := mneme.Error("")
	if err != nil {
		if !errors.As(err, &own) {
			t.Fatal(err) // a plan that no host accepts
		}
		out.Status, out.Detail = plan.StatusAuthorError, string(own)
		return out
	}
	for _, op := range result.Ops {
		out.Ops = append(out.Ops, plan.Op{Code: plan.OpCode(op.Code), Template: op.Template, First: uint32(op.First),
			Last: uint32(op.Last), Argument: op.Argument, Text: op.Text, Reason: op.Reason})
	}
	return out
}

// difference says where two outcomes differ.
func difference(got, want plan.Outcome) string {
	for i := range min(len(got.Ops), len(want.Ops)) {
		if got.Ops[i] != want.Ops[i] {
			return fmt.Sprintf("op %d is %+v, want %+v", i, got.Ops[i], want.Ops[i])
		}
	}
	if len(got.Ops) != len(want.Ops) {
		return fmt.Sprintf("%d ops, want %d", len(got.Ops), len(want.Ops))
	}
	got.Ops, want.Ops = nil, nil
	return fmt.Sprintf("%+v, want %+v", got, want)
}

// randomCall calls one policy with a random table and a random config, which may lack keys.
func (o *oracle) randomCall(rng *rand.Rand, turns int) plan.Call {
	table := policytest.Random(rng, turns)
	name := o.names[rng.IntN(len(o.names))]
	switch {
	case name == "summarise":
		table.Config["enabled"] = rng.IntN(8) > 0
		if rng.IntN(4) > 0 {
			table.Config["threshold"], table.Config["keep_last"] = 1+rng.IntN(2+turns), 1+rng.IntN(20)
		}
	case name == "depth-compress" && rng.IntN(4) > 0:
		table.Config["depth"], table.Config["depth_step"] = 1+rng.IntN(30), 1+rng.IntN(30)
		table.Config["low_water"] = 0.1 + 0.9*rng.Float64()
	case name == "tool-pair-trim" && rng.IntN(2) > 0:
		table.Config["low_water"] = 0.1 + 0.9*rng.Float64()
	}
	if name == "tool-result-clear" {
		clearConfig(rng, table.Config)
	}
	table.ViewerAgent, table.Now, table.Seed = "näme", rng.Int64(), rng.Uint64()
	for i := range table.Records {
		r := &table.Records[i]
		r.Created, r.Agent, r.Text = rng.Int64(), []string{"", "main", "näme"}[rng.IntN(3)], "some words"[:rng.IntN(11)]
		r.Tags = []string{"a", "b", "läbel"}[:rng.IntN(4)]
	}
	return callOf(o.digest[name], table)
}

// clearConfig returns a random config for tool-result-clear.
func clearConfig(rng *rand.Rand, config map[string]any) {
	for key, most := range map[string]int{"max_result_tokens": 300, "trigger": 1000, "keep": 5, "clear_at_least": 300} {
		if rng.IntN(4) > 0 {
			config[key] = rng.IntN(1 + rng.IntN(most))
		}
	}
	if rng.IntN(3) == 0 {
		config["exclude_tools"] = []string{"get", "other, get", "ge,t"}[rng.IntN(3)]
	}
}

// For any table, the shipped modules return what their sources return.
func TestModulesAnswerAsTheirSource(t *testing.T) {
	o := newOracle(t)
	tables := 3000
	if testing.Short() {
		tables = 300
	}
	ops := 0
	for seed := range uint64(tables) {
		turns := []int{3, 12, 60}[seed%3]
		call := o.randomCall(rand.New(rand.NewPCG(seed, 2)), turns)
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { ops += len(o.check(t, call).Ops) }) {
			return
		}
	}
	if ops < tables {
		t.Errorf("%d tables were answered with %d ops: they hardly ask anything", tables, ops)
	}
}

// The same if the request is too large for the small arenas, and with as many ops as there are records.
func TestModulesAnswerAsTheirSourceAtEverySize(t *testing.T) {
	o := newOracle(t)
	for _, records := range []int{0, 1, 500, 1015, 1016, 1017, 1018, 1019, 1020, 1021, 1022, 1023, 1024, 2000, 4096} {
		for _, name := range o.names {
			t.Run(fmt.Sprintf("%s/%d", name, records), func(t *testing.T) {
				var s policytest.Talk
				for n := range uint32(records) {
					s.Records = append(s.Records, mnemetest.Record{
						Turn: n + 1, Seq: uint64(n) + 1, Atom: n + 1, Tokens: 10, Role: mneme.Role(1 + n%2),
						Delegation: 1 + n%2})
					if n%2 == 1 && name != "depth-compress" {
						s.Records[n].Flags = mneme.Mandatory // separates the ranges: an op for every second record
					}
				}
				s.ViewerDelegation = 2
				s.BudgetMessages = uint32(records/2 + 1)
				s.Config = map[string]any{}
				wanted := records/2 - 1
				switch name {
				case "depth-compress":
					s.Config["depth"] = 1
				case "tool-result-clear":
					s.Config["max_result_tokens"] = 5
					for i := range s.Records {
						r := &s.Records[i]
						if i%2 == 1 {
							r.Role, r.Atom = mneme.Tool, r.Atom-1
						}
					}
				case "summarise":
					s.Config["enabled"], s.Config["threshold"], s.Config["keep_last"] = true, 1, 1
					s.SummaryCovers = uint64(records+2) / 3
					wanted = min(records, 1)
					for i := range s.Records {
						s.Records[i].Delegation = 0
					}
				}
				out := o.check(t, callOf(o.digest[name], &s.Table))
				if out.Status != plan.StatusOK {
					t.Errorf("%s: %s", out.Status, out.Detail)
				}
				if len(out.Ops) < wanted && name != "redact-secrets" { // these records have no secrets
					t.Errorf("%d records are answered with %d ops", records, len(out.Ops))
				}
			})
		}
	}
}

// FuzzModulesAnswerAsTheirSource uses tables, budgets and configs that no client can request.
func FuzzModulesAnswerAsTheirSource(f *testing.F) {
	f.Add(uint64(1), uint16(30), uint32(50), uint32(0), int64(20), 1.0, uint32(0), int64(20))
	f.Add(uint64(2), uint16(30), uint32(3), uint32(900), int64(-1), 0.5, uint32(7), int64(-1))
	f.Add(uint64(3), uint16(300), uint32(0), uint32(1), int64(1)<<62, -1e308, uint32(1)<<31, int64(1)<<62)
	f.Add(uint64(4), uint16(5), uint32(0xffffffff), uint32(0xffffffff), int64(-1)<<63, 1e-300, uint32(0xffffffff),
		int64(-1)<<63)
	o := newOracle(f)
	f.Fuzz(func(
		t *testing.T, seed uint64, turns uint16, messages, tokens uint32, depth int64, share float64, newest uint32,
		keep int64,
	) {
		call := o.randomCall(rand.New(rand.NewPCG(seed, 3)), int(turns)%400)
		call.Request.Config = []plan.ConfigEntry{{Key: "depth", Value: depth}, {Key: "depth_step", Value: keep},
			{Key: "enabled", Value: true},
			{Key: "keep_last", Value: keep}, {Key: "low_water", Value: share}, {Key: "threshold", Value: depth}}
		call.Request.BudgetMessages, call.Request.BudgetTokens = messages, tokens
		if newest != 0 {
			call.Request.NewestTurn = newest
		}
		for i := range call.Request.Records {
			r := &call.Request.Records[i]
			if seed%3 == 0 {
				r.Tokens *= tokens | 1
			}
		}
		o.check(t, call)
	})
}
