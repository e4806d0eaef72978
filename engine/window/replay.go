package window

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// Replay recomputes a decision's window and appends the JSON of a Replayed to dst. Errors are not_found;
// session_purged, memory_purged, summary_purged, module_purged or pipeline_purged if an input is no longer stored; and
// rules_changed if the decision was made under another version of plan.Rules.
func (svc *Service) Replay(ctx context.Context, c ident.Caller, projectID, id string, dst []byte) ([]byte, error) {
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

// Variant says how a window made from a decision's inputs differs from the original one.
type Variant struct {
	Request *Request
	Ready   *policy.Ready
	// Unchecked is for trying a policy in place of one of the decision's steps: the first steps end as in Outcomes, and
	// the result is returned even if it is invalid.
	Unchecked bool
	Outcomes  []decision.Step
}

// RemakeBlank is Remake for a decision of which memories are no longer stored. Its report is that of the original window,
// in which the memories take the tokens that they took; their words are blank. It returns memory_purged if the memories
// were at the front of the window, because what they took is then unknown.
func (svc *Service) RemakeBlank(ctx context.Context, tenant string, d *decision.Decision) (*Draft, error) {
	req, err := RequestOf(d)
	if err != nil {
		return nil, err
	}
	if len(d.Memories) > 0 && req.Memories != nil && req.Memories.first() {
		return nil, purged(d.Memories[0])
	}
	return svc.draftOf(ctx, tenant, d, nil, true)
}

// Remake recomputes a decision's window for inspection, or a variant of it with the same messages, memories, summary
// and time. It returns the errors of Replay, and those of Assemble for an invalid request.
func (svc *Service) Remake(ctx context.Context, tenant string, d *decision.Decision, v *Variant) (*Draft, error) {
	return svc.draftOf(ctx, tenant, d, v, false)
}

func (svc *Service) draftOf(ctx context.Context, tenant string, d *decision.Decision, v *Variant, blank bool) (*Draft, error) {
	a, err := svc.again(ctx, tenant, d, v, blank)
	if err != nil {
		return nil, err
	}
	out, err := a.draft()
	if gone, err := a.gone(err, d.Project, d.Session); gone || err != nil {
		return nil, cmp.Or(err, errSessionPurged(d))
	}
	return out, nil
}

// Keep stores a remade window as a new decision, whose request is raw, and returns its id. The new decision has the
// time of the original one, because that is the time that its policies saw.
func (svc *Service) Keep(ctx context.Context, tenant string, d *decision.Decision, draft *Draft, raw []byte) (string,
	error) {
	a := draft.made
	id, r := svc.decisions.NewID(a.at, d.Session, a.extent.Incarnation), a.record(&asking{session: d.Session, raw: raw}, d.Revision)
	r.ForkOf = d.ID
	return id.String(), svc.decisions.Keep(ctx, tenant, d.Project.Incarnation, id, r, a.seen(), a.Ready,
		decision.Traced{}) // it is never the previous window of another
}

// remake recomputes a decision's window and appends the members of its JSON.
func (svc *Service) remake(ctx context.Context, tenant string, d *decision.Decision, dst []byte) (*assembly, []byte,
	error) {
	a, err := svc.again(ctx, tenant, d, nil, false)
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

// again prepares to recompute a decision's window from its inputs, or a variant of it. blank says that memories that are no
// longer stored are blank.
func (svc *Service) again(ctx context.Context, tenant string, d *decision.Decision, v *Variant, blank bool) (*assembly, error) {
	if d.Rules != plan.Rules {
		return nil, fault.Errorf(fault.Gone, "rules_changed", "the decision was made under version %d of Mneme's own "+
			"texts, counts and laws; this server has version %d", d.Rules, plan.Rules)
	}
	x := transcript.Extent(d.Extent)
	head, err := svc.db.ReadItem(ctx, tenant, records.Session.Key(d.Project.Incarnation, d.Session))
	if err != nil {
		return nil, err
	}
	h, err := session.DecodeHead(head)
	if err != nil {
		return nil, err
	}
	if x.Turns > 0 && (h == nil || h.Incarnation != x.Incarnation) {
		return nil, errSessionPurged(d)
	}
	req, err := RequestOf(d)
	if err != nil {
		return nil, err
	}
	pinned, err := svc.policies.Pinned(ctx, tenant, d.Shared)
	if err != nil {
		return nil, err
	}
	in := inputs{at: d.At, seed: d.Seed, extent: x, tokens: d.Tokens, bare: d.Bare, tight: d.Tight,
		shortened: d.Shortened, names: d.Names, request: req, Ready: pinned, outcomes: d.Steps,
		answers: prompt.Answers{Made: d.Prompt.Made, Breakpoints: d.Prompt.Breakpoints}}
	if v != nil {
		in.request, in.Ready, in.outcomes, in.unchecked = v.Request, v.Ready, v.Outcomes, v.Unchecked
		in.tight, in.shortened = in.tight && v.Unchecked, in.shortened && v.Unchecked
	}
	a, err := svc.begin(ctx, tenant, in)
	if err != nil {
		return nil, err
	}
	a.pinc = d.Project.Incarnation
	a.memories, err = svc.reminders.ForReplay(ctx, d.Reader, a.pinc, d.Memories, d.Reminder, d.Forgotten, blank)
	if err != nil {
		return nil, err
	}
	a.view, err = svc.views.Past(ctx, tenant, h, head.Value, x, a.horizon()+1)
	if errors.Is(err, cache.ErrErased) {
		return nil, errSessionPurged(d)
	}
	if err != nil || d.Summary == 0 {
		return a, err
	}
	a.summary, err = svc.sessions.ReadSummary(ctx, tenant, x.Incarnation, d.Summary)
	if err == nil && a.summary == nil {
		err = fault.Errorf(fault.Gone, "summary_purged",
			"version %d of the summary of session %q, which this decision used, is purged", d.Summary, d.Session)
	}
	return a, err
}

// RequestOf reads the request of a decision.
func RequestOf(d *decision.Decision) (*Request, error) {
	if string(d.Request) == "null" {
		return nil, fault.Errorf(fault.Gone, "request_not_kept", "the request had more than %d bytes, so it was not kept", maxRequest)
	}
	req := new(Request)
	if err := json.Unmarshal(d.Request, req); err != nil {
		return nil, fmt.Errorf("%w: a decision's request", records.ErrDamaged)
	}
	return req, nil
}

func errSessionPurged(d *decision.Decision) error {
	return fault.Errorf(fault.Gone, "session_purged",
		"the messages of session %q that this decision was made from are purged", d.Session)
}
