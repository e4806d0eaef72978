package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/hook"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/manifest"
)

// candidate returns a table of admit: a candidate with a text, and a memory that has flags.
func candidate(text string, flags plan.ExtraFlags) *hook.Table {
	record := func(kind plan.Kind, key, text string) hook.Record {
		spec, _ := json.Marshal(map[string]string{"key": key, "content": text})
		return hook.Record{Kind: kind, Role: plan.RoleSystem, Key: key, Text: text, Spec: spec,
			Extra: plan.Extra{Trust: plan.TrustModel}}
	}
	t := &hook.Table{Hook: plan.HookAdmit, Origin: plan.OriginTool, Now: 1_767_225_600_000,
		Records: []hook.Record{record(plan.KindCandidate, "new", text), record(plan.KindMemory, "old", "before")}}
	t.Records[1].Flags = flags
	return t
}

func entries(t *testing.T, list string) (steps []project.PipelineStep) {
	t.Helper()
	if err := json.Unmarshal([]byte(list), &steps); err != nil {
		t.Fatal(err)
	}
	return steps
}

func hookSteps(k *enginetest.Kit, t *testing.T, h plan.Hook, list string) []policy.Step {
	t.Helper()
	steps, err := k.Policies.HookSteps(t.Context(), k.Admin.Tenant, k.Projects.DefaultSettings(), h, entries(t, list))
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// A pipeline of admit refuses, merges or leaves a candidate, with each step's config, and stops once that is settled.
func TestRunHook(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("short", enginetest.Example(t, "short-memories"))
	steps := hookSteps(k, t, plan.HookAdmit, `[{"policy":"short","config":{"max_bytes":10}},{"policy":"short","config":{"max_bytes":5}}]`)
	for name, c := range map[string]struct {
		table *hook.Table
		code  plan.OpCode // 0 means that the candidate is stored
		why   string
		steps int
	}{
		"stored":       {candidate("four", 0), 0, "", 2},
		"refused":      {candidate("more than ten", 0), plan.OpRefuse, "too_long", 1},
		"by the other": {candidate("sevenxx", 0), plan.OpRefuse, "too_long", 2},
		"merged":       {candidate("four", plan.ExtraEqual), plan.OpMerge, "known", 1},
	} {
		run, err := k.Policies.RunHook(t.Context(), k.Admin.Tenant, steps, c.table)
		if err != nil {
			t.Fatal(err)
		}
		settled := run.Settled()
		if len(run.Steps) != c.steps || (settled == nil) != (c.code == 0) || settled != nil && (settled.Code != c.code || settled.Reason != c.why) {
			t.Errorf("%s: %+v, %+v", name, run.Steps, settled)
		}
		for _, s := range run.Steps {
			if s.Outcome != plan.StatusOK || s.Fuel == 0 || s.Policy != "short" || s.Version != 1 || !strings.HasPrefix(s.Digest, "sha256:") {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
	if steps := hookSteps(k, t, plan.HookAdmit, `[]`); steps != nil {
		t.Errorf("%+v", steps)
	}
}

// Retain and recall run over a module's other functions; ids name the records of the first table.
func TestRunOtherHooks(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("short", enginetest.Example(t, "short-memories"))
	const day = 24 * 60 * 60 * 1000
	table := candidate("x", 0)
	table.Hook, table.Records[0].Kind = plan.HookRetain, plan.KindMemory
	table.Records[1].Category, table.Records[1].Head.Created = 3, table.Now-400*day
	run, err := k.Policies.RunHook(t.Context(), k.Admin.Tenant, hookSteps(k, t, plan.HookRetain, `[{"policy":"short"}]`), table)
	if err != nil || len(run.Changes) != 1 || run.Changes[0].Code != plan.OpForget || run.Changes[0].First != 1 ||
		len(run.Table.Records) != 1 || len(table.Records) != 2 {
		t.Errorf("%+v, %v", run, err)
	}
	table = candidate("x", 0)
	table.Hook, table.Records[0].Kind = plan.HookRecall, plan.KindQuery
	table.Records[1].Occurred, table.Records[1].Score = table.Now-100*day, 900
	run, err = k.Policies.RunHook(t.Context(), k.Admin.Tenant, hookSteps(k, t, plan.HookRecall, `[{"policy":"short"}]`), table)
	if err != nil || len(run.Changes) != 1 || run.Table.Records[1].Score != 450 {
		t.Errorf("%+v, %v", run, err)
	}
}

// What is wrong with a step is a result of its own: it is skipped, or the write is refused.
func TestHookStepsThatFail(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("short", enginetest.Example(t, "short-memories"))
	k.Upload("windows", enginetest.Keeping("windows"))
	for name, list := range map[string]string{
		"no such policy": `[{"policy":"nobody"}]`, "no such hook": `[{"policy":"windows"}]`, "a built-in without the hook": `[{"policy":"summarise"}]`,
		"a wrong config": `[{"policy":"short","config":{"max_bytes":"x"}}]`,
	} {
		run, err := k.Policies.RunHook(t.Context(), k.Admin.Tenant, hookSteps(k, t, plan.HookAdmit, list), candidate("x", 0))
		if err != nil || len(run.Steps) != 1 || run.Steps[0].Outcome != plan.StatusUnavailable || run.Steps[0].Detail == "" || run.Settled() != nil {
			t.Errorf("%s: %+v, %v", name, run, err)
		}
	}
	steps := hookSteps(k, t, plan.HookAdmit, `[{"policy":"nobody","on_error":"error"}]`)
	_, err := k.Policies.RunHook(t.Context(), k.Admin.Tenant, steps, candidate("x", 0))
	enginetest.RefusedWith(t, err, fault.Invalid, "policy_failed")
	_, err = k.Policies.HookSteps(t.Context(), k.Admin.Tenant, k.Projects.DefaultSettings(), plan.HookRetain,
		entries(t, `[{"policy":"short","on_error":"error"}]`))
	enginetest.RefusedWith(t, err, fault.Invalid, "invalid_value")
}

// The breaker counts failures by version and hook: what fails at one hook is set back, however often the other succeeds.
func TestBreakerCountsByHook(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("short", enginetest.Example(t, "short-memories"))
	second, err := manifest.Set(enginetest.Example(t, "short-memories"), []byte(`{"abi":"1.3","hooks":["admit","recall"],
		"config":{"max_bytes":{"type":"integer","default":9},"halve_after_days":{"type":"integer","default":9}}}`))
	if err != nil {
		t.Fatal(err)
	}
	k.Upload("short", second)
	k.SetLive("short", 2)
	broken := candidate("x", 0)
	broken.Hook, broken.Records[0].Kind = plan.HookRecall, plan.KindMemory
	admit, recall := hookSteps(k, t, plan.HookAdmit, `[{"policy":"short"}]`), hookSteps(k, t, plan.HookRecall, `[{"policy":"short","config":{"halve_after_days":1}}]`)
	broken.Records[1].Head.Created, broken.Records[1].Kind = 1, plan.KindQuery // a rank of what is no hit is a bad plan
	for i := range 5 {
		if k.Live("short") != 2 {
			t.Fatalf("set back after %d failures", i)
		}
		run, err := k.Policies.RunHook(t.Context(), k.Admin.Tenant, recall, broken)
		if err != nil || run.Steps[0].Outcome != plan.StatusBadPlan {
			t.Fatalf("%+v, %v", run, err)
		}
		if _, err := k.Policies.RunHook(t.Context(), k.Admin.Tenant, admit, candidate("x", 0)); err != nil {
			t.Fatal(err)
		}
	}
	if k.Live("short") != 1 {
		t.Error("five failures in a row at one hook set nothing back")
	}
}
