package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

const (
	// replaySessions is how many sessions a replay covers if it names none; maxReplaySessions is how many it may name.
	replaySessions    = 20
	maxReplaySessions = 100
	// maxChanged is the maximum number of messages that a replay lists per session. All are counted.
	maxChanged = 200
)

// ReplayRequest asks what a version of a policy would change for real sessions.
type ReplayRequest struct {
	Project  string   `json:"project_id"`
	Sessions []string `json:"sessions,omitempty"` // nil means the project's first ones, by id
	// Against is a version, "live" (the default), or "none": the pipeline without the policy.
	Against string `json:"against,omitempty"`
	// Config is used if the project's pipeline does not contain the policy. The policy then runs first.
	Config json.RawMessage `json:"config,omitempty"`
}

// Replay is what a version would change: before is with the other version, after with this one.
type Replay struct {
	Policy   string          `json:"policy"`
	Version  int             `json:"version"`
	Against  *int            `json:"against"` // null means none
	Project  string          `json:"project_id"`
	Sessions []SessionReplay `json:"sessions"`
	Totals   Totals          `json:"totals"`
}

// Totals sums up a replay, or one session of it.
type Totals struct {
	ChangedMessages int      `json:"changed_messages"`
	Messages        Compared `json:"messages"` // in the windows
	Tokens          Compared `json:"tokens"`
	Fuel            Compared `json:"fuel"`
	Failures        Compared `json:"failures"` // steps that failed
	// Prefix is the share of a window that the next one starts with, turn by turn.
	Prefix PrefixKept `json:"prefix"`
	// Facts and Cost are those of the stored calls of the same turns.
	Facts FactsKept `json:"facts"`
	Cost  CallCost  `json:"cost"`
}

// PrefixKept is the mean share of a window that the window after the next turn starts with, on both sides.
type PrefixKept struct {
	Windows int     `json:"windows"` // compared with the previous one
	Before  float64 `json:"before"`
	After   float64 `json:"after"`
}

// Compared is a number for both sides.
type Compared struct {
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
}

// SessionReplay is the result for one session. Error says why it has no window on one of the sides.
type SessionReplay struct {
	SessionID string `json:"session_id"`
	Turns     uint32 `json:"turns"`
	Totals
	Changed []Difference `json:"changed"`
	Failed  SidesFailed  `json:"failed"`
	Error   string       `json:"error,omitempty"`
}

// SidesFailed are the steps that failed on each side.
type SidesFailed struct {
	Before []StepFailure `json:"before"`
	After  []StepFailure `json:"after"`
}

// StepFailure is a step that failed.
type StepFailure struct {
	Policy  string      `json:"policy"`
	Version int         `json:"version"`
	Outcome plan.Status `json:"outcome"`
	Detail  string      `json:"detail"`
}

// MessageFate is what happened to a message, as in a report.
type MessageFate struct {
	Action     plan.Action `json:"action"`
	ReasonCode string      `json:"reason_code"`
	Tokens     uint32      `json:"tokens"`
}

