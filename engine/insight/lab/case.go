package lab

import (
	"context"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// Case names a stored decision, and the step of its pipeline that a tried policy replaces: the policy sees what that
// step saw.
type Case struct {
	Project    string `json:"project_id,omitempty"`
	DecisionID string `json:"decision_id,omitempty"`
	// Step counts from 0. Nil means the first step that runs a policy of the same name, or 0 if there is none.
	Step *int `json:"step,omitempty"`
}

// runOnDecision makes the window of a decision again, with a policy in place of one of its steps and no steps after it.
// It returns the index of that step.
func (svc *Service) runOnDecision(ctx context.Context, c ident.Caller, name string, entry project.PipelineStep,
	req *RunRequest) (*window.Draft, int, error) {
	if given := req.beside(); given != "" {
		return nil, 0, fault.InvalidField(given, "invalid_value", "must be left out if decision_id is given")
	}
	if req.Project == "" {
		return nil, 0, fault.InvalidField("project_id", "required", "must name the decision's project")
	}
	d, err := svc.decisions.Read(ctx, c, req.Project, req.DecisionID)
	if err != nil {
		return nil, 0, err
	}
	steps := d.Shared.Steps
	same := func(s policy.Step) bool { return s.Policy == name }
	guards := d.Shared.Guards()
	at := slices.IndexFunc(steps, same)
	if at < 0 {
		at = guards
	}
	if req.Step != nil {
		if at = *req.Step; at < 0 || at > len(steps) {
			return nil, 0, fault.InvalidField("step", "out_of_range", "must be from 0 to %d", len(steps))
		}
	}
	if at < guards && !same(steps[at]) {
		return nil, 0, fault.InvalidField("step", "out_of_range", "must not be that of another policy's guard")
	}
	if entry.Config == nil && at < len(steps) && same(steps[at]) {
		entry.Config = steps[at].Config
	}
	pinned, err := svc.policies.Pinned(ctx, c.Tenant, d.Shared)
	if err != nil {
		return nil, 0, err
	}
	set, err := svc.policies.Read(ctx, c.Tenant, svc.projects.OwnPolicies([]project.PipelineStep{{Policy: name}}))
	if err != nil {
		return nil, 0, err
	}
	own, err := svc.policies.Resolver(ctx, c.Tenant, d.Shared.Settings, set).Make([]project.PipelineStep{entry})
	if err != nil {
		return nil, 0, err
	}
	ready := *pinned
	ready.Steps = slices.Concat(pinned.Steps[:at], own.Steps)
	if at < guards { // It stays a guard among the others.
		ready.Steps[at].Guard = true
		ready.Steps = append(ready.Steps, pinned.Steps[at+1:guards]...)
	}
	asked, err := window.RequestOf(d)
	if err != nil {
		return nil, 0, err
	}
	asked.Budget = req.Budget.Over(asked.Budget)
	out, err := svc.windows.Remake(ctx, c.Tenant, d,
		&window.Variant{Request: asked, Ready: &ready, Unchecked: true, Outcomes: d.Steps[:at:at]})
	return out, at, err
}

// beside returns the name of a field in the request that a run on a decision must not set, because the decision has it,
// or "".
func (r *RunRequest) beside() string {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"messages", r.Messages != nil}, {"transcript", r.Transcript != nil}, {"pending", r.Pending != nil},
		{"viewer", r.Viewer != (ident.Viewer{})}, {"system", len(r.System) > 0 && r.System[0] != 'n'}, {"format", r.Format != ""},
		{"tool_results", r.ToolResults != ""},
	} {
		if f.given {
			return f.name
		}
	}
	return ""
}
