package window

import (
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// maxPending bounds the messages of the turn in flight.
const maxPending = 1024

// Request asks what the model should see now. Pointers tell "not said" from zero.
type Request struct {
	SessionID   string                 `json:"session_id,omitempty"`
	Viewer      access.Viewer          `json:"viewer"`
	Budget      Budget                 `json:"budget"`
	System      string                 `json:"system,omitempty"`
	Pending     []json.RawMessage      `json:"pending,omitempty"`
	Memories    *MemoriesRequest       `json:"memories,omitempty"`
	Pipeline    []project.PipelineStep `json:"pipeline,omitempty"`
	Format      string                 `json:"format,omitempty"`
	ToolResults string                 `json:"tool_results,omitempty"`
	Explain     bool                   `json:"explain,omitempty"`
}

// Budget bounds a window; 0 is no bound, nil the project's setting.
type Budget struct {
	MaxMessages   *int `json:"max_messages,omitempty"`
	MaxTokens     *int `json:"max_tokens,omitempty"`
	ContextWindow *int `json:"context_window,omitempty"`
	ReserveTokens *int `json:"reserve_tokens,omitempty"`
}

// MemoriesRequest asks for long-term memories to be injected. Without a Query they are looked for by the newest user
// message that the viewer may see.
type MemoriesRequest struct {
	Query string `json:"query,omitempty"`
	Limit int    `json:"limit,omitempty"` // 1 to 100; 0: 5
}

// limits are a request's bounds, defaults filled in.
type limits struct {
	messages, tokens uint32 // of the law; 0: no bound
	maxMessages      int
	systemTokens     int
	opening          uint32 // what an opening message costs where the format needs one
}

// prepare checks the request and works out its bounds.
func (a *assembly) prepare() error {
	req, s := a.request, &a.Settings
	var err error
	if a.format, err = transcript.ParseFormat(req.Format, true); err != nil {
		return err
	}
	switch req.ToolResults {
	case "", "messages":
	case "markdown":
		a.markdown = true
	default:
		return fault.InvalidField("tool_results", "invalid_value", "must be messages or markdown")
	}
	if req.Viewer.Agent != "" {
		if err := ident.CheckID("viewer.agent", req.Viewer.Agent); err != nil {
			return err
		}
	}
	if d := a.viewerDelegation(); d != "" {
		if err := ident.CheckID("viewer.delegation_id", d); err != nil {
			return err
		}
	}
	if len(req.Pending) > maxPending {
		return fault.InvalidField("pending", "too_long", "must have at most %d messages", maxPending)
	}
	a.count = a.svc.sessions.Counter(a.ctx, a.Encoding)
	return a.bound(s)
}

func (a *assembly) viewerDelegation() string {
	if a.request.Viewer.DelegationID == nil {
		return ""
	}
	return *a.request.Viewer.DelegationID
}

// bound fills in limits from the request's budget and the settings.
func (a *assembly) bound(s *project.Settings) error {
	b, maxMessages, maxTokens, window, reserve := &a.request.Budget, s.HistoryMaxMessages, s.HistoryMaxTokens, 0, 0
	for _, f := range [...]struct {
		name      string
		given, to *int
	}{
		{"max_messages", b.MaxMessages, &maxMessages},
		{"max_tokens", b.MaxTokens, &maxTokens},
		{"context_window", b.ContextWindow, &window},
		{"reserve_tokens", b.ReserveTokens, &reserve},
	} {
		if f.given == nil {
			continue
		}
		if *f.to = *f.given; *f.given < 0 || *f.given > project.MaxBudget {
			return fault.InvalidField("budget."+f.name, "out_of_range", "must be from 0 to %d", project.MaxBudget)
		}
	}
	if a.request.System != "" {
		a.limits.systemTokens = int(a.NoticeTokens(a.request.System))
	}
	if window > 0 {
		room := window - reserve - a.limits.systemTokens
		if room <= 0 {
			return &fault.Error{Kind: fault.Invalid, Code: "budget_too_small", Unit: "tokens",
				Needed: window - room + 1, Allowed: window,
				Detail: "reserve_tokens and the system prompt leave nothing of context_window for the history"}
		}
		if maxTokens == 0 || room < maxTokens {
			maxTokens = room
		}
	}
	a.limits.maxMessages = maxMessages
	a.limits.messages, a.limits.tokens = uint32(maxMessages), uint32(maxTokens)
	if a.format == chat.AnthropicMessages {
		a.limits.opening = uint32(chat.LeadTokens(a.count))
	}
	return nil
}
