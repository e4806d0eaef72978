package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// withoutLate configures a program from before the later built-ins.
func withoutLate(o *engine.Options) {
	o.BuiltIns = slices.DeleteFunc(slices.Clone(o.BuiltIns), func(b policy.BuiltIn) bool { return b.Late })
}

// A tenant that has a policy with the name of a later built-in keeps it: by its name in pipelines, in uploads, in
// listings and through export and import. The default pipeline and other tenants still use the built-in, and if the
// tenant deletes its policy, the name means the built-in again.
func TestLateBuiltInsGiveWay(t *testing.T) {
	const name = "tool-result-clear"
	raw := memstore.New()
	before := enginetest.Open(t, raw, withoutLate)
	asTenant(before, "early")
	before.Upload(name, wasmtest.Policy(wasmtest.Manifest("own"), wasmtest.DropFirst()))
	before.SetPipeline(`[{"policy":"` + name + `"},{"policy":"tool-pair-trim"}]`)
	before.Post("s", enginetest.User("first"))
	before.Post("s", enginetest.User("second"))
	old := before.Ask(`{"session_id":"s"}`)

	k := enginetest.Open(t, raw)
	k.Admin = before.Admin
	own := k.Ask(`{"session_id":"s","explain":true}`)
	if len(own.Messages) != 1 || own.Report[0].Policy != name || len(old.Messages) != 1 {
		t.Errorf("before %s\nnow %s", old.Messages, own.Raw)
	}
	k.Replay(old.DecisionID)
	k.Replay(own.DecisionID)
	if w := k.Ask(`{"session_id":"s","pipeline":[{"policy":"%s@1"}]}`, name); len(w.Messages) != 1 {
		t.Errorf("a pinned version of one's own: %s", w.Messages)
	}
	k.Upload(name, wasmtest.Policy(wasmtest.Manifest("own 2"), wasmtest.Keep()))
	k.SetLive(name, 2)
	if w := k.Ask(`{"session_id":"s"}`); len(w.Messages) != 2 {
		t.Errorf("the second version: %s", w.Messages)
	}
	k.SetLive(name, 1)
	listed, err := k.Policies.List(t.Context(), k.Admin, records.Page{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if n := named(listed.Data, name); len(n) != 1 || n[0].BuiltIn || len(n[0].Versions) != 2 {
		t.Errorf("%+v", n)
	}
	if v, err := k.Policies.GetVersion(t.Context(), k.Admin, name, 2); err != nil || len(v.Config) > 0 {
		t.Errorf("%+v %v", v, err)
	}

	file := export(k)
	asTenant(k, "moved")
	imported(k, file)
	if w := k.Ask(`{"session_id":"s"}`); len(w.Messages) != 1 {
		t.Errorf("in another tenant: %s", w.Messages)
	}

	// The default pipeline uses the built-in, so the policy can be deleted although the pipeline names it.
	k.SetPipeline(`null`)
	w := k.Ask(`{"session_id":"s"}`)
	if len(w.Messages) != 2 || w.Pipeline[1].Policy != name || w.Pipeline[1].Outcome != "ok" {
		t.Errorf("the default pipeline: %s", w.Raw)
	}
	if err := k.Policies.Delete(t.Context(), k.Admin, name); err != nil {
		t.Fatal(err)
	}
	if p, err := k.Policies.Get(t.Context(), k.Admin, name); err != nil || !p.BuiltIn {
		t.Errorf("%+v %v", p, err)
	}
	module := wasmtest.Policy(wasmtest.Manifest("again"), wasmtest.Keep())
	_, _, err = k.Policies.Upload(t.Context(), k.Admin, ident.Once{}, name, module)
	enginetest.RefusedWith(t, err, fault.Conflict, "built_in_policy")
	enginetest.RefusedWith(t, k.Policies.Delete(t.Context(), k.Admin, name), fault.Conflict, "built_in_policy")
	k.SetPipeline(`[{"policy":"` + name + `","config":{"max_result_tokens":9}}]`)
	if r := k.Verify(); !r.Clean() || r.LeftoverCount > 0 {
		t.Errorf("%+v %+v", r.Findings, r.Leftovers)
	}
}

func named(all []policy.Policy, name string) []policy.Policy {
	return slices.DeleteFunc(all, func(p policy.Policy) bool { return p.Name != name })
}

// An import with a policy that has the name of a built-in of the first release is refused.
func TestReservedNamesStay(t *testing.T) {
	k := enginetest.New(t)
	asTenant(k, "a")
	k.Upload("mine", wasmtest.Policy(wasmtest.Manifest("m"), wasmtest.Keep()))
	file := lines(export(k))
	for i := range file {
		file[i] = strings.ReplaceAll(file[i], `"mine"`, `"tool-pair-trim"`)
	}
	asTenant(k, "b")
	_, err := tryImport(k, sealed(file[:len(file)-1]))
	enginetest.RefusedWith(t, err, fault.Conflict, "built_in_policy")
}
