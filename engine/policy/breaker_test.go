package policy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// Five failures in a row set a live version back to the one that was live before it; a success in between does not
// count, and a pinned version stays.
func TestBreaker(t *testing.T) {
	k := enginetest.New(t)
	// Fails on two messages, keeps on one.
	failing := wasmtest.Policy(wasmtest.Manifest("breaker"), wasmtest.When(2, wasmtest.Trap()), wasmtest.Keep())
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("breaker"), wasmtest.Keep()))
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("breaker 2"), wasmtest.Keep()))
	k.Upload("p", failing)
	k.Post("one", enginetest.User("a"))
	k.Post("two", enginetest.User("a"), enginetest.User("b"))
	k.SetLive("p", 3)
	k.SetPipeline(`[{"policy":"p"}]`)
	ask := func(n int, session, pipeline string) (w enginetest.Window) {
		for range n {
			w = k.Ask(`{"session_id":%q%s}`, session, pipeline)
		}
		return w
	}
	w := ask(4, "two", "")
	if w.Pipeline[0].Outcome != "trap" || len(w.Messages) != 2 {
		t.Fatalf("a failing step changed something: %s", w.Raw)
	}
	ask(1, "one", "")
	ask(4, "two", "")
	ask(6, "two", `,"pipeline":[{"policy":"p@3"}]`)
	if v, err := k.Policies.GetVersion(t.Context(), k.Admin, "p", 3); err != nil || v.State != "live" || v.Failures != 4 {
		t.Fatalf("%+v %v", v, err)
	}
	_, err := k.Windows.RunPolicy(t.Context(), k.Admin, "p", 3, &window.PolicyRunRequest{
		Messages: []json.RawMessage{json.RawMessage(enginetest.User("a")), json.RawMessage(enginetest.User("b"))}}, nil)
	if err != nil || k.Live("p") != 3 {
		t.Fatalf("live %d, %v: trying a policy is not using it", k.Live("p"), err)
	}
	k.Advance(time.Minute)
	ask(1, "two", "")
	p, err := k.Policies.Get(t.Context(), k.Admin, "p")
	if err != nil || p.Live != 1 {
		t.Fatalf("%+v %v: want the version that was live before, not the one with the number before", p, err)
	}
	v := p.Versions[2]
	if v.State != "set_back" || v.SetBack == nil || v.SetBack.To != 1 || v.SetBack.Outcome != "trap" ||
		v.SetBack.Failures != 5 ||
		v.SetBack.Detail == "" {
		t.Errorf("%+v", v)
	}
	audit, err := k.Tenants.ListAudit(t.Context(), k.Admin, records.Page{Limit: 1})
	if err != nil || audit.Data[0].Action != "policy.set_back" || audit.Data[0].Subject != "p@3" ||
		audit.Data[0].KeyID != "" {
		t.Errorf("%+v %v", audit, err)
	}
	if w = ask(1, "two", ""); w.Pipeline[0].Outcome != "ok" {
		t.Errorf("%s", w.Raw)
	}
	// Where nothing was live before, nothing can be set back, and windows go on.
	k.Upload("only", failing)
	if w = ask(7, "two", `,"pipeline":[{"policy":"only"}]`); w.Pipeline[0].Outcome != "trap" || k.Live("only") != 1 {
		t.Errorf("%s", w.Raw)
	}
	k.SetLive("p", 3)
	if p, err = k.Policies.Get(t.Context(), k.Admin, "p"); err != nil || p.Versions[2].State != "live" ||
		p.Versions[2].SetBack != nil {
		t.Errorf("%+v %v", p, err)
	}
}

// on_error:"error" refuses the request and still counts.
func TestOnErrorCounts(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("on_error"), wasmtest.Keep()))
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("on_error"), wasmtest.I32Const(-7)))
	k.SetLive("p", 2)
	k.Post("s", enginetest.User("a"))
	for range 5 { // what a request makes up counts for nothing
		_, err := k.TryAsk(`{"session_id":"s","pipeline":[{"policy":"p","on_error":"error"}]}`)
		enginetest.RefusedWith(t, err, fault.Invalid, "policy_failed")
	}
	if k.Live("p") != 2 {
		t.Error("set back by requests' own pipelines")
	}
	k.SetPipeline(`[{"policy":"p","on_error":"error"}]`)
	for range 5 {
		_, err := k.TryAsk(`{"session_id":"s"}`)
		if e := enginetest.RefusedWith(t, err, fault.Invalid, "policy_failed"); !strings.Contains(e.Detail, "author_error") {
			t.Fatal(e)
		}
	}
	if k.Live("p") != 1 {
		t.Error("not set back")
	}
}
