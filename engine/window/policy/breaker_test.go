package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/hostapi"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler/compilertest"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
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
	third, err := k.Policies.GetVersion(t.Context(), k.Admin, "p", 3)
	if err != nil || third.State != "live" || third.Failures != 4 {
		t.Fatalf("%+v %v", third, err)
	}
	_, err = k.Trials.Run(t.Context(), k.Admin, "p", 3, &lab.RunRequest{
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
		v.SetBack.Failures != 5 || v.SetBack.Detail == "" {
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
		e := enginetest.RefusedWith(t, err, fault.Invalid, "policy_failed")
		if !strings.Contains(e.Detail, "author_error") {
			t.Fatal(e)
		}
	}
	if k.Live("p") != 1 {
		t.Error("not set back")
	}
}

// A live version that runs out of time on every call is set back like one that fails in another way. The clock is real
// here, and no call can end otherwise: the fuel would last for days.
func TestBreakerSeesTimeouts(t *testing.T) {
	limits := hostapi.DefaultLimits()
	limits.Fuel, limits.CallTime = 1<<55, time.Millisecond
	limits.StartTime, limits.CompileTime = time.Hour, time.Minute // which must not end, however busy the machine is
	host, err := hostapi.New(hostapi.Options{Compiler: compilertest.Command(), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close(t.Context())
	k := enginetest.Open(t, memstore.New(), func(o *engine.Options) { o.Host = host })
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("patient"), wasmtest.Keep()))
	forever := slices.Concat(wasmtest.Op(opcode.Loop, wasmtest.Void), wasmtest.Op(opcode.Br, 0),
		wasmtest.Op(opcode.End))
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("slow"), forever, wasmtest.Keep()))
	k.SetLive("p", 2)
	k.Post("s", enginetest.User("a"))
	k.SetPipeline(`[{"policy":"p"}]`)
	for range 5 {
		if w := k.Ask(`{"session_id":"s"}`); w.Pipeline[0].Outcome != "timeout" {
			t.Fatalf("%s", w.Raw)
		}
	}
	p, err := k.Policies.Get(t.Context(), k.Admin, "p")
	if err != nil || p.Live != 1 || p.Versions[1].SetBack == nil || p.Versions[1].SetBack.Outcome != "timeout" {
		t.Errorf("%+v %v", p, err)
	}
}
