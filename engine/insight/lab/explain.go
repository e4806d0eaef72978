package lab

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"

	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// Explanation is a stored decision with its report, which is recomputed.
type Explanation struct {
	DecisionID string                  `json:"decision_id"`
	ForkOf     string                  `json:"fork_of,omitempty"` // the decision that this one was forked from
	SessionID  string                  `json:"session_id"`
	CreatedAt  time.Time               `json:"created_at"`
	Revision   uint64                  `json:"revision"`
	Turns      uint32                  `json:"turns"`
	Rules      int                     `json:"rules"` // see plan.Rules
	WindowHash string                  `json:"window_hash"`
	Format     string                  `json:"format,omitempty"`
	Usage      decision.Usage          `json:"usage"`
	Cut        bool                    `json:"cut"` // it does not start with all history of the previous window
	Thinking   *prompt.ThinkingLeft    `json:"thinking,omitempty"`
	Pipeline   []decision.Step         `json:"pipeline"`
	Settings   project.Settings        `json:"settings"`
	Request    json.RawMessage         `json:"request"`
	Summary    *window.SummaryUsed     `json:"summary"`
	Memories   []window.RecalledMemory `json:"memories,omitzero"`
	Report     *[]decision.ReportRow   `json:"report"`           // null if there is no window, or it cannot be made again
	Purged     string                  `json:"purged,omitempty"` // which input
	decision.OfCall
}

// Decision explains a stored decision. If an input is purged, Purged names it, and Report is nil, unless the input is a
// memory whose size is known: the report has no texts. It returns
// not_found, session_purged and pipeline_purged.
func (svc *Service) Decision(ctx context.Context, c ident.Caller, projectID, id string) (Explanation, error) {
	d, proxied, err := svc.decisions.Show(ctx, c, projectID, id)
	if err != nil {
		return Explanation{}, err
	}
	x := transcript.Extent(d.Extent)
	out := Explanation{DecisionID: id, ForkOf: d.ForkOf, SessionID: d.Session, CreatedAt: records.TimeOf(d.At),
		Revision: d.Revision, Turns: x.LivingTurns(), Rules: d.Rules, WindowHash: d.Window, Usage: d.Usage,
		Pipeline: d.Steps, Request: d.Request, OfCall: *proxied}
	if d.Passed() {
		out.Settings, err = svc.projects.WithDefaults(d.Project.Set)
		return out, err
	}
	out.Settings = d.Shared.Settings
	if c.Namespaces != nil {
		out.Settings.Upstreams = []provider.Spec{} // they are the project's
	}
	for _, s := range d.Shared.Steps {
		out.Settings.Pipeline = append(out.Settings.Pipeline, project.PipelineStep{
			Policy: policy.VersionName(s.Policy, s.Version), Config: s.Config, OnError: s.OnError, Guard: s.Guard})
	}
	out.Cut = d.Cut
	made, err := svc.windows.Remake(ctx, c.Tenant, d, nil)
	if gone, ok := errors.AsType[*fault.Error](err); ok && gone.Kind == fault.Gone {
		out.Purged = gone.Detail
		if gone.Code != "memory_purged" {
			return out, nil
		}
		if made, err = svc.windows.RemakeBlank(ctx, c.Tenant, d); err != nil {
			if gone, ok := errors.AsType[*fault.Error](err); ok && gone.Kind == fault.Gone {
				err = nil
			}
			return out, err
		}
	}
	if err != nil {
		return Explanation{}, err
	}
	out.Thinking = made.Thinking
	out.Format, out.Report, out.Memories, out.Summary = made.Format, &made.Report, made.Memories, made.Summary
	return out, nil
}

// Append appends the explanation's JSON to dst.
func (e *Explanation) Append(dst []byte) ([]byte, error) {
	dst, err := rawjson.AppendJSON(dst, struct {
		*Explanation
		Report *struct{} `json:"report,omitempty"` // hides the field above, which is encoded separately
	}{Explanation: e})
	if err != nil {
		return dst, err
	}
	dst = append(dst[:len(dst)-1], `,"report":`...)
	if e.Report == nil {
		return append(dst, "null}"...), nil
	}
	return append(decision.AppendReport(dst, *e.Report), '}'), nil
}
