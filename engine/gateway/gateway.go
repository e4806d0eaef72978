// Package gateway prepares model calls for their provider. It sends the client's own bytes, adds recalled memories to
// them, or replaces the history with a window. For each call it records what was decided and how the call ended. From
// the tokens that providers report it learns how far Mneme's own counts are off.
//
// A window never fails a call that would have succeeded without Mneme. If no window can be made, the client's own bytes
// are sent, unless the project asks for an error.
package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// The modes of calls that leave a decision. Assemble and Recall become Bypass if no window can be made.
const (
	Observe  = "observe"
	Recall   = "recall"
	Assemble = "assemble"
	Bypass   = "bypass"
)

// Service prepares model calls. It is safe for concurrent use.
type Service struct {
	db        *records.DB
	projects  *project.Service
	sessions  *session.Service
	windows   *window.Service
	decisions *decision.Service

	// Ended, if not nil, is called after each call that left a decision, with the tokens that its provider counted.
	Ended func(tenant string, project ident.Incarnation, spent decision.Spent)

	mu     sync.Mutex
	sticky map[string]bool        // by agent: whether the provider was told to drop thinking bound to another prompt
	refuse map[refusing]time.Time // until when models are not asked for the usage of streams
	gauges gauges

	buffers buffers
}

// New returns a Service.
func New(db *records.DB, projects *project.Service, sessions *session.Service, windows *window.Service,
	decisions *decision.Service) *Service {
	return &Service{db: db, projects: projects, sessions: sessions, windows: windows, decisions: decisions}
}

// Ask is a model call as its client sent it, with what is known about it.
type Ask struct {
	Caller   ident.Caller
	Project  *project.Record
	Mode     string // observe, recall or assemble
	Body     *wire.Body
	Upstream string // its name
	Profile  provider.Profile
	// ContextTokens and OutputTokens are the model's context window and its largest answer, or 0 if unknown.
	ContextTokens, OutputTokens int
	Namespace                   []string // whose memories are shown, including namespaces below it; nil means all
	Closed                      bool     // a call without a window is refused

	Session string
	Head    *session.Head // of the session; nil if it does not exist yet
	Agent   string        // empty for the main agent
	Matched string        // how the request matched the stored history
	Front   int           // how many messages the client put in front of the stored ones
	Differs *decision.Differences
	// AsOf is the last stored turn that this call continues; nil means the newest.
	AsOf *uint32
	// Pending are the messages that follow the stored history.
	Pending []*transcript.Element
	// Resolved reports that the stored history includes the response or conversation that the request refers to by id.
	Resolved bool
	// References are the items that the request refers to by their ids. They are sent as references.
	References map[string]history.Reference
}

// Outgoing is a call as it is sent to the provider.
type Outgoing struct {
	Body       []byte
	Mode       string
	DecisionID string // empty if it is not kept
	Cut        bool   // the window does not start with all of the previous one
	Windowed   bool   // there is a window, which Cut, Before and After describe
	// Before and After count the tokens of the prompt without and with the window.
	Before, After uint64
	Betas         []string // values that anthropic-beta must have
	HideUsage     bool     // the client did not ask for the usage that its stream will have

	reasoning string // the member of messages that has the client's reasoning

	buffer  *[]byte // holds Body; nil if Body is the client's or is still needed
	ask     *Ask
	project *project.Record
	head    *session.Head
	scale   project.Scale
	id      decision.ID // of the call's row; zero if the store has no space for it
	at      int64
	call    decision.Call
}

// TooLong says that the mandatory messages of a call exceed the context window of its model.
type TooLong struct{ Tokens, Maximum int }

func (e *TooLong) Error() string {
	return fmt.Sprintf("prompt is too long: %d tokens > %d maximum", e.Tokens, e.Maximum)
}

// Prepare prepares a call for its provider. It returns TooLong if the call cannot fit. If no window can be made for
// another reason, the call is sent without one, unless it is Closed.
func (svc *Service) Prepare(ctx context.Context, ask *Ask) (*Outgoing, error) {
	h := ask.Head
	if h == nil {
		h = new(session.Head)
	}
	out := &Outgoing{Mode: ask.Mode, Body: ask.Body.With(wire.Edit{}), ask: ask, project: ask.Project, head: h,
		at: svc.db.Now().UnixMilli(), call: decision.Call{Mode: ask.Mode, Model: ask.Body.Model, Upstream: ask.Upstream,
			Matched: ask.Matched, Front: ask.Front, Differs: ask.Differs}}
	if ask.Mode != Observe {
		err := svc.edit(ctx, out)
		if err == nil {
			return out, nil
		}
		if long, ok := errors.AsType[*TooLong](err); ok {
			return nil, long
		}
		if ctx.Err() != nil || ask.Closed {
			return nil, err
		}
		svc.db.Log.Warn("a call is forwarded without a window", "tenant", ask.Caller.Tenant, "project", ask.Project.ID,
			"session", ask.Session, "error", err)
		out.Mode, out.call.Mode, out.call.Bypassed = Bypass, Bypass, reason(err)
	}
	out.id = svc.decisions.NewID(out.at, ask.Session, h.Incarnation)
	if svc.keepsPassed(out) {
		out.DecisionID = out.id.String()
	}
	return out, nil
}

// keepsPassed reports whether the project keeps the decision of a call without a window.
func (svc *Service) keepsPassed(out *Outgoing) bool {
	setup, err := svc.projects.SetupOf(out.project)
	if err != nil {
		return true // as by default
	}
	kept := setup.Settings.Decisions
	return kept == project.DecisionsAll || kept == project.DecisionsErrors && out.call.Bypassed != ""
}

