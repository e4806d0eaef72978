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

// WhyNot says what would have to be otherwise for a message to stay. A bound is nil where no value of it alone is enough.
type WhyNot struct {
	Row   decision.ReportRow `json:"row"` // what became of the message
	Stays bool               `json:"stays"`
	// Each of these is a value from which the message stays, while one less loses it. All else is as it was.
	MaxTokens   *Enough `json:"max_tokens"`
	MaxMessages *Enough `json:"max_messages"`
	Depth       *Enough `json:"session_history_depth"`
	// Unbounded says that it stays without any bound on the budget, at the greatest depth. Where it takes that, OnlyTokens
	// is from which max_tokens on it stays, with nothing else that bounds the window.
	Unbounded  bool    `json:"unbounded"`
	OnlyTokens *Enough `json:"only_tokens"`
	Windows    int     `json:"windows"` // that were tried
}

// Enough is a value of a bound at which a message stays, and what becomes of it there.
type Enough struct {
	Now    int         `json:"now"` // the bound that the decision had; 0: none
	From   int         `json:"from"`
	Action plan.Action `json:"action"`
	Tokens uint64      `json:"tokens"` // of the window there
}

// WhyNot looks for the smallest budget at which a message stays. What policies do may jump with the budget, so that a
// message can come, go and come again: a number of budgets between the decision's and one that takes everything are tried
// from below, and between the first of them at which the message stays and the one before the exact value is found. It
// answers what Replay answers for the decision, and not_found where it did not consider the message.
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
	if err := s.begin(); err != nil {
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

// maxDepth is the greatest session_history_depth.
const maxDepth = 100

// search is one question for a message.
type search struct {
	svc     *Service
	ctx     context.Context
	tenant  string
	d       *decision.Decision
	asked   *window.Request
	message string
	base    *window.Draft      // as the decision was
	row     decision.ReportRow // of the message there
	windows int
}

// tried is a budget that is tried in place of the decision's; nil and 0 stand for what the decision had.
type tried struct {
	tokens, messages *int
	depth            int
}

// result is what became of the message.
type result struct {
	stays  bool
	action plan.Action
	tokens uint64
}

// begin makes the decision's own window.
func (s *search) begin() (err error) {
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

// find is the message's row in the report of a window.
func (s *search) find(d *window.Draft) *decision.ReportRow {
	rows := d.Considered()
	if i := slices.IndexFunc(rows, func(r decision.ReportRow) bool { return *r.MessageID == s.message }); i >= 0 {
		return &rows[i]
	}
	return nil
}

// whole tells whether a message that ends so counts as staying. What is cut may be asked for whole.
func (s *search) whole(a plan.Action) bool {
	switch a {
	case plan.Keep, plan.Strip:
		return true
	case plan.Truncate:
		return s.row.Action != plan.Truncate
	}
	return false
}

// try makes the window with another budget. A window that is refused, because what must stay does not fit, has no message
// that stays.
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

// The bounds that a search moves.
func (s *search) tokens(n int) *tried   { return &tried{tokens: &n} }
func (s *search) messages(n int) *tried { return &tried{messages: &n} }
func (s *search) depth(n int) *tried    { return &tried{depth: n} }
func (s *search) onlyTokens(n int) *tried {
	return &tried{tokens: &n, messages: new(int), depth: maxDepth}
}

// tokensNow is how many tokens the decision's window might take without the system prompt; 0: there was no bound.
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

// messagesNow is how many messages it might show.
func (s *search) messagesNow() int {
	return *cmp.Or(s.asked.Budget.MaxMessages, &s.d.Shared.Settings.HistoryMaxMessages)
}

// mostTokens is more than all considered messages can take, however they are shown.
func (s *search) mostTokens() int {
	u := &s.base.Usage
	return int(2*(u.ConsideredTokens+u.Tokens)) + 64*int(u.ConsideredMessages) + 1024
}

func (s *search) mostMessages() int { return int(s.base.Usage.ConsideredMessages) + 1 }

// steps is how many values a search tries from below.
const steps = 24

// enough finds the first value of a bound above the decision's at which the message stays.
func (s *search) enough(with func(int) *tried, was, most int) (*Enough, error) {
	low, high := was, most
	if was == 0 || low >= high { // it has no bound, or takes everything
		return nil, nil
	}
	var best result
	found := false
	for i := 1; i <= steps && !found; i++ {
		n := was + (most-was)*i*i/(steps*steps) // finer where it is near
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
