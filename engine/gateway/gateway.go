// Package gateway makes what goes on to a provider of a model call: the client's own bytes, with memories put beside
// the messages that they were recalled for, or with the window in place of the history. It notes for each call what was
// decided and how it ended, and learns from what providers count how far Mneme's counts are off.
//
// The hard idea is that a window cannot fail a call that would have gone through without Mneme: where none can be made,
// the client's own bytes go on, unless the project asks otherwise.
package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// The modes in which something is noted of a call. Bypass is what assemble and recall become where no window can be
// made.
const (
	Observe  = "observe"
	Recall   = "recall"
	Assemble = "assemble"
	Bypass   = "bypass"
)

// Service makes what goes on to providers. Safe for concurrent use.
type Service struct {
	db        *records.DB
	projects  *project.Service
	sessions  *session.Service
	windows   *window.Service
	decisions *decision.Service

	// Ended, if set, hears of each call that has ended and left a decision, with what its provider counted.
	Ended func(tenant string, project ident.Incarnation, spent decision.Spent)

	mu     sync.Mutex
	sticky map[string]bool // by agent: whether its provider leaves out thinking that is bound to another prompt
	gauges gauges

	buffers buffers
}

// New makes the room.
func New(db *records.DB, projects *project.Service, sessions *session.Service, windows *window.Service,
	decisions *decision.Service) *Service {
	return &Service{db: db, projects: projects, sessions: sessions, windows: windows, decisions: decisions}
}

// Ask is a model call as its client sent it, and what is known of it.
type Ask struct {
	Caller   ident.Caller
	Project  *project.Record
	Mode     string // observe, recall or assemble
	Body     *wire.Body
	Upstream string // its name
	// ContextTokens and OutputTokens are the model's context window and its largest answer; 0: not known.
	ContextTokens, OutputTokens int
	Namespace                   []string // whose memories are shown, with those below it; nil: all
	Closed                      bool     // a call without a window is refused

	Session string
	Head    *session.Head // of the session, as it was found; nil: it is yet to be made
	Agent   string        // whose messages these are; empty: the main agent's
	Matched string        // what the request is to the stored history
	Front   int           // messages in front of the stored ones that the client made up
	// AsOf is the turn that the stored history ends with for this call; nil: all of it counts.
	AsOf *uint32
	// Pending are the messages behind the stored history.
	Pending []*transcript.Element
	// Resolved says that the history holds what the client names by a response or a conversation of its provider.
	Resolved bool
}

// Outgoing is a call as it goes on.
type Outgoing struct {
	Body       []byte
	Mode       string
	DecisionID string // empty: there is no space for it
	Cut        bool   // the window does not begin as the one before
	Windowed   bool   // there is a window: Cut, Before and After are of it
	// Before and After count the tokens of the prompt without and with the window.
	Before, After uint64
	Betas         []string // values that anthropic-beta must have
	HideUsage     bool     // the client did not ask for the usage that its stream will have

	buffer  *[]byte // that Body is in, where it is not the client's; nil: it is, or is kept
	ask     *Ask
	project *project.Record
	head    *session.Head
	scale   project.Scale
	id      decision.ID
	at      int64
	call    decision.Call
}

// TooLong says that what must stay of a call is more than its model takes.
type TooLong struct{ Tokens, Maximum int }

func (e *TooLong) Error() string {
	return fmt.Sprintf("prompt is too long: %d tokens > %d maximum", e.Tokens, e.Maximum)
}

// Prepare makes what goes on of a call. The error is TooLong, or says why no window could be made if the call asks for
// that.
func (svc *Service) Prepare(ctx context.Context, ask *Ask) (*Outgoing, error) {
	h := ask.Head
	if h == nil {
		h = new(session.Head)
	}
	out := &Outgoing{Mode: ask.Mode, Body: ask.Body.With(wire.Edit{}), ask: ask, project: ask.Project, head: h,
		at: svc.db.Now().UnixMilli(), call: decision.Call{Mode: ask.Mode, Model: ask.Body.Model, Upstream: ask.Upstream,
			Matched: ask.Matched, Front: ask.Front}}
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
		svc.db.Log.Warn("a call goes on without a window", "tenant", ask.Caller.Tenant, "project", ask.Project.ID,
			"session", ask.Session, "error", err)
		out.Mode, out.call.Mode, out.call.Bypassed = Bypass, Bypass, reason(err)
	}
	out.id = svc.decisions.NewID(out.at, ask.Session, h.Incarnation)
	out.DecisionID = out.id.String()
	return out, nil
}