// reason returns the code of an error, as far as clients may see it.
func reason(err error) string {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known.Code
	}
	return "internal_error"
}

// edit makes a window and puts it, or only its reminders, into the call.
func (svc *Service) edit(ctx context.Context, out *Outgoing) error {
	setup, err := svc.projects.SetupOf(out.project)
	if err != nil {
		return err
	}
	out.scale = setup.Settings.TokenScale
	req := svc.request(out, setup)
	raw, err := encode(req)
	if err != nil {
		return err
	}
	buffer := svc.buffers.take() // It is free again once the body is made.
	defer svc.buffers.give(buffer)
	answer, err := svc.windows.Assemble(ctx, out.ask.Caller, out.project.ID, req, raw, *buffer)
	if err != nil {
		return tooLong(err, out.ask, req)
	}
	*buffer = answer.Buffer()
	w := shown(answer)
	out.id, out.DecisionID, out.Windowed, out.Cut = w.ID, w.DecisionID, true, w.Cut
	out.After = w.Usage.Tokens + w.Usage.Parts.Tools
	out.Before = max(out.After, w.Usage.ConsideredTokens+w.Usage.SystemTokens+w.Usage.Parts.Tools)
	e := wire.Edit{IncludeUsage: out.ask.Profile.StreamOptions != provider.StreamOptionsSent && !svc.refusesUsage(out)}
	if out.Mode == Recall {
		e.Messages = reminded(out.ask.Body, w)
	} else {
		svc.fit(out, w)
		e.Messages, e.System = assembled(out.ask.Body, w)
		refer(e.Messages, out.ask.References)
		e.Resolved = out.ask.Resolved
	}
	if e.DropBlocks, err = svc.dropsBlocks(ctx, out, w); err != nil {
		return err
	}
	if e.DropBlocks {
		out.Betas = []string{wire.BindingBeta}
	}
	out.HideUsage = e.IncludeUsage && out.ask.Body.Format == chat.OpenAIChat && out.ask.Body.Stream && !out.ask.Body.WantsUsage
	out.buffer = svc.buffers.take()
	*out.buffer = out.ask.Body.Append(*out.buffer, e)
	out.Body = *out.buffer
	return nil
}

// encode returns a request as JSON with the client's own bytes. An encoder would escape and compact them, and then a
// replay of the decision would make another window.
func encode(req *window.Request) ([]byte, error) {
	rest := *req
	rest.System = nil
	rest.Tools = nil
	rest.Pending = nil
	raw, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	for _, member := range [...]struct {
		name string
		list []json.RawMessage
	}{{"tools", req.Tools}, {"pending", req.Pending}} {
		if len(member.list) > 0 {
			o, _, _ := rawjson.ReadObject(raw)
			list := make([][]byte, len(member.list))
			for i := range list {
				list[i] = member.list[i]
			}
			raw = o.With(member.name, rawjson.ArrayOf(list...))
		}
	}
	if len(req.System) > 0 {
		o, _, _ := rawjson.ReadObject(raw)
		raw = o.With("system", req.System)
	}
	return raw, nil
}

// mainResults returns how many tokens the main agent's results may take in a sub-agent's prompt. Providers refuse calls
// in a prompt without tools.
func mainResults(body *wire.Body, s *project.Settings) *int {
	most := s.HistoryMaxTokens
	switch {
	case len(body.Tools) == 0:
		most = 0
	case most == 0:
		most = project.MaxBudget
	}
	return &most
}

// request returns the request for the call's window.
func (svc *Service) request(out *Outgoing, setup *project.Setup) *window.Request {
	ask, none := out.ask, 0
	asked := setup.Settings.Asked(out.project.Set)
	known := ask.ContextTokens > 0
	req := &window.Request{SessionID: ask.Session, Format: ask.Body.Format.String(), System: ask.Body.HeadText(),
		Tools: ask.Body.Tools, Pending: transcript.Raw(ask.Pending), Elements: ask.Pending, Proxied: &decision.OfCall{Proxied: true, Call: &out.call}}
	if ask.Agent != "" {
		req.Viewer = ident.Viewer{Agent: ask.Agent, DelegationID: &ask.Agent}
	}
	if ask.Agent != "" && out.Mode == Assemble {
		req.Viewer.ResultTokens = mainResults(ask.Body, &setup.Settings)
	} else {
		req.Viewer.Alone = true
	}
	if ask.AsOf != nil {
		req.AsOf = &window.AsOf{Turn: ask.AsOf}
	}
	if out.Mode == Recall || !asked.Messages {
		req.Budget.MaxMessages = &none
	}
	if out.Mode == Recall || !asked.Tokens {
		req.Budget.MaxTokens = &none
	}
	bounded := known || asked.Messages || asked.Tokens
	if out.Mode == Recall || !bounded && !asked.Pipeline { // the window only grows
		req.Pipeline = []project.PipelineStep{{Policy: "delegation-filter"}}
	}
	if known && out.Mode == Assemble {
		reserve := ask.OutputTokens
		if ask.Body.MaxTokens != nil {
			reserve = cmp.Or(reserve, *ask.Body.MaxTokens)
		}
		req.Budget.ContextWindow, req.Budget.ReserveTokens = &ask.ContextTokens, &reserve
	}
	// The project's settings for both are of windows that clients ask for. A call shows what its client shows.
	req.ToolResults = window.ToolResultsMessages
	req.Reasoning, out.reasoning = reasoning(ask)
	req.Memories = &window.MemoryRequest{Namespace: ask.Namespace}
	if b := ask.Body.CacheControl; b.Top {
		req.CacheControl = "strip"
	} else if b.Text {
		req.CacheControl = "auto"
	}
	return req
}
