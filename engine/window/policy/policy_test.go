package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
	"github.com/seed-0906e6bc/mneme/policies"
)

// A policy that drops by tag changes real windows as its author meant; its reasons stand in the report.
func TestPolicyChangesWindows(t *testing.T) {
	k := enginetest.New(t)
	v := k.Upload("by-tag", enginetest.Tagged(t))
	if v.Version != 1 || v.State != "live" || v.ABI != "1.1" || !slices.Equal(v.Hooks, []string{"assemble"}) ||
		v.Size == 0 {
		t.Fatalf("%+v", v)
	}
	last := v.Checks[len(v.Checks)-1]
	if last.Name != "self_tests" || !last.OK || last.Detail != "2 passed" {
		t.Errorf("%+v", last)
	}
	k.Post("s", enginetest.WithTag("one", "keep"), enginetest.Assistant("untagged answer"))
	k.Post("s", enginetest.User("two"))
	k.Post("s", enginetest.User("three"))
	if w := k.Ask(`{"session_id":"s"}`); len(w.Messages) != 4 {
		t.Fatalf("uploading alone changed a window: %s", w.Raw)
	}
	k.SetPipeline(`[{"policy":"by-tag"},{"policy":"tool-pair-trim"}]`)
	w := k.Ask(`{"session_id":"s","explain":true}`)
	if len(w.Messages) != 2 || string(w.Messages[0]) != enginetest.User("one") ||
		string(w.Messages[1]) != enginetest.User("three") {
		t.Fatalf("%s", w.Raw)
	}
	if r := w.Report[1]; r.Action != "drop" || r.Policy != "by-tag" || r.ReasonCode != "untagged" {
		t.Errorf("%+v", r)
	}
	if r := w.Report[3]; r.Action != "keep" || r.ReasonCode != "mandatory" {
		t.Errorf("%+v", r)
	}
	if s := w.Pipeline[0]; s.Policy != "by-tag" || s.Outcome != "ok" || s.Fuel == 0 {
		t.Errorf("%+v", s)
	}
	k.Replay(w.DecisionID)
	w = k.Ask(`{"session_id":"s","pipeline":[{"policy":"by-tag@1","config":{"tag":"none"}}]}`)
	if len(w.Messages) != 1 {
		t.Errorf("%s", w.Raw)
	}
	_, err := k.TryAsk(`{"session_id":"s","pipeline":[{"policy":"by-tag","config":{"tag":3}}]}`)
	enginetest.RefusedWith(t, err, fault.Invalid, "invalid_config")
	_, err = k.TryAsk(`{"session_id":"s","pipeline":[{"policy":"by-tag@2"}]}`)
	enginetest.RefusedWith(t, err, fault.Invalid, "unknown_policy")
}

// What must stay stays, whatever a policy says.
func TestLawOverrulesPolicy(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("first", wasmtest.Policy(wasmtest.Manifest("law"), wasmtest.DropFirst()))
	k.Post("s", enginetest.User("only"))
	w := k.Ask(`{"session_id":"s","pipeline":[{"policy":"first"}],"explain":true}`)
	if len(w.Messages) != 1 || w.Pipeline[0].Outcome != "ok" || w.Pipeline[1].Outcome != "fallback" ||
		!strings.Contains(w.Pipeline[1].Detail, "mandatory") {
		t.Fatalf("%s", w.Raw)
	}
	k.Post("s", enginetest.User("second"))
	if w = k.Ask(`{"session_id":"s","pipeline":[{"policy":"first"}]}`); len(w.Messages) != 1 || len(w.Pipeline) != 1 {
		t.Fatalf("%s", w.Raw)
	}
	k.Replay(w.DecisionID)
}

// Versions count up, the same bytes are one version, and the live one takes effect on the next assembly, in every
// process over the store.
func TestVersionsAndLive(t *testing.T) {
	raw := memstore.New()
	k, other := enginetest.Open(t, raw), enginetest.Open(t, raw)
	k.Post("s", enginetest.User("a"))
	k.Post("s", enginetest.User("b"))
	keep, drop := wasmtest.Policy(wasmtest.Manifest("live"), wasmtest.Keep()),
		wasmtest.Policy(wasmtest.Manifest("live"), wasmtest.DropFirst())
	if v := k.Upload("p", keep); v.Version != 1 {
		t.Fatalf("%+v", v)
	}
	k.SetPipeline(`[{"policy":"p"}]`)
	windows := func(want int) {
		t.Helper()
		for _, k := range []*enginetest.Kit{k, other} {
			if w := k.Ask(`{"session_id":"s"}`); len(w.Messages) != want {
				t.Fatalf("want %d messages: %s", want, w.Raw)
			}
		}
	}
	windows(2)
	if v := k.Upload("p", drop); v.Version != 2 || v.State != "ready" {
		t.Fatalf("%+v", v)
	}
	v, created, err := other.Policies.Upload(t.Context(), k.Admin, ident.Once{}, "p", keep)
	if err != nil || created || v.Version != 1 || len(v.Checks) == 0 {
		t.Fatalf("%+v %v %v", v, created, err)
	}
	windows(2)
	k.SetLive("p", 2)
	windows(1)
	pinned := k.Ask(`{"session_id":"s","pipeline":[{"policy":"p@1"}]}`)
	if len(pinned.Messages) != 2 {
		t.Fatalf("%s", pinned.Raw)
	}
	other.SetLive("p", 1)
	windows(2)
	_, err = k.Policies.SetLive(t.Context(), k.Admin, "p", policy.LiveSpec{Version: 3})
	enginetest.RefusedWith(t, err, fault.NotFound, "not_found")
	_, err = k.Policies.SetLive(t.Context(), k.Admin, "tool-pair-trim", policy.LiveSpec{Version: 1})
	enginetest.RefusedWith(t, err, fault.Conflict, "built_in_policy")
}

