package window

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// PolicyRunRequest is a transcript to try a policy on, as messages or as an exported session, and what the window is
// to be like. In messages, each of a user's begins a turn.
type PolicyRunRequest struct {
	Messages    []json.RawMessage `json:"messages,omitempty"`
	Transcript  *session.File     `json:"transcript,omitempty"`
	Config      json.RawMessage   `json:"config,omitempty"`
	Viewer      access.Viewer     `json:"viewer"`
	Budget      Budget            `json:"budget"`
	System      string            `json:"system,omitempty"`
	Pending     []json.RawMessage `json:"pending,omitempty"`
	Format      string            `json:"format,omitempty"`
	ToolResults string            `json:"tool_results,omitempty"`
}

// RunPolicy makes a window of a transcript with one policy and appends it, with its report, to dst. Nothing is stored.
// It answers not_found where there is no such version, and what Assemble answers for a wrong request.
func (svc *Service) RunPolicy(ctx context.Context, c access.Caller, name string, version int, req *PolicyRunRequest, dst []byte,
) ([]byte, error) {
	r, err := svc.policies.ResolverFor(ctx, c.Tenant, name, version)
	if err != nil {
		return dst, err
	}
	ready, err := r.Make([]project.PipelineStep{{Policy: policy.VersionName(name, version), Config: req.Config}})
	if err != nil {
		return dst, err
	}
	turns, skipped, err := req.turns()
	if err != nil {
		return dst, err
	}
	a, err := svc.trial(ctx, c.Tenant, turns, svc.db.Now(), ready, &ContextRequest{Viewer: req.Viewer, Budget: req.Budget,
		System: req.System, Pending: req.Pending, Format: req.Format, ToolResults: req.ToolResults, Explain: true})
	if err != nil {
		return dst, err
	}
	a.skipped = skipped
	dst = append(append(append(dst, `{"policy":"`...), name...), `","version":`...)
	dst = append(strconv.AppendInt(dst, int64(version), 10), ',')
	dst = a.openWindow(dst)
	w, err := a.make(dst)
	if err != nil {
		return dst, err
	}
	dst = a.closeWindow(dst, &w)
	dst = strconv.AppendUint(append(dst, `,"fuel":`...), a.result.steps[0].Fuel, 10)
	return a.appendRest(dst, &w), nil
}

// turns are a request's transcript.
func (r *PolicyRunRequest) turns() ([]*transcript.Turn, []chat.Skipped, error) {
	switch {
	case r.Transcript != nil && r.Messages != nil:
		return nil, nil, fault.InvalidField("transcript", "invalid_value", "give messages or a transcript, not both")
	case r.Transcript != nil:
		turns, err := r.Transcript.Parse()
		return turns, nil, err
	case r.Messages == nil:
		return nil, nil, fault.InvalidField("messages", "required", "give messages or a transcript to run the policy on")
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

// splitTurns reads messages as a transcript of turns, each of which a user's message begins.
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

// trial makes ready to assemble from a transcript that is stored nowhere.
func (svc *Service) trial(ctx context.Context, tenant string, turns []*transcript.Turn, at time.Time, r *policy.Ready,
	req *ContextRequest) (*assembly, error) {
	h, open, v := &session.Head{Kind: session.KindChat}, new(transcript.OpenCalls), &view{}
	for _, t := range turns {
		headers, err := svc.sessions.NumberTurn(ctx, t, h.Extent(), open, at)
		if err != nil {
			return nil, err
		}
		h.Turns++
		h.Messages += uint64(len(headers))
		v.append(headers)
		for i, rows := 0, v.rows[len(v.rows)-len(headers):]; i < len(rows); i++ {
			rows[i].message.Store(&t.Messages[i].Message)
		}
	}
	v.head = h
	a := &assembly{e: svc, ctx: ctx, tenant: tenant, view: v, scratch: new(scratch),
		inputs: inputs{at: at.UnixMilli(), extent: h.Extent(), request: req, Ready: r}}
	return a, a.prepare()
}
