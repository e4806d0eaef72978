package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// Recorded is what one step of a decision saw and did, as cases for trying policies.
type Recorded struct {
	DecisionID string         `json:"decision_id"`
	Step       int            `json:"step"` // in the decision's pipeline
	Policy     string         `json:"policy"`
	Version    int            `json:"version"`
	Outcome    plan.Status    `json:"outcome"`
	Run        RecordedRun    `json:"run"`  // the body of a run on exactly this input
	Test       selfTest       `json:"test"` // almost the same input, as a test for a manifest
	Passes     bool           `json:"passes"`
	Differs    string         `json:"differs,omitempty"` // why Test does not pass
	Records    []RecordedItem `json:"records"`           // the records of the window, in order
}

// RecordedRun identifies the case in a run.
type RecordedRun struct {
	Project    string          `json:"project_id"`
	DecisionID string          `json:"decision_id"`
	Step       int             `json:"step"`
	Config     json.RawMessage `json:"config"`
}

// RecordedItem is one record that the step saw.
type RecordedItem struct {
	MessageID  *string `json:"message_id"` // null for messages that Mneme or a policy inserted
	Turn       uint32  `json:"turn"`
	Atom       uint32  `json:"atom"`
	Role       uint8   `json:"role"`
	Kind       uint8   `json:"kind"`
	Flags      uint32  `json:"flags"`
	Tokens     uint32  `json:"tokens"`
	Compressed uint32  `json:"compressed_tokens"`
	Text       string  `json:"text"` // of messages that earlier steps changed or inserted; otherwise ""
}

// Recorded returns what a step of a decision saw. It returns the errors of Replay, and out_of_range if there is no such
// step.
func (svc *Service) Recorded(ctx context.Context, c ident.Caller, projectID, id string, step int) (Recorded, error) {
	d, err := svc.decisions.Read(ctx, c, projectID, id)
	if err != nil {
		return Recorded{}, err
	}
	if step < 0 || step >= len(d.Shared.Steps) {
		return Recorded{}, fault.InvalidField("step", "out_of_range", "must be from 0 to %d", len(d.Shared.Steps)-1)
	}
	pinned, err := svc.policies.Pinned(ctx, c.Tenant, d.Shared)
	if err != nil {
		return Recorded{}, err
	}
	asked, err := window.RequestOf(d)
	if err != nil {
		return Recorded{}, err
	}
	before, err := svc.upTo(ctx, c.Tenant, d, asked, pinned, step)
	if err != nil {
		return Recorded{}, err
	}
	after, err := svc.upTo(ctx, c.Tenant, d, asked, pinned, step+1)
	if err != nil {
		return Recorded{}, err
	}
	s := &pinned.Steps[step]
	out := Recorded{DecisionID: id, Step: step, Policy: s.Policy, Version: s.Version, Outcome: after.Pipeline[step].Outcome,
		Run: RecordedRun{projectID, id, step, s.Config}, Records: []RecordedItem{}}
	out.Test = selfTest{Name: fmt.Sprintf("step %d of %s", step, id), Config: s.Config, Viewer: asked.Viewer,
		Messages: []json.RawMessage{}, Expect: []string{}, Inserted: inserted(before, after), Outcome: out.Outcome}
	messages, tokens := int(before.Table.BudgetMessages), int(before.Table.BudgetTokens)
	out.Test.Budget = window.Budget{MaxMessages: &messages, MaxTokens: &tokens}
	if err := out.read(before, after); err != nil {
		return out, err
	}
	if out.Differs, err = svc.tried(ctx, c.Tenant, s, &out.Test); err != nil {
		return out, err
	}
	out.Passes = out.Differs == ""
	return out, nil
}