// A refused module leaves nothing behind: no policy, no version, no use of the quota.
func TestRefusalsLeaveNothing(t *testing.T) {
	k := enginetest.New(t)
	upload := func(name string, code []byte) error {
		_, _, err := k.Policies.Upload(t.Context(), k.Admin, ident.Once{}, name, code)
		return err
	}
	failing := func(tests string) []byte {
		return wasmtest.Policy(`{"abi":"1.0","hooks":["assemble"],"tests":`+tests+`}`, wasmtest.DropFirst())
	}
	two := `"messages":[` + enginetest.User("a") + `,` + enginetest.User("b") + `]`
	for _, test := range []struct {
		name, check, words string
		code               []byte
	}{
		{"no module", "", "", []byte("no module")},
		{"no manifest", "manifest", "", wasmtest.Header()},
		{"another fate", "self_tests", `test 1 "t": message 0: drop:drop, not keep`,
			failing(`[{"name":"t",` + two + `,"expect":["keep","keep"]}]`)},
		{"second test", "self_tests", `test 2 "": message 1: keep:mandatory, not drop`,
			failing(`[{` + two + `,"expect":["drop","keep"]},{` + two + `,"expect":["drop","drop"]}]`)},
		{"too few expectations", "self_tests", "expect has 1 entries for 2 messages",
			failing(`[{` + two + `,"expect":["drop"]}]`)},
		{"unlawful", "self_tests", "mandatory",
			failing(`[{"messages":[` + enginetest.User("a") + `],"expect":["drop"]}]`)},
		{"no such insert", "self_tests", "inserted [], not [\"x\"]",
			failing(`[{` + two + `,"expect":["drop","keep"],"inserted":["x"]}]`)},
		{"another outcome", "self_tests", "the outcome is ok (), not trap",
			failing(`[{` + two + `,"outcome":"trap"}]`)},
		{"unknown field", "self_tests", "unknown field", failing(`[{` + two + `,"expects":[]}]`)},
		{"a bad message", "self_tests", "unknown_role",
			failing(`[{"messages":[{"role":"nobody"}],"expect":["keep"]}]`)},
		{"too many", "self_tests", "too many", failing(`[` + strings.Repeat(`{},`, 32) + `{}]`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := enginetest.RefusedWith(t, upload("p", test.code), fault.Invalid, "module_refused")
			if e.Refusal == nil || e.Refusal.Check == "" || test.check != "" && e.Refusal.Check != test.check ||
				!strings.Contains(e.Detail, test.words) {
				t.Errorf("%+v: %v", e.Refusal, e)
			}
		})
	}
	enginetest.RefusedWith(t, upload("tool-pair-trim", enginetest.Tagged(t)), fault.Conflict, "built_in_policy")
	for _, name := range []string{"", "a@1", "a\nb", strings.Repeat("x", 129)} {
		enginetest.RefusedWith(t, upload(name, enginetest.Tagged(t)), fault.Invalid, "invalid_id")
	}
	_, err := k.Policies.Get(t.Context(), k.Admin, "p")
	enginetest.RefusedWith(t, err, fault.NotFound, "not_found")
	if audit, err := k.Tenants.ListAudit(t.Context(), k.Admin, records.Page{}); err != nil || len(audit.Data) != 0 {
		t.Errorf("%+v %v", audit, err)
	}
	if v := k.Upload("p", failing(`[{`+two+`,"expect":["drop","keep"],"inserted":[]}]`)); v.Version != 1 {
		t.Errorf("%+v", v)
	}
	if v := k.Upload("q",
		wasmtest.Policy(`{"abi":"1.0","hooks":["assemble"],"tests":[{`+two+
			`,"outcome":"trap","expect":["keep","keep"]}]}`,
			wasmtest.Trap())); v.Version != 1 {
		t.Errorf("%+v", v)
	}
}

// The built-in policies pass the tests in their own manifests, through the same door. Those that have no windows have
// none: package policies tests them.
func TestBuiltInsPassTheirSelfTests(t *testing.T) {
	k := enginetest.New(t)
	for _, m := range policies.BuiltIn() {
		v := k.Upload("my-"+m.Name, m.Wasm)
		if last := v.Checks[len(v.Checks)-1]; last.Name != "self_tests" ||
			last.Detail == "0 passed" && !slices.Contains([]string{"guard-trust", "refuse-noise", "dedupe"}, m.Name) {
			t.Errorf("%s: %+v", m.Name, last)
		}
	}
}

// Settings that were stored before there was one of them have its default.
func TestEffectiveOfEarlierBuilds(t *testing.T) {
	var e policy.Effective
	const stored = `{"settings":{"session_history_depth":7,"pipeline":null,"upstreams":[]},"steps":[{"policy":"tool-pair-trim","version":1,` +
		`"digest":"x","config":{"depth":7,"ledger_tokens":0}}],"fallback":[]}`
	if err := json.Unmarshal([]byte(stored), &e); err != nil {
		t.Fatal(err)
	}
	if s := e.Settings; s.SessionHistoryDepth != 7 || s.HistoryLedgerTokens != -1 || s.HistoryLowWater != -1 || s.Reasoning != "none" ||
		s.ToolResults != "messages" || s.Pipeline != nil {
		t.Errorf("%+v", s)
	}
	if entries := e.Entries(); string(entries[0].Config) != `{"ledger_tokens":0}` {
		t.Errorf("%s", entries[0].Config)
	}
	if _, err := e.Settings.With([]byte(`{"history_ledger_tokens":9}`)); err != nil {
		t.Error(err)
	}
}
