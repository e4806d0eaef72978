package lab

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/window"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

const checkSelfTests = "self_tests"

const (
	// maxSelfTests and maxSelfTestBytes limit the tests of one manifest, because every upload runs all of them.
	maxSelfTests     = 32
	maxSelfTestBytes = 256 << 10
	// selfTestTime is the current time in tests, so that they always give the same result.
	selfTestTime = 1_767_225_600_000 // 2026-01-01T00:00:00Z
)

// selfTest is one test in a manifest: a transcript, and the expected outcome of each of its messages.
// docs/SELF_TESTS.md describes it.
type selfTest struct {
	Name     string            `json:"name"`
	Config   json.RawMessage   `json:"config"`
	Messages []json.RawMessage `json:"messages"`
	Pending  []json.RawMessage `json:"pending,omitempty"`
	Viewer   ident.Viewer      `json:"viewer"`
	Budget   window.Budget     `json:"budget"`
	Expect   []string          `json:"expect"`            // action, or action:reason_code, for each message
	Inserted []string          `json:"inserted,omitzero"` // texts that the policy inserts; null means any
	Outcome  plan.Status       `json:"outcome,omitempty"` // empty means ok
	HookCase
}

// SelfTests runs a manifest's tests. It returns a *plan.Refusal if a test fails, or if there are too many tests or they
// are too long, and policy_unavailable if a test could not run.
func (svc *Service) SelfTests(ctx context.Context, tenant string, p plan.Policy) (plan.Check, error) {
	tests := p.Manifest.Tests
	size := 0
	for _, raw := range tests {
		size += len(raw)
	}
	switch {
	case len(tests) > maxSelfTests:
		return plan.Check{}, &plan.Refusal{Check: checkSelfTests, Found: int64(len(tests)), Limit: maxSelfTests,
			Detail: "the manifest has too many tests"}
	case size > maxSelfTestBytes:
		return plan.Check{}, &plan.Refusal{Check: checkSelfTests, Found: int64(size), Limit: maxSelfTestBytes,
			Detail: "the manifest's tests are too long"}
	}
	for i, raw := range tests {
		var t selfTest
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		wrong, err := "", d.Decode(&t)
		if err != nil {
			wrong = err.Error()
		} else if wrong, err = svc.selfTest(ctx, tenant, p, &t); err != nil {
			return plan.Check{}, err
		}
		if wrong != "" {
			return plan.Check{}, &plan.Refusal{Check: checkSelfTests,
				Detail: fmt.Sprintf("test %d %q: %s", i+1, t.Name, wrong)}
		}
	}
	return plan.Check{Name: checkSelfTests, OK: true, Detail: fmt.Sprintf("%d passed", len(tests))}, nil
}

// selfTest runs one test and describes how the result differs from what it expects.
func (svc *Service) selfTest(ctx context.Context, tenant string, p plan.Policy, t *selfTest) (wrong string, err error) {
	named, memories, err := t.hook()
	if err == nil && !p.Has(named) {
		return fmt.Sprintf("the module does not have the hook %s", named), nil
	}
	if memories {
		wrong, err = svc.hookTest(ctx, tenant, p, named, t)
	}
	if refused, ok := errors.AsType[*fault.Error](err); ok && refused.Kind == fault.Invalid {
		return refused.Detail, nil
	}
	if memories || err != nil {
		return wrong, err
	}
	d, err := svc.selfTestWindow(ctx, tenant, p, t)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if refused, ok := errors.AsType[*fault.Error](err); ok && refused.Kind == fault.Invalid {
		return refused.Detail, nil
	}
	if err != nil {
		return "", err
	}
	got := d.Pipeline[0]
	if wrong, err := t.compareOutcome(got.Outcome, got.Detail); wrong != "" || err != nil {
		return wrong, err
	}
	if len(d.Pipeline) > 1 {
		return d.Pipeline[1].Detail, nil // the validity check failed
	}
	return t.compare(d), nil
}

