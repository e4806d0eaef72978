package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"

	"github.com/seed-0906e6bc/mneme/engine/window"
)

// WhyNotRequest names a message that a decision considered.
type WhyNotRequest struct {
	MessageID string `json:"message_id"`
}

// WhyNot says what would have to change for a message to stay. A limit is nil if no value of it is enough by itself.
type WhyNot struct {
	Row   decision.ReportRow `json:"row"` // what happened to the message
	Stays bool               `json:"stays"`
	// Each of these is a value at which the message stays, while one less loses it. Everything else is as in the
	// decision.
	MaxTokens   *Enough `json:"max_tokens"`
	MaxMessages *Enough `json:"max_messages"`
	Depth       *Enough `json:"session_history_depth"`
	// Unbounded means that the message stays without limits in the budget and at the largest depth. OnlyTokens is then
	// the smallest max_tokens at which it stays with no other limit.
	Unbounded  bool    `json:"unbounded"`
	OnlyTokens *Enough `json:"only_tokens"`
	Windows    int     `json:"windows"` // number of windows tried
}

// Enough is a value of a limit at which a message stays, and the outcome there.
type Enough struct {
	Now    int         `json:"now"` // the decision's value; 0 means no limit
	From   int         `json:"from"`
	Action plan.Action `json:"action"`
	Tokens uint64      `json:"tokens"` // of the window at Value
}

// WhyNot searches for the smallest budget at which a message stays. As the budget grows, policies may drop a message
// that they showed with a smaller one. WhyNot therefore tries a number of values between the decision's and one that
// fits everything, in ascending order, and then finds the exact value by bisection below the first one that works. It
// returns the errors of Replay for the decision, and not_found if the decision did not consider the message.
func (svc *Service) WhyNot(ctx context.Context, c ident.Caller, projectID, id string, req WhyNotRequest) (out WhyNot,
	err error) {
	if req.MessageID == "" {
		return out, fault.InvalidField("message_id", "required", "must name a message")
	}
	d, err := svc.decisions.Read(ctx, c, projectID, id)
	if err != nil {
		return out, err
	}
	s := &search{svc: svc, ctx: ctx, tenant: c.Tenant, d: d, message: req.MessageID}
	if err := s.makeBase(); err != nil {
		return out, err
	}
	out.Row, out.Stays = s.row, s.whole(s.row.Action)
	if !out.Stays {
		if out.MaxTokens, err = s.enough(s.tokens, s.tokensNow(), s.mostTokens()); err != nil {
			return out, err
		}
		if out.MaxMessages, err = s.enough(s.messages, s.messagesNow(), s.mostMessages()); err != nil {
			return out, err
		}
		if out.Depth, err = s.enough(s.depth, d.Shared.Settings.SessionHistoryDepth, maxDepth); err != nil {
			return out, err
		}
		without, err := s.try(s.onlyTokens(0))
		if err != nil {
			return out, err
		}
		out.Unbounded = without.stays
		if without.stays && out.MaxTokens == nil && out.MaxMessages == nil && out.Depth == nil {
			if out.OnlyTokens, err = s.enough(s.onlyTokens, s.tokensNow(), s.mostTokens()); err != nil {
				return out, err
			}
		}
	}
	out.Unbounded = out.Unbounded || out.Stays
	out.Windows = s.windows
	return out, nil
}

// maxDepth is the largest session_history_depth.
const maxDepth = 100

// search is the search for one message.
type search struct {
	svc     *Service
	ctx     context.Context
	tenant  string
	d       *decision.Decision
	asked   *window.Request
	message string
	base    *window.Draft      // the decision's window
	row     decision.ReportRow // the message's row there
	windows int
}

// tried is a budget to try; nil and 0 mean the decision's value.
type tried struct {
	tokens, messages *int
	depth            int
}

// result is the outcome of a try for the message.
type result struct {
	stays  bool
	action plan.Action
	tokens uint64
}

// makeBase makes the decision's own window.
func (s *search) makeBase() (err error) {
	if s.asked, err = window.RequestOf(s.d); err != nil {
		return err
	}
	s.windows++
	if s.base, err = s.svc.windows.Remake(s.ctx, s.tenant, s.d, nil); err != nil {
		return err
	}
	row := s.find(s.base)
	if row == nil {
		return fault.Errorf(fault.NotFound, "not_found", "decision %q did not consider a message %q", s.d.ID, s.message)
	}
	s.row = *row
	return nil
}

// find returns the message's row in the report of a window.
func (s *search) find(d *window.Draft) *decision.ReportRow {
	rows := d.Considered()
	if i := slices.IndexFunc(rows, func(r decision.ReportRow) bool { return *r.MessageID == s.message }); i >= 0 {
		return &rows[i]
	}
	return nil
}

