package window

import (
	"cmp"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"

	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/session/cache"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// maxPending limits the pending messages. It does not apply to windows of proxied calls that are made only of the
// call's own messages.
const maxPending = 1024

// The values of Request.Reasoning and Request.ToolResults.
const (
	ReasoningContent    = "content"
	ReasoningPending    = "pending"
	ReasoningNone       = "none"
	ToolResultsMessages = "messages"
	ToolResultsMarkdown = "markdown"
)

var reasonings = map[string]cache.ReasoningShown{ReasoningNone: cache.NoReasoning, ReasoningPending: cache.PendingReasoning,
	ReasoningContent: cache.AllReasoning}

// Request asks what the model should see next. Pointers distinguish absent values from zero.
type Request struct {
	SessionID string            `json:"session_id,omitempty"`
	Viewer    ident.Viewer      `json:"viewer"`
	Budget    Budget            `json:"budget"`
	System    json.RawMessage   `json:"system,omitempty"` // a text, or a list of text blocks
	Tools     []json.RawMessage `json:"tools,omitempty"`  // the provider's own list; counted, not shown
	Pending   []json.RawMessage `json:"pending,omitempty"`
	// Elements are the parsed elements of Pending, from a caller that has read them, or nil.
	Elements      []*transcript.Element  `json:"-"`
	Memories      *MemoryRequest         `json:"memories,omitempty"`
	Pipeline      []project.PipelineStep `json:"pipeline,omitempty"`
	Format        string                 `json:"format,omitempty"`
	PendingFormat string                 `json:"pending_format,omitempty"` // if it is not Format
	// Reasoning says whose reasoning is shown as reasoning_content: content, of all messages; pending, of Pending only;
	// none. The default is the project's.
	Reasoning   string `json:"reasoning,omitempty"`
	ToolResults string `json:"tool_results,omitempty"` // messages or markdown; the default is the project's
	Explain     bool   `json:"explain,omitempty"`
	// CacheControl says how to treat breakpoints in anthropic.messages: auto, keep (the default) or strip.
	CacheControl string `json:"cache_control,omitempty"`
	// Record is false if the window is only inspected. Then no decision is stored, no summary is requested, and the
	// outcomes of the policies are not reported to the circuit breaker.
	Record *bool `json:"record,omitempty"`
	// Proxied is what lists say about the model call that the window is for; nil if there is none.
	Proxied *decision.OfCall `json:"-"`
	// AsOf asks for the window as if the session ended with an earlier turn. Everything else is in its current state.
	AsOf *AsOf `json:"as_of,omitempty"`
}

// AsOf names the end of an earlier state of a session.
type AsOf struct {
	Turn *uint32 `json:"turn"` // required
}

// recorded reports whether the window is stored as a decision, and not only inspected.
func (r *Request) recorded() bool { return r.Record == nil || *r.Record }

// current reports whether the window is an agent's next one. Only such windows request summaries and count for the
// circuit breaker.
func (r *Request) current() bool { return r.recorded() && r.AsOf == nil }

// Budget limits a window; 0 means no limit, nil the project's setting.
type Budget struct {
	MaxMessages   *int `json:"max_messages,omitempty"`
	MaxTokens     *int `json:"max_tokens,omitempty"`
	ContextWindow *int `json:"context_window,omitempty"`
	ReserveTokens *int `json:"reserve_tokens,omitempty"`
}

// Over returns the budget with missing values taken from another one.
func (b Budget) Over(was Budget) Budget {
	return Budget{MaxMessages: cmp.Or(b.MaxMessages, was.MaxMessages), MaxTokens: cmp.Or(b.MaxTokens, was.MaxTokens),
		ContextWindow: cmp.Or(b.ContextWindow, was.ContextWindow), ReserveTokens: cmp.Or(b.ReserveTokens, was.ReserveTokens)}
}

// limits are a request's limits after defaults are applied.
type limits struct {
	messages, tokens uint32 // of the validity check; 0 means no limit
	maxMessages      int
	systemTokens     int
	toolTokens       int
	primer           uint32 // tokens that begin the reply, in formats with messages
	budget           uint32 // requested tokens, including the primer; 0 means no limit
	window, reserve  int    // context_window, if the request has one, and reserve_tokens
	opening          uint32 // tokens of an opening message, if the format may need one
}

// prepare checks the request and computes its limits.
func (a *assembly) prepare() error {
	req, s := a.request, &a.Settings
	var err error
	if a.format, err = transcript.ParseFormat(req.Format, true); err != nil {
		return err
	}
	switch cmp.Or(req.ToolResults, s.ToolResults) {
	case ToolResultsMessages:
	case ToolResultsMarkdown:
		a.markdown = true
	default:
		return fault.InvalidField("tool_results", "invalid_value", "must be messages or markdown")
	}
	if !prompt.CacheControl(req.CacheControl).Valid() {
		return fault.InvalidField("cache_control", "invalid_value", "must be auto, keep or strip")
	}
	reasoning, ok := reasonings[cmp.Or(req.Reasoning, s.Reasoning)]
	if !ok {
		return fault.InvalidField("reasoning", "invalid_value", "must be none, pending or content, or left out")
	}
	if a.system, err = render.ParseSystem(req.System); err != nil {
		return fault.InvalidField("system", "invalid_value", "%s", err)
	}
	a.pendingFormat = a.format
	if a.format == chat.Text {
		a.pendingFormat = chat.OpenAIChat
	}
	if req.PendingFormat != "" {
		var ok bool
		if a.pendingFormat, ok = chat.ParseFormat(req.PendingFormat); !ok || a.pendingFormat == chat.Text {
			return fault.InvalidField("pending_format", "invalid_value", "must be a format of messages")
		}
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
	if err := req.Viewer.CheckScope(project.MaxBudget); err != nil {
		return err
	}
	if req.AsOf != nil && req.AsOf.Turn == nil {
		return fault.InvalidField("as_of.turn", "required", "must be the last turn that the window may show")
	}
	if err := req.Memories.Check(); err != nil {
		return err
	}
	if len(req.Pending) > maxPending && req.Proxied == nil {
		return fault.InvalidField("pending", "too_long", "must have at most %d messages", maxPending)
	}
	a.Counter = cache.Counter{Format: a.format, Encoding: a.Ready.Encoding, Scale: s.TokenScale, Pictures: s.Pictures(),
		Count: a.svc.sessions.Counter(a.ctx, a.Ready.Encoding), Reasoning: reasoning}
	a.uncharged = a.Count
	return a.bound(s)
}

func (a *assembly) viewerDelegation() string {
	if a.request.Viewer.DelegationID == nil {
		return ""
	}
	return *a.request.Viewer.DelegationID
}

// bound computes the limits from the request's budget and the settings.
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
		*f.to = *f.given
		if *f.given < 0 || *f.given > project.MaxBudget {
			return fault.InvalidField("budget."+f.name, "out_of_range", "must be from 0 to %d", project.MaxBudget)
		}
	}
	if a.system.Text != "" {
		a.limits.systemTokens = int(a.NoticeTokens(a.system.Text))
	}
	if len(a.request.Tools) > 0 {
		var err error
		if a.limits.toolTokens, err = a.countTools(); err != nil {
			return err
		}
	}
	a.limits.window, a.limits.reserve = window, reserve
	if window > 0 {
		room := window - reserve - a.limits.systemTokens - a.limits.toolTokens
		if room <= 0 {
			return fault.TooSmall("tokens", window-room+1, window,
				"reserve_tokens, the system prompt and the tools leave nothing of context_window for the history")
		}
		if maxTokens == 0 || room < maxTokens {
			maxTokens = room
		}
	}
	a.limits.maxMessages = maxMessages
	a.limits.messages, a.limits.tokens, a.limits.budget = uint32(maxMessages), uint32(maxTokens), uint32(maxTokens)
	if a.format != chat.Text {
		a.limits.primer = a.Scaled(tokens.Primer)
	}
	if a.limits.tokens > 0 {
		a.limits.tokens = max(a.limits.tokens, a.limits.primer+1) - a.limits.primer
	}
	if a.format == chat.AnthropicMessages {
		a.limits.opening = a.Scaled(tokens.Lead(a.Count))
	}
	return nil
}

// countTools returns the tokens of the provider's tools in the request.
func (a *assembly) countTools() (int, error) {
	cl100k := project.Encodings[a.Encoding] == "cl100k_base"
	ended := func() bool { return a.ctx.Err() != nil }
	n, err := a.svc.tools.Tools(a.request.Tools, cl100k, a.Count, ended)
	if err != nil {
		return 0, fault.InvalidField("tools", "invalid_value", "%s", err)
	}
	return int(a.Scaled(n)), nil
}
