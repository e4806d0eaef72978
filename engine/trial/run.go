package trial

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// RunRequest is a transcript to try a policy on, as messages or as an exported session, and what the window is to be
// like. In messages, each of a user's begins a turn.
type RunRequest struct {
	Messages    []json.RawMessage `json:"messages,omitempty"`
	Transcript  *session.File     `json:"transcript,omitempty"`
	Config      json.RawMessage   `json:"config,omitempty"`
	Viewer      access.Viewer     `json:"viewer"`
	Budget      window.Budget     `json:"budget"`
	System      string            `json:"system,omitempty"`
	Pending     []json.RawMessage `json:"pending,omitempty"`
	Format      string            `json:"format,omitempty"`
	ToolResults string            `json:"tool_results,omitempty"`
}

// Ran is the window that a version of a policy made of a transcript.
type Ran struct {
	RanPolicy
	window.Rendered
	window.Explained
	Report []window.ReportRow `json:"report"`
}

// RanPolicy is the version that ran. Fuel is what its own step took.
type RanPolicy struct {
	Policy  string `json:"policy"`
	Version int    `json:"version"`
	Fuel    uint64 `json:"fuel"`
}

// Run makes a window of a transcript with one policy and appends the JSON of a Ran to dst. Nothing is stored. It
// answers not_found where there is no such version, and what Assemble answers for a wrong request.
func (svc *Service) Run(ctx context.Context, c access.Caller, name string, version int, req *RunRequest, dst []byte,
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
	d, err := svc.windows.DraftOfTranscript(ctx, c.Tenant, turns, svc.db.Now(), ready, &window.Request{
		Viewer: req.Viewer, Budget: req.Budget, System: req.System, Pending: req.Pending, Format: req.Format,
		ToolResults: req.ToolResults})
	if err != nil {
		return dst, err
	}
	d.Skipped = append(skipped, d.Skipped...)
	ran, err := json.Marshal(RanPolicy{name, version, d.Pipeline[0].Fuel})
	if err != nil {
		return dst, err
	}
	return d.AppendMembers(append(dst, ran[:len(ran)-1]...))
}

// turns are a request's transcript.
func (r *RunRequest) turns() ([]*session.ParsedTurn, []session.Skipped, error) {
	switch {
	case r.Transcript != nil && r.Messages != nil:
		return nil, nil, fault.InvalidField("transcript", "invalid_value", "give messages or a transcript, not both")
	case r.Transcript != nil:
		turns, err := r.Transcript.Parse()
		return turns, nil, err
	case r.Messages == nil:
		return nil, nil, fault.InvalidField("messages", "required",
			"give messages or a transcript to run the policy on")
	}
	format, err := session.ParseFormat(r.Format, true)
	if err != nil {
		return nil, nil, err
	}
	if format == chat.Text {
		format = chat.OpenAIChat
	}
	return splitTurns(format, r.Messages)
}

// splitTurns reads messages as a transcript of turns, each of which a user's message begins.
func splitTurns(format chat.Format, messages []json.RawMessage) ([]*session.ParsedTurn, []session.Skipped, error) {
	var skipped []session.Skipped
	parsed, err := session.ParseMessages(format, messages, &skipped)
	if err != nil {
		return nil, nil, err
	}
	var turns []*session.ParsedTurn
	for _, m := range parsed {
		if len(turns) == 0 || m.Role == plan.RoleUser {
			turns = append(turns, &session.ParsedTurn{})
		}
		t := turns[len(turns)-1]
		t.Messages = append(t.Messages, m)
	}
	return turns, skipped, nil
}