// whole reports whether a message with this outcome counts as staying. For a message that was shortened, the request
// may be to show it in full.
func (s *search) whole(a plan.Action) bool {
	switch a {
	case plan.Keep, plan.Strip:
		return true
	case plan.Truncate:
		return s.row.Action != plan.Truncate
	}
	return false
}

// try makes the window with another budget. If the window is refused because the mandatory messages do not fit, no
// message stays.
func (s *search) try(t *tried) (result, error) {
	settings := s.d.Shared.Settings
	var ready *policy.Ready
	var err error
	if t.depth > 0 {
		if settings, err = settings.With(fmt.Appendf(nil, `{"session_history_depth":%d}`, t.depth)); err != nil {
			return result{}, err
		}
		settings.Pipeline = nil
		entries := s.d.Shared.Entries()
		own, err := s.svc.policies.Read(s.ctx, s.tenant, s.svc.projects.OwnPolicies(entries))
		if err != nil {
			return result{}, err
		}
		if ready, err = s.svc.policies.Resolver(s.ctx, s.tenant, settings, own).Make(entries); err != nil {
			return result{}, err
		}
	} else if ready, err = s.svc.policies.Pinned(s.ctx, s.tenant, s.d.Shared); err != nil {
		return result{}, err
	}
	asked := *s.asked
	if t.tokens != nil {
		asked.Budget.MaxTokens, asked.Budget.ContextWindow = t.tokens, new(int)
	}
	if t.messages != nil {
		asked.Budget.MaxMessages = t.messages
	}
	s.windows++
	made, err := s.svc.windows.Remake(s.ctx, s.tenant, s.d, &window.Variant{Request: &asked, Ready: ready})
	if known, ok := errors.AsType[*fault.Error](err); ok && known.Kind == fault.Invalid {
		return result{}, nil
	}
	if err != nil {
		return result{}, err
	}
	row := s.find(made)
	if row == nil {
		return result{}, nil
	}
	return result{s.whole(row.Action), row.Action, made.Usage.Tokens}, nil
}

// The limits that a search varies.
func (s *search) tokens(n int) *tried   { return &tried{tokens: &n} }
func (s *search) messages(n int) *tried { return &tried{messages: &n} }
func (s *search) depth(n int) *tried    { return &tried{depth: n} }
func (s *search) onlyTokens(n int) *tried {
	return &tried{tokens: &n, messages: new(int), depth: maxDepth}
}

// tokensNow returns the decision's limit for the window's tokens, without the system prompt; 0 means no limit.
func (s *search) tokensNow() int {
	b, parts := &s.asked.Budget, &s.base.Usage.Parts
	bound := *cmp.Or(b.MaxTokens, &s.d.Shared.Settings.HistoryMaxTokens)
	if window := *cmp.Or(b.ContextWindow, new(int)); window > 0 {
		room := window - *cmp.Or(b.ReserveTokens, new(int)) - int(parts.System+parts.Tools)
		if bound == 0 || room < bound {
			bound = room
		}
	}
	return bound
}

// messagesNow returns the decision's limit for the number of messages.
func (s *search) messagesNow() int {
	return *cmp.Or(s.asked.Budget.MaxMessages, &s.d.Shared.Settings.HistoryMaxMessages)
}

// mostTokens returns more than all considered messages can cost in any form.
func (s *search) mostTokens() int {
	u := &s.base.Usage
	return int(2*(u.ConsideredTokens+u.Tokens)) + 64*int(u.ConsideredMessages) + 1024
}

func (s *search) mostMessages() int { return int(s.base.Usage.ConsideredMessages) + 1 }

// steps is the number of values that a search tries in ascending order.
const steps = 24

// enough finds the first value of a limit, above the decision's, at which the message stays.
func (s *search) enough(with func(int) *tried, was, most int) (*Enough, error) {
	low, high := was, most
	if was == 0 || low >= high { // there is no limit, or everything fits
		return nil, nil
	}
	var best result
	found := false
	for i := 1; i <= steps && !found; i++ {
		n := was + (most-was)*i*i/(steps*steps) // smaller steps near the decision's value
		if n <= low {
			continue
		}
		got, err := s.try(with(n))
		if err != nil {
			return nil, err
		}
		if found = got.stays; found {
			high, best = n, got
		} else {
			low = n
		}
	}
	if !found {
		return nil, nil
	}
	for low+1 < high {
		middle := low + (high-low)/2
		got, err := s.try(with(middle))
		if err != nil {
			return nil, err
		}
		if got.stays {
			high, best = middle, got
		} else {
			low = middle
		}
	}
	return &Enough{Now: was, From: high, Action: best.action, Tokens: best.tokens}, nil
}