// Replay makes windows of real sessions with one version of a policy and with another, and reports the differences. It
// stores nothing and requests no summaries. It returns not_found if the version, the project or a session does not
// exist, unknown_version if there is nothing to compare with, and required, invalid_value or too_long if a field is
// invalid.
func (svc *Service) Replay(ctx context.Context, c ident.Caller, name string, version int, req ReplayRequest) (Replay,
	error) {
	out := Replay{Policy: name, Version: version, Project: req.Project, Sessions: []SessionReplay{}}
	if req.Project == "" {
		return out, fault.InvalidField("project_id", "required", "must name the project whose sessions are replayed")
	}
	if config := bytes.TrimSpace(req.Config); len(config) > 0 && config[0] != '{' && string(config) != "null" {
		return out, fault.InvalidField("config", "wrong_type", "must be a JSON object")
	}
	r, err := svc.policies.ResolverFor(ctx, c.Tenant, name, version)
	if err != nil {
		return out, err
	}
	if out.Against, err = comparedVersion(r, name, req.Against); err != nil {
		return out, err
	}
	if len(req.Sessions) > maxReplaySessions {
		return out, fault.InvalidField("sessions", "too_long", "must name at most %d sessions", maxReplaySessions)
	}
	p, _, _, err := svc.projects.Read(ctx, c, req.Project, nil)
	if err != nil {
		return out, err
	}
	before, after, err := svc.sides(ctx, c.Tenant, p, &out, req.Config)
	if err != nil {
		return out, err
	}
	sessions := req.Sessions
	if sessions == nil {
		if sessions, err = svc.firstSessions(ctx, c.Tenant, p, replaySessions); err != nil {
			return out, err
		}
	}
	for _, id := range sessions {
		s, err := svc.replaySession(ctx, c, req.Project, id, before, after)
		if err != nil {
			return out, err
		}
		out.Totals.add(s.Totals)
		out.Sessions = append(out.Sessions, s)
	}
	return out, nil
}

// comparedVersion parses the version to compare with; nil means none.
func comparedVersion(r *policy.Resolver, name, against string) (*int, error) {
	ref, version := name, 0
	switch against {
	case "none":
		return nil, nil
	case "", "live":
	default:
		var err error
		if version, err = strconv.Atoi(against); err != nil || version > math.MaxInt32 {
			return nil, fault.InvalidField("against", "invalid_value", `must be "live", "none" or the number of a version`)
		}
		ref = policy.VersionName(name, version)
	}
	var s policy.Step
	if !r.Find(&s, ref) {
		return nil, fault.InvalidField("against", "unknown_version", "no version %d of policy %q", version, name)
	}
	return &s.Version, nil
}

// sides prepares the project's pipeline with the other version and with the one in question. If it does not contain the
// policy, the policy runs first.
func (svc *Service) sides(ctx context.Context, tenant string, p *project.Record, out *Replay, config json.RawMessage,
) (before, after *policy.Ready, err error) {
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return nil, nil, err
	}
	named := project.PipelineStep{Policy: out.Policy, Config: config}
	pipeline := set.Settings.Pipeline
	own, err := svc.policies.Read(ctx, tenant, svc.projects.OwnPolicies(append(slices.Clip(pipeline), named)))
	if err != nil {
		return nil, nil, err
	}
	of := func(entry project.PipelineStep) bool {
		n, _, _ := strings.Cut(entry.Policy, "@")
		return n == out.Policy && !(entry.Standard && own.Has(n))
	}
	if !slices.ContainsFunc(pipeline, of) {
		pipeline = slices.Insert(slices.Clone(pipeline), len(project.Guards(pipeline)), named)
	}
	r := svc.policies.Resolver(ctx, tenant, set.Settings, own)
	r.Lenient = true
	with := func(version *int) (*policy.Ready, error) {
		if version == nil {
			return r.Make(slices.DeleteFunc(slices.Clone(pipeline), of))
		}
		entries := slices.Clone(pipeline)
		for i := range entries {
			if of(entries[i]) {
				entries[i].Policy = policy.VersionName(out.Policy, *version)
				entries[i].OnError = "" // so that failures are reported
			}
		}
		return r.Make(entries)
	}
	if before, err = with(out.Against); err == nil {
		after, err = with(&out.Version)
	}
	return before, after, err
}

// firstSessions returns a project's first sessions by id.
func (svc *Service) firstSessions(ctx context.Context, tenant string, p *project.Record, n int) ([]string, error) {
	rng := records.Session.Under(p.Incarnation)
	rng.Limit, rng.KeysOnly = n, true
	var ids []string
	for it, err := range svc.db.Scan(ctx, tenant, rng) {
		if err != nil {
			return nil, err
		}
		_, id, _ := records.Session.Split(it.Key)
		if ids = append(ids, id); len(ids) == n {
			break
		}
	}
	return ids, nil
}

