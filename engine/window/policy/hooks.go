package policy

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/hook"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// HookSteps prepares a stored pipeline of a memory hook. A step that cannot run at present is Broken. The result is nil if
// the pipeline is empty.
func (svc *Service) HookSteps(ctx context.Context, tenant string, settings project.Settings, h plan.Hook,
	entries []project.PipelineStep) ([]Step, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	set, err := svc.Read(ctx, tenant, svc.projects.OwnPolicies(entries))
	if err != nil {
		return nil, err
	}
	r := svc.Resolver(ctx, tenant, settings, set)
	r.Lenient = true
	return r.pipeline(h, entries)
}

// Steps prepares the pipeline of a memory hook, as Make does for windows.
func (r *Resolver) Steps(h plan.Hook, entries []project.PipelineStep) ([]Step, error) {
	return r.pipeline(h, entries)
}

// HookRun is a pipeline's run over the table of a memory hook.
type HookRun struct {
	hook.Result
	Asked *hook.Change // the ASK at which the pipeline stopped; nil if it ran to its end
}

// RunHook runs a pipeline of a memory hook over a table. Each step sees what the step before it left; a step that fails
// changes nothing. In admit the pipeline ends with the step that refuses or merges the candidate. In remember it stops at
// the step that asks a model; the caller appends the answer to the result's table, and runs the steps again from
// Asked.Step on.
//
// RunHook returns policy_failed if a step with on_error "error" fails. It counts outcomes for the circuit breaker.
func (svc *Service) RunHook(ctx context.Context, tenant string, steps []Step, t *hook.Table) (*HookRun, error) {
	return svc.runHook(ctx, tenant, steps, 0, t, true)
}

// ResumeHook is RunHook from a step on.
func (svc *Service) ResumeHook(ctx context.Context, tenant string, steps []Step, from int, t *hook.Table) (*HookRun, error) {
	return svc.runHook(ctx, tenant, steps, from, t, true)
}

// TryHook is RunHook for one step of a policy that is tried: it does not count for the circuit breaker.
func (svc *Service) TryHook(ctx context.Context, tenant string, s Step, t *hook.Table) (*HookRun, error) {
	return svc.runHook(ctx, tenant, []Step{s}, 0, t, false)
}

func (svc *Service) runHook(ctx context.Context, tenant string, steps []Step, from int, t *hook.Table, judge bool,
) (*HookRun, error) {
	run := &HookRun{Result: hook.Result{Table: t.Numbered(from == 0)}}
	verdicts := make([]Verdict, len(steps))
	if judge {
		defer func() { svc.Judge(ctx, tenant, steps, verdicts) }()
	}
	for i := from; i < len(steps); i++ {
		out, changes := svc.hookStep(ctx, tenant, &steps[i], i, &run.Result)
		verdicts[i] = Verdict{Status: out.Outcome, Detail: out.Detail}
		run.Steps = append(run.Steps, out)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if out.Outcome != plan.StatusOK && steps[i].OnError == "error" {
			return nil, fault.Errorf(fault.Invalid, "policy_failed", "policy %s@%d ended with %s: %s", out.Policy,
				out.Version, out.Outcome, out.Detail)
		}
		run.Changes = append(run.Changes, changes...)
		for n := range changes {
			if changes[n].Code == plan.OpAsk {
				run.Asked = &changes[n]
				return run, nil
			}
		}
		if t.Hook == plan.HookAdmit && run.Settled() != nil {
			return run, nil
		}
	}
	return run, nil
}

// hookStep runs one step, and sets the result's table to what the next one sees.
func (svc *Service) hookStep(ctx context.Context, tenant string, s *Step, number int, r *hook.Result,
) (hook.Step, []hook.Change) {
	out := hook.Step{Policy: s.Policy, Version: s.Version, Digest: s.Hex}
	if s.Broken != "" {
		out.Outcome, out.Detail = plan.StatusUnavailable, s.Broken
		return out, nil
	}
	var next *hook.Table
	var changes []hook.Change
	apply := func(ops []plan.Op, meter plan.Meter) error {
		if err := meter.Spend(len(ops) * hook.FuelPerOp); err != nil {
			return err
		}
		var err error
		next, changes, err = r.Table.Apply(number, ops)
		return err
	}
	got := svc.Call(ctx, plan.Call{Tenant: tenant, Module: s.Digest, Request: r.Table.Request(s.Entries),
		Texts: r.Table.Texts(), Apply: apply})
	out.Fuel, out.Outcome, out.Detail, out.Log = got.Fuel, got.Status, got.Detail, got.Log
	if got.Status != plan.StatusOK {
		return out, nil
	}
	r.Table = next
	return out, changes
}
