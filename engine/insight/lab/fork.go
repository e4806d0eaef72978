package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// ForkRequest says what to change in a decision. Fields that are left out keep the decision's values.
type ForkRequest struct {
	Budget   *window.Budget         `json:"budget,omitempty"` // field by field
	Pipeline []project.PipelineStep `json:"pipeline,omitempty"`
	Format   string                 `json:"format,omitempty"`
	Viewer   *ident.Viewer          `json:"viewer,omitempty"`
	Settings json.RawMessage        `json:"settings,omitempty"` // like a patch of a project's settings
	Record   bool                   `json:"record,omitempty"`   // store the fork as a decision
}

// Forked is the window that other rules make of a decision's inputs.
type Forked struct {
	Fork
	window.Rendered
	window.Explained
	Report []decision.ReportRow `json:"report"`
}

// Fork describes a fork, apart from its window.
type Fork struct {
	DecisionID string      `json:"decision_id,omitzero"` // of the fork, if it is stored
	ForkOf     string      `json:"fork_of"`
	Differs    Differences `json:"differs"`
}

// Differences are the differences from the decision's own window: before is the decision's, after the fork's.
type Differences struct {
	Messages        Compared     `json:"messages"`
	Tokens          Compared     `json:"tokens"`
	ChangedMessages int          `json:"changed_messages"`
	Changed         []Difference `json:"changed"`
}

// Difference is a message with different outcomes. A side is null if that window did not consider the message.
type Difference struct {
	MessageID string       `json:"message_id"`
	Turn      uint32       `json:"turn"`
	Before    *MessageFate `json:"before"`
	After     *MessageFate `json:"after"`
}

// Fork makes a window from a decision's inputs with other rules, and appends the JSON of a Forked to dst. It returns
// the errors of Replay, those of Assemble for an invalid request, and those of PatchSettings for invalid settings.
func (svc *Service) Fork(ctx context.Context, c ident.Caller, projectID, id string, req *ForkRequest, dst []byte,
) ([]byte, error) {
	d, err := svc.decisions.Read(ctx, c, projectID, id)
	if err != nil {
		return dst, err
	}
	settings, err := d.Shared.Settings.With(req.Settings)
	if err != nil {
		return dst, err
	}
	entries := d.Shared.Entries()
	entries = entries[len(project.Guards(entries)):]
	if settings.Pipeline != nil {
		entries = settings.Pipeline
	}
	if req.Pipeline != nil {
		entries = req.Pipeline
	}
	guards, err := svc.guardsOf(d)
	if err != nil {
		return dst, err
	}
	own, err := svc.policies.Read(ctx, c.Tenant, svc.projects.OwnPolicies(slices.Concat(guards, entries)))
	if err != nil {
		return dst, err
	}
	settings.Pipeline = nil
	ready, err := svc.policies.Resolver(ctx, c.Tenant, settings, own).MakeGuarded(guards, entries)
	if err != nil {
		return dst, err
	}
	asked, err := window.RequestOf(d)
	if err != nil {
		return dst, err
	}
	req.apply(asked)
	was, err := svc.windows.Remake(ctx, c.Tenant, d, nil)
	if err != nil {
		return dst, err
	}
	is, err := svc.windows.Remake(ctx, c.Tenant, d, &window.Variant{Request: asked, Ready: ready})
	if err != nil {
		return dst, err
	}
	out := Fork{ForkOf: id, Differs: differences(was, is)}
	if req.Record {
		asked.Pipeline = nil
		raw, err := json.Marshal(asked)
		if err != nil {
			return dst, err
		}
		if out.DecisionID, err = svc.windows.Keep(ctx, c.Tenant, d, is, raw); err != nil {
			return dst, err
		}
	}
	members, err := json.Marshal(out)
	if err != nil {
		return dst, err
	}
	return is.AppendMembers(append(dst, members[:len(members)-1]...))
}

// guardsOf returns the guards of a decision, or if it has none those that its project has now: a fork can replace all
// other steps.
func (svc *Service) guardsOf(d *decision.Decision) ([]project.PipelineStep, error) {
	if guards := project.Guards(d.Shared.Entries()); len(guards) > 0 {
		return guards, nil
	}
	set, err := svc.projects.SetupOf(d.Project)
	if err != nil {
		return nil, err
	}
	return project.Guards(set.Settings.Pipeline), nil
}

// apply applies the changes of the fork to a request.
func (r *ForkRequest) apply(to *window.Request) {
	if r.Format != "" {
		was := cmp.Or(to.Format, chat.OpenAIChat.String())
		if was == chat.Text.String() { // it has no messages
			was = chat.OpenAIChat.String()
		}
		to.PendingFormat = cmp.Or(to.PendingFormat, was) // the format in which the pending messages were posted
		to.Format = r.Format
	}
	if r.Viewer != nil {
		to.Viewer = *r.Viewer
	}
	if b := r.Budget; b != nil {
		to.Budget = b.Over(to.Budget)
	}
}

// differences lists the messages with different outcomes, oldest first.
func differences(was, is *window.Draft) Differences {
	out := Differences{Messages: Compared{was.Usage.HistoryMessages, is.Usage.HistoryMessages},
		Tokens: Compared{was.Usage.Tokens, is.Usage.Tokens}, Changed: []Difference{}}
	before, after := was.Considered(), is.Considered()
	note := func(b, a *decision.ReportRow) {
		row, d := cmp.Or(b, a), Difference{}
		d.MessageID, d.Turn = *row.MessageID, *cmp.Or(row.Turn, new(uint32))
		if b != nil {
			fate := fateOf(b)
			d.Before = &fate
		}
		if a != nil {
			fate := fateOf(a)
			d.After = &fate
		}
		if b != nil && a != nil && *d.Before == *d.After {
			return
		}
		if out.ChangedMessages++; out.ChangedMessages <= maxChanged {
			out.Changed = append(out.Changed, d)
		}
	}
	// Both sides list messages of one session in the same order; only their beginnings may differ.
	at := map[string]int{}
	for i := range after {
		at[*after[i].MessageID] = i
	}
	next := 0
	for i := range before {
		j, ok := at[*before[i].MessageID]
		if !ok {
			note(&before[i], nil)
			continue
		}
		for ; next < j; next++ {
			note(nil, &after[next])
		}
		note(&before[i], &after[j])
		next = j + 1
	}
	for ; next < len(after); next++ {
		note(nil, &after[next])
	}
	return out
}