// replaySession makes a session's window on both sides.
func (svc *Service) replaySession(ctx context.Context, c ident.Caller, projectID, id string,
	before, after *policy.Ready) (SessionReplay, error) {
	out := SessionReplay{SessionID: id, Changed: []Difference{},
		Failed: SidesFailed{Before: []StepFailure{}, After: []StepFailure{}}}
	p, h, raw, err := svc.sessions.Read(ctx, c, projectID, id)
	if err != nil {
		return out, err
	}
	out.Turns = h.Turns
	at := svc.db.Now()
	past, err := svc.transcriptOf(ctx, c.Tenant, h)
	if err != nil {
		return out, err
	}
	var sides [2]*window.Draft
	var walked [2]walk
	for i, r := range [...]*policy.Ready{before, after} {
		sides[i], err = svc.windows.DraftOfSession(ctx, c.Tenant, h, raw, at, r, window.Past{Project: p.Incarnation})
		if err == nil {
			walked[i], err = svc.walk(ctx, c.Tenant, p.Incarnation, h, raw, at, r, past)
		}
		if known, ok := errors.AsType[*fault.Error](err); ok && known.Kind == fault.Invalid {
			out.Error = known.Detail
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
	out.walked(walked[0], walked[1])
	out.compare(sides[0], sides[1])
	return out, nil
}

// compare records the differences between two windows of one session.
func (s *SessionReplay) compare(before, after *window.Draft) {
	s.Messages = Compared{before.Usage.HistoryMessages, after.Usage.HistoryMessages}
	s.Tokens = Compared{before.Usage.Tokens, after.Usage.Tokens}
	s.Failed.Before, s.Fuel.Before = failures(before)
	s.Failed.After, s.Fuel.After = failures(after)
	s.Failures = Compared{uint64(len(s.Failed.Before)), uint64(len(s.Failed.After))}
	differ := differences(before, after)
	s.ChangedMessages, s.Changed = differ.ChangedMessages, differ.Changed
}

func fateOf(r *decision.ReportRow) MessageFate {
	return MessageFate{r.Action, r.ReasonCode, r.TokensAfter}
}

// failures returns the failed steps of a window, and the fuel of all steps.
func failures(d *window.Draft) (failed []StepFailure, fuel uint64) {
	failed = []StepFailure{}
	for _, s := range d.Pipeline {
		fuel += s.Fuel
		if s.Outcome != plan.StatusOK {
			failed = append(failed, StepFailure{s.Policy, s.Version, s.Outcome, s.Detail})
		}
	}
	return failed, fuel
}

func (t *Totals) add(o Totals) {
	t.ChangedMessages += o.ChangedMessages
	for _, pair := range [...]struct{ to, from *Compared }{{&t.Messages, &o.Messages}, {&t.Tokens, &o.Tokens},
		{&t.Fuel, &o.Fuel}, {&t.Failures, &o.Failures}} {
		pair.to.Before += pair.from.Before
		pair.to.After += pair.from.After
	}
	if n := t.Prefix.Windows + o.Prefix.Windows; n > 0 {
		mean := func(a, b float64) float64 {
			return (a*float64(t.Prefix.Windows) + b*float64(o.Prefix.Windows)) / float64(n)
		}
		t.Prefix = PrefixKept{n, mean(t.Prefix.Before, o.Prefix.Before), mean(t.Prefix.After, o.Prefix.After)}
	}
	t.Facts = FactsKept{t.Facts.Needed + o.Facts.Needed, t.Facts.Before + o.Facts.Before, t.Facts.After + o.Facts.After}
	t.Cost = CallCost{t.Cost.Calls + o.Cost.Calls, t.Cost.Before + o.Cost.Before, t.Cost.After + o.Cost.After}
}