// upTo returns a decision's window with only the first steps of its pipeline.
func (svc *Service) upTo(ctx context.Context, tenant string, d *decision.Decision, asked *window.Request,
	pinned *policy.Ready, steps int) (*window.Draft, error) {
	ready := *pinned
	ready.Steps = pinned.Steps[:steps]
	return svc.windows.Remake(ctx, tenant, d, &window.Variant{Request: asked, Ready: &ready, Unchecked: true,
		Outcomes: d.Steps[:steps:steps]})
}

// inserted returns the texts that a step inserted.
func inserted(before, after *window.Draft) []string {
	texts := slices.Clone(after.Inserted)
	for _, text := range before.Inserted {
		if i := slices.Index(texts, text); i >= 0 {
			texts = slices.Delete(texts, i, i+1)
		}
	}
	return append([]string{}, texts...)
}

// read fills in the records that the step saw, and a test's messages with their outcomes.
func (r *Recorded) read(before, after *window.Draft) error {
	fates := after.Considered()
	return before.Each(func(it *plan.Item, m *chat.Message, row int) error {
		rec := RecordedItem{Turn: it.Turn, Atom: it.Atom, Role: uint8(it.Role), Kind: uint8(it.Kind), Flags: uint32(it.Flags),
			Tokens: it.Tokens, Compressed: it.CompressedTokens, Text: it.Text}
		if it.Change == plan.Notice || it.Change == plan.Answer {
			r.Records = append(r.Records, rec)
			return nil
		}
		fate := &fates[row]
		rec.MessageID = fate.MessageID
		r.Records = append(r.Records, rec)
		posted, err := posted(m, it)
		if err != nil {
			return err
		}
		if it.Flags&plan.FlagPending != 0 {
			r.Test.Pending = append(r.Test.Pending, posted)
		} else {
			r.Test.Messages = append(r.Test.Messages, posted)
		}
		word := string(plan.Keep)
		if fate.Step != nil && int(*fate.Step) == r.Step {
			word = string(fate.Action) + ":" + fate.ReasonCode
		}
		r.Test.Expect = append(r.Test.Expect, word)
		return nil
	})
}

// posted returns a message as it would be posted in openai.chat, with Mneme's own fields.
func posted(m *chat.Message, it *plan.Item) (json.RawMessage, error) {
	var b chat.Builder
	b.Reset(chat.OpenAIChat, nil, render.SystemPrompt{})
	fr := chat.Render(chat.OpenAIChat, m, chat.Options{Turn: it.Turn})
	b.Add(&fr, it.Seq)
	raw := strings.TrimSuffix(strings.TrimPrefix(string(b.Finish().Messages), "["), "]")
	own, err := json.Marshal(struct {
		Agent      string   `json:"agent,omitempty"`
		Delegation string   `json:"delegation_id,omitempty"`
		Tags       []string `json:"tags,omitempty"`
	}{m.Agent, m.Delegation, m.Tags})
	if err != nil || len(own) == 2 {
		return json.RawMessage(raw), err
	}
	return json.RawMessage(strings.TrimSuffix(raw, "}") + "," + string(own[1:])), nil
}

// tried runs a self-test on the step that it was made from, and describes how the result differs from the expected one.
func (svc *Service) tried(ctx context.Context, tenant string, s *policy.Step, t *selfTest) (string, error) {
	turns, _, err := splitTurns(chat.OpenAIChat, t.Messages)
	if err != nil {
		return err.Error(), nil
	}
	ready, err := svc.policies.Resolver(ctx, tenant, svc.projects.DefaultSettings(), policy.Set{}).Make(nil)
	if err != nil {
		return "", err
	}
	ready.Steps = []policy.Step{*s}
	d, err := svc.windows.DraftOfTranscript(ctx, tenant, turns, time.UnixMilli(selfTestTime), ready,
		&window.Request{Viewer: t.Viewer, Budget: t.Budget, Pending: t.Pending}, true)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return err.Error(), nil
	case d.Pipeline[0].Outcome != t.Outcome:
		return fmt.Sprintf("the outcome is %s, not %s", d.Pipeline[0].Outcome, t.Outcome), nil
	}
	return t.compare(d), nil
}
