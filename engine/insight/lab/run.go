package lab

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// RunRequest says what to run a policy on, and how to make the window. The input is either a transcript, given as
// messages (each user message begins a turn) or as an exported session, or a stored decision with its request and
// session.
type RunRequest struct {
	Messages   []json.RawMessage `json:"messages,omitempty"`
	Transcript *session.File     `json:"transcript,omitempty"`
	Case
	Config      json.RawMessage   `json:"config,omitempty"`
	Viewer      ident.Viewer      `json:"viewer"`
	Budget      window.Budget     `json:"budget"` // without limits unless set here or by the decision
	System      json.RawMessage   `json:"system,omitempty"`
	Pending     []json.RawMessage `json:"pending,omitempty"`
	Format      string            `json:"format,omitempty"`
	ToolResults string            `json:"tool_results,omitempty"`
	HookCase
}

// Ran is the window that a version of a policy made. If the window fails the validity check, it is shown nevertheless,
// and Violation names the rule; a real window would use the fallback.
type Ran struct {
	RanPolicy
	window.Rendered
	window.Explained
	Report []decision.ReportRow `json:"report"`
}

// RanPolicy is the version that ran, the outcome of its step, and its cost.
type RanPolicy struct {
	Policy    string          `json:"policy"`
	Version   int             `json:"version"`
	Fuel      uint64          `json:"fuel"`
	Outcome   plan.Status     `json:"outcome"`
	Step      int             `json:"step"`      // index in the pipeline
	Violation *plan.Violation `json:"violation"` // null if the window is valid
	*RanHook
}

// RanHook is what a policy did at a memory hook. There is then no window.
type RanHook struct {
	Hook   string    `json:"hook,omitempty"`
	Ops    []HookOp  `json:"ops,omitempty"`
	Detail string    `json:"detail,omitempty"` // why the call failed
	Log    []HookLog `json:"log,omitempty"`
}

// Run makes a window with one policy, or runs it at a memory hook, and appends the JSON of a Ran to dst. It stores nothing
// and asks no model. It returns not_found if
// there is no such version, the errors of Assemble for an invalid request, and those of Replay for a decision.
func (svc *Service) Run(ctx context.Context, c ident.Caller, name string, version int, req *RunRequest, dst []byte,
) ([]byte, error) {
	r, err := svc.policies.ResolverFor(ctx, c.Tenant, name, version)
	if err != nil {
		return dst, err
	}
	named, memories, err := req.hook()
	if err != nil {
		return dst, err
	}
	entry := project.PipelineStep{Policy: policy.VersionName(name, version), Config: req.Config}
	if memories {
		return svc.runOnMemories(ctx, c.Tenant, r, named, entry, RanPolicy{Policy: name, Version: version}, req, dst)
	}
	var d *window.Draft
	step := 0
	if req.DecisionID != "" {
		d, step, err = svc.runOnDecision(ctx, c, name, entry, req)
	} else {
		d, err = svc.runOnTranscript(ctx, c.Tenant, r, entry, req)
	}
	if err != nil {
		return dst, err
	}
	own := d.Pipeline[step]
	ran, err := json.Marshal(RanPolicy{name, version, own.Fuel, own.Outcome, step, d.Violation, nil})
	if err != nil {
		return dst, err
	}
	return d.AppendMembers(append(dst, ran[:len(ran)-1]...))
}

