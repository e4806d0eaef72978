package window

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/decision"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// Replay computes a decision's window again and appends the JSON of a Replayed to dst. It answers not_found, and
// session_purged, memory_purged, summary_purged, module_purged or pipeline_purged where an input is no longer stored.
func (svc *Service) Replay(ctx context.Context, c access.Caller, projectID, id string, dst []byte) ([]byte, error) {
	d, err := svc.decisions.Read(ctx, c, projectID, id)
	if err != nil {
		return dst, err
	}
	a, dst, err := svc.remake(ctx, c.Tenant, d, append(dst, `{"window":{`...))
	if err != nil {
		return dst, err
	}
	dst = strconv.AppendBool(append(dst, `},"equal":`...), a.result.hash == d.Window)
	return append(append(append(dst, `,"decision_id":"`...), id...), `"}`...), nil
}

// Decision explains a stored decision. Where an input is purged, Report is nil and Purged says which. It answers
// not_found, session_purged and pipeline_purged.
func (svc *Service) Decision(ctx context.Context, c access.Caller, projectID, id string) (Explanation, error) {
	d, err := svc.decisions.Read(ctx, c, projectID, id)
	if err != nil {
		return Explanation{}, err
	}
	out := Explanation{DecisionID: id, SessionID: d.Session, CreatedAt: records.TimeOf(d.At), Revision: d.Revision,
		Turns: d.Extent.Turns, WindowHash: d.Window, Usage: d.Usage, Pipeline: d.Steps, Settings: d.Shared.Settings,
		Request: d.Request}
	for _, s := range d.Shared.Steps {
		out.Settings.Pipeline = append(out.Settings.Pipeline, project.PipelineStep{
			Policy: policy.VersionName(s.Policy, s.Version), Config: s.Config, OnError: s.OnError})
	}
	a, _, err := svc.remake(ctx, c.Tenant, d, nil)
	if gone, ok := errors.AsType[*fault.Error](err); ok && gone.Kind == fault.Gone {
		out.Purged = gone.Detail
		return out, nil
	}
	if err != nil {
		return Explanation{}, err
	}
	report := a.report()
	out.Format, out.Report, out.Memories, out.Summary = a.format.String(), &report, a.shownMemories(), a.shownSummary()
	return out, nil
}

// remake makes a decision's window once more and appends the members of its JSON.
func (svc *Service) remake(ctx context.Context, tenant string, d *decision.Decision, dst []byte) (*assembly, []byte,
	error) {
	a, err := svc.again(ctx, tenant, d)
	if err != nil {
		return nil, dst, err
	}
	dst, err = a.make(dst)
	gone, err := a.gone(err, d.Project, d.Session)
	if gone {
		err = errSessionPurged(d)
	}
	return a, dst, err
}

// again makes ready to compute a decision's window once more, from its inputs.
func (svc *Service) again(ctx context.Context, tenant string, d *decision.Decision) (*assembly, error) {
	x := transcript.Extent(d.Extent)
	if x.Turns > 0 {
		h, err := records.Get[session.Head](ctx, svc.db, tenant, records.Session.Key(d.Project.Incarnation, d.Session))
		if err != nil {
			return nil, err
		}
		if h == nil || h.Incarnation != x.Incarnation {
			return nil, errSessionPurged(d)
		}
	}
	req := new(Request)
	if err := json.Unmarshal(d.Request, req); err != nil {
		return nil, fmt.Errorf("%w: a decision's request", records.ErrDamaged)
	}
	pinned, err := svc.policies.Pinned(ctx, tenant, &d.Shared)
	if err != nil {
		return nil, err
	}
	a, err := svc.begin(ctx, tenant, inputs{at: d.At, seed: d.Seed, extent: x, bare: d.Bare, tight: d.Tight,
		request: req, Ready: pinned, outcomes: d.Steps})
	if err != nil {
		return nil, err
	}
	if err := a.readRemembered(d); err != nil {
		return nil, err
	}
	if a.view, err = svc.views.At(ctx, tenant, x, a.horizon()+1); err != nil || d.Summary == 0 {
		return a, err
	}
	a.summary, err = svc.sessions.ReadSummary(ctx, tenant, x.Incarnation, d.Summary)
	if err == nil && a.summary == nil {
		err = fault.Errorf(fault.Gone, "summary_purged",
			"version %d of the summary of session %q, which this decision used, is purged", d.Summary, d.Session)
	}
	return a, err
}

func errSessionPurged(d *decision.Decision) error {
	return fault.Errorf(fault.Gone, "session_purged",
		"the messages of session %q that this decision was made from are purged", d.Session)
}