// compareOutcome describes how a call's outcome differs from what the test expects.
func (t *selfTest) compareOutcome(got plan.Status, detail string) (wrong string, err error) {
	want := cmp.Or(t.Outcome, plan.StatusOK)
	switch {
	case got == plan.StatusUnavailable:
		return "", fault.Errorf(fault.Unavailable, "policy_unavailable", "test %q could not run: %s", t.Name, detail)
	case got == plan.StatusTimeout:
		// No test can expect a timeout: it would depend on the machine.
		return fmt.Sprintf("the outcome is %s (%s)", got, detail), nil
	case got != want:
		return fmt.Sprintf("the outcome is %s (%s), not %s", got, detail, want), nil
	}
	return "", nil
}

// hookTest runs one test of a memory hook and describes how the ops differ from what it expects.
func (svc *Service) hookTest(ctx context.Context, tenant string, p plan.Policy, named plan.Hook, t *selfTest) (wrong string, err error) {
	if t.Pending != nil || t.Inserted != nil || t.Viewer != (ident.Viewer{}) || t.Budget != (window.Budget{}) {
		return "pending, inserted, viewer and budget are for windows", nil
	}
	table, err := svc.table(named, &t.HookCase, t.Messages, selfTestTime)
	if err != nil {
		return "", err
	}
	s := policy.Step{Policy: p.Manifest.Name, Digest: p.Digest, Own: true}
	if wrong := s.Configure(svc.projects.DefaultSettings(), "config", t.Config, p); wrong != nil {
		return "", wrong
	}
	got, ops, err := svc.tryHook(ctx, tenant, s, table, t.Answer)
	if err != nil {
		return "", err
	}
	if wrong, err := t.compareOutcome(got.Outcome, got.Detail); wrong != "" || err != nil {
		return wrong, err
	}
	shown := make([]string, len(ops))
	same := len(ops) == len(t.Expect)
	for i := range ops {
		shown[i] = ops[i].String()
		same = same && ops[i].is(t.Expect[i])
	}
	if !same {
		return fmt.Sprintf("the ops are %q, not %q", shown, t.Expect), nil
	}
	return "", nil
}

// selfTestWindow makes a test's window with only this policy. The budget has no limits unless the test sets some.
func (svc *Service) selfTestWindow(ctx context.Context, tenant string, p plan.Policy, t *selfTest) (*window.Draft,
	error) {
	turns, skipped, err := splitTurns(chat.OpenAIChat, t.Messages)
	if err != nil {
		return nil, err
	}
	if len(skipped) > 0 {
		return nil, fault.InvalidField("messages", "system_not_stored", "message %d is never stored", skipped[0].Index)
	}
	settings := svc.projects.DefaultSettings()
	s := policy.Step{Policy: p.Manifest.Name, Digest: p.Digest, Own: true}
	if wrong := s.Configure(settings, "config", t.Config, p); wrong != nil {
		return nil, wrong
	}
	ready, err := svc.policies.Resolver(ctx, tenant, settings, policy.Set{}).Make(nil)
	if err != nil {
		return nil, err
	}
	ready.Steps = []policy.Step{s}
	budget := t.Budget
	budget.MaxMessages = cmp.Or(budget.MaxMessages, new(int))
	budget.MaxTokens = cmp.Or(budget.MaxTokens, new(int))
	return svc.windows.DraftOfTranscript(ctx, tenant, turns, time.UnixMilli(selfTestTime), ready,
		&window.Request{Viewer: t.Viewer, Budget: budget, Pending: t.Pending}, false)
}

// compare describes how the window differs from what the test expects.
func (t *selfTest) compare(d *window.Draft) string {
	rows := d.Considered()
	if len(t.Expect) != len(rows) {
		return fmt.Sprintf("expect has %d entries for %d messages", len(t.Expect), len(rows))
	}
	for i, row := range rows {
		action := string(row.Action)
		if t.Expect[i] != action && t.Expect[i] != action+":"+row.ReasonCode {
			return fmt.Sprintf("message %d: %s:%s, not %s", i, action, row.ReasonCode, t.Expect[i])
		}
	}
	if t.Inserted != nil && !slices.Equal(d.Inserted, t.Inserted) {
		return fmt.Sprintf("inserted %q, not %q", d.Inserted, t.Inserted)
	}
	return ""
}