// runOnMemories runs a policy at a memory hook, and appends what it did.
func (svc *Service) runOnMemories(ctx context.Context, tenant string, r *policy.Resolver, named plan.Hook, entry project.PipelineStep,
	ran RanPolicy, req *RunRequest, dst []byte) ([]byte, error) {
	for _, given := range [...]struct {
		field string
		is    bool
	}{
		{"transcript", req.Transcript != nil}, {"decision_id", req.DecisionID != ""}, {"project_id", req.Project != ""},
		{"step", req.Step != nil}, {"viewer", req.Viewer != ident.Viewer{}}, {"budget", req.Budget != window.Budget{}},
		{"system", len(req.System) > 0}, {"pending", len(req.Pending) > 0}, {"format", req.Format != ""},
		{"tool_results", req.ToolResults != ""},
	} {
		if given.is {
			return dst, fault.InvalidField(given.field, "invalid_value", "must be left out for the hook %s", named)
		}
	}
	table, err := svc.table(named, &req.HookCase, req.Messages, svc.db.Now().UnixMilli())
	if err != nil {
		return dst, err
	}
	steps, err := r.Steps(named, []project.PipelineStep{entry})
	if err != nil {
		return dst, err
	}
	out, ops, err := svc.tryHook(ctx, tenant, steps[0], table, req.Answer)
	if err != nil {
		return dst, err
	}
	ran.Fuel, ran.Outcome = out.Fuel, out.Outcome
	ran.RanHook = &RanHook{Hook: named.String(), Ops: ops, Detail: out.Detail}
	for _, line := range out.Log {
		ran.Log = append(ran.Log, HookLog{logLevels[min(int(line.Level), len(logLevels)-1)], line.Message})
	}
	shown, err := json.Marshal(ran)
	return append(dst, shown...), err
}

var logLevels = [...]string{"debug", "info", "warn", "error"}

func (svc *Service) runOnTranscript(ctx context.Context, tenant string, r *policy.Resolver, entry project.PipelineStep,
	req *RunRequest) (*window.Draft, error) {
	if req.Project != "" || req.Step != nil {
		return nil, fault.InvalidField("decision_id", "required", "must be given with project or step")
	}
	ready, err := r.Make([]project.PipelineStep{entry})
	if err != nil {
		return nil, err
	}
	turns, skipped, err := req.turns()
	if err != nil {
		return nil, err
	}
	d, err := svc.windows.DraftOfTranscript(ctx, tenant, turns, svc.db.Now(), ready, &window.Request{
		Viewer: req.Viewer, Budget: unbounded(req.Budget), System: req.System, Pending: req.Pending, Format: req.Format,
		ToolResults: req.ToolResults}, true)
	if err != nil {
		return nil, err
	}
	d.Skipped = append(skipped, d.Skipped...)
	return d, nil
}

// unbounded returns a budget without the project's limits: a policy is tried only with the given ones.
func unbounded(b window.Budget) window.Budget {
	b.MaxMessages = cmp.Or(b.MaxMessages, new(int))
	b.MaxTokens = cmp.Or(b.MaxTokens, new(int))
	return b
}

// turns returns a request's transcript.
func (r *RunRequest) turns() ([]*transcript.Turn, []chat.Skipped, error) {
	switch {
	case r.Transcript != nil && r.Messages != nil:
		return nil, nil, fault.InvalidField("transcript", "invalid_value", "give messages or a transcript, not both")
	case r.Transcript != nil:
		turns, _, err := r.Transcript.Parse()
		return turns, nil, err
	case r.Messages == nil:
		return nil, nil, fault.InvalidField("messages", "required",
			"give messages, a transcript or a decision_id to run the policy on")
	}
	format, err := transcript.ParseFormat(r.Format, true)
	if err != nil {
		return nil, nil, err
	}
	if format == chat.Text {
		format = chat.OpenAIChat
	}
	return splitTurns(format, r.Messages)
}

// splitTurns splits messages into turns. Each user message begins a turn.
func splitTurns(format chat.Format, messages []json.RawMessage) ([]*transcript.Turn, []chat.Skipped, error) {
	parsed, skipped, err := transcript.ParseMessages(format, messages)
	if err != nil {
		return nil, nil, err
	}
	var turns []*transcript.Turn
	for _, m := range parsed {
		if len(turns) == 0 || m.Role == plan.RoleUser {
			turns = append(turns, &transcript.Turn{})
		}
		t := turns[len(turns)-1]
		t.Messages = append(t.Messages, m)
	}
	return turns, skipped, nil
}