// reason is why something failed, as far as it may be told.
func reason(err error) string {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known.Code
	}
	return "internal_error"
}

// edit puts the window into the call, or its reminders.
func (svc *Service) edit(ctx context.Context, out *Outgoing) error {
	setup, err := svc.projects.SetupOf(out.project)
	if err != nil {
		return err
	}
	out.scale = setup.Settings.TokenScale
	req := svc.request(out, setup)
	raw, err := json.Marshal(req)
	if err != nil {
		return err
	}
	buffer := svc.buffers.take() // Nothing of it is read once the body is made.
	defer svc.buffers.give(buffer)
	answer, err := svc.windows.Assemble(ctx, out.ask.Caller, out.project.ID, req, raw, *buffer)
	if err != nil {
		return tooLong(err, out.ask, req)
	}
	*buffer = answer.Buffer()
	w := shown(answer)
	out.DecisionID, out.Windowed, out.Cut = w.DecisionID, true, w.Cut
	out.After = w.Usage.Tokens + w.Usage.Parts.Tools
	out.Before = max(out.After, w.Usage.ConsideredTokens+w.Usage.SystemTokens+w.Usage.Parts.Tools)
	e := wire.Edit{IncludeUsage: true}
	if out.Mode == Recall {
		e.Messages = reminded(out.ask.Body, w)
	} else {
		e.Messages, e.System = assembled(out.ask.Body, w)
		e.Resolved = out.ask.Resolved
	}
	if e.DropBlocks, err = svc.dropsBlocks(ctx, out, w); err != nil {
		return err
	}
	if e.DropBlocks {
		out.Betas = []string{wire.BindingBeta}
	}
	out.HideUsage = out.ask.Body.Format == chat.OpenAIChat && out.ask.Body.Stream && !out.ask.Body.WantsUsage
	out.buffer = svc.buffers.take()
	*out.buffer = out.ask.Body.Append(*out.buffer, e)
	out.Body = *out.buffer
	return nil
}

// request asks for the call's window.
func (svc *Service) request(out *Outgoing, setup *project.Setup) *window.Request {
	ask, none := out.ask, 0
	asked := setup.Settings.Asked(out.project.Set)
	known := ask.ContextTokens > 0
	req := &window.Request{SessionID: ask.Session, Format: ask.Body.Format.String(), System: ask.Body.HeadText(),
		Tools: ask.Body.Tools, Pending: transcript.Raw(ask.Pending), Elements: ask.Pending, Proxied: &decision.OfCall{Proxied: true, Call: &out.call}}
	if ask.Agent != "" {
		req.Viewer = ident.Viewer{Agent: ask.Agent, DelegationID: &ask.Agent}
	}
	req.Viewer.Alone = true
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
	if out.Mode == Recall || !bounded && !asked.Pipeline { // it only grows
		req.Pipeline = []project.PipelineStep{{Policy: "delegation-filter"}}
	}
	if known && out.Mode == Assemble {
		reserve := ask.OutputTokens
		if ask.Body.MaxTokens != nil {
			reserve = cmp.Or(reserve, *ask.Body.MaxTokens)
		}
		req.Budget.ContextWindow, req.Budget.ReserveTokens = &ask.ContextTokens, &reserve
	}
	if ask.Body.Reasoning {
		req.Reasoning = "content"
	}
	req.Memories = &window.MemoryRequest{Namespace: ask.Namespace}
	if b := ask.Body.CacheControl; b.Top {
		req.CacheControl = "strip"
	} else if b.Text {
		req.CacheControl = "auto"
	}
	return req
}
