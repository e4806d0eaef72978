package window

import (
	"cmp"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// outcome is the result of the pipeline.
type outcome struct {
	items     []plan.Item
	fates     []plan.Fate // by considered row
	steps     []decision.Step
	ask       uint64          // the message up to which the pipeline requests a summary, or 0
	violation *plan.Violation // of an unchecked window
	// Cost of the window without the request's system prompt.
	messages uint32
	tokens   uint64
	// hash and the number of messages are known once the window is rendered. hash is hexadecimal.
	hash     string
	rendered uint64
	trace    prefix.Trace
	compared prompt.Compared
}

var logLevels = [...]string{"debug", "info", "warn", "error"}

// decide runs the pipeline and checks the result. If it is invalid, the fallback pipeline runs, and if that fails too,
// only the mandatory messages are left.
func (a *assembly) decide(l limits) error {
	if a.tight { // in the replay of such a window
		l = l.withoutOpening()
	}
	law := a.law(l)
	a.startOver(l)
	if err := a.runAll(a.Steps[a.Guards():], ""); err != nil {
		return err
	}
	violation := law.Check(a.table.items, a.result.items)
	if violation == nil {
		a.settle(law)
		return nil
	}
	if needed, over := a.overBudget(); over {
		if a.Settings.Oversized == "refuse" {
			return a.tooManyTokens(needed)
		}
		// The policies did not make it fit, or the result is invalid for another reason; then the fallback pipeline
		// runs.
		if err := a.shorten(); err != nil {
			return err
		}
		return a.decide(a.limits)
	}
	if violation.Rule == plan.RuleBudgetTokens && l.opening > 0 && a.outcomes == nil {
		// Policies cannot see the opening message that the format adds if a window begins with the assistant. If the
		// window exceeds its budget only because of it, they run again with a smaller budget.
		if _, bare := (&plan.Law{}).Cost(a.result.items, 0); bare <= uint64(l.tokens) && l.tokens > l.opening {
			a.tight = true
			return a.decide(l)
		}
	}
	if a.unchecked {
		a.result.violation = violation
		a.settle(law)
		return nil
	}
	done, ask := a.result.steps, a.result.ask
	a.startOver(l.withoutOpening())
	a.result.steps, a.result.ask = done, ask
	if err := a.runAll(a.Fallback, violation.Error()); err != nil {
		return err
	}
	if law.Check(a.table.items, a.result.items) != nil {
		a.leastWindow()
	}
	a.settle(law)
	return nil
}

// withoutOpening returns the limits less the opening message that the format may add.
func (l limits) withoutOpening() limits {
	if l.tokens > l.opening {
		l.tokens -= l.opening
	}
	l.opening = 0
	return l
}

// startOver resets the result to what the guards left, with the given limits.
func (a *assembly) startOver(l limits) {
	a.table.request.BudgetTokens = l.tokens
	a.result = outcome{items: a.table.guarded, fates: a.freshFates(), ask: a.guardsAsk,
		steps: append(make([]decision.Step, 0, len(a.Steps)), a.guards...)}
}

// freshFates returns the rows' fates before the first step.
func (a *assembly) freshFates() []plan.Fate {
	a.scratch.fates[1] = append(a.scratch.fates[1][:0], a.table.fates...)
	return a.scratch.fates[1]
}

func (a *assembly) settle(law plan.Law) {
	law.Opening = a.limits.opening
	if a.compacted > 0 {
		plan.LeadWith(a.result.items, a.compacted)
		law.Opening = 0
	}
	a.result.messages, a.result.tokens = law.Cost(a.result.items, 0)
}

// runAll runs steps in order. If violation is not empty, they are the fallback for a window that failed the check.
func (a *assembly) runAll(steps []policy.Step, violation string) error {
	for i := range steps {
		out, err := a.runStep(&steps[i], int16(len(a.result.steps)))
		if err != nil {
			return err
		}
		if violation == "" && a.verdicts != nil {
			a.verdicts[len(a.guards)+i] = policy.Verdict{Status: out.Outcome, Detail: out.Detail}
		}
		if violation != "" {
			out.Detail = "the pipeline's window broke the law: " + violation
			if out.Outcome == plan.StatusOK {
				out.Outcome = plan.StatusFallback
			}
		} else if out.Outcome != plan.StatusOK && steps[i].OnError == "error" {
			return stepFailed(&out)
		}
		out.Limit(a.result.steps)
		a.result.steps = append(a.result.steps, out)
	}
	return nil
}

// stepFailed returns the error of a request that is refused because a step failed.
func stepFailed(s *decision.Step) error {
	return fault.Errorf(fault.Invalid, "policy_failed", "policy %s@%d ended with %s: %s", s.Policy, s.Version, s.Outcome,
		s.Detail)
}

// runStep runs one policy on the current table. A failed step changes nothing. runStep itself returns an error only if
// stored content could not be read.
func (a *assembly) runStep(s *policy.Step, number int16) (decision.Step, error) {
	out := decision.Step{Policy: s.Policy, Version: s.Version, Digest: s.Hex}
	again := int(number) < len(a.outcomes) // in a replay
	if again && !reproducible(a.outcomes[number].Outcome) {
		return a.outcomes[number], nil
	}
	if s.Broken != "" {
		out.Outcome, out.Detail = plan.StatusUnavailable, s.Broken
		return out, nil
	}
	req := a.table.request
	req.Config = s.Entries
	a.records = plan.Records(a.records[:0], a.result.items)
	req.Records = a.records
	count := func(s string, stop func() bool) (int, bool) { return a.svc.sessions.CountUntil(a.Encoding, s, stop) }
	texts := &plan.ItemTexts{Items: a.result.items, Source: a, Rate: a.svc.Rate, Count: count}
	if a.Settings.TokenScale != 1 {
		texts.Count = func(s string, stop func() bool) (int, bool) {
			n, whole := count(s, stop)
			return int(a.Scaled(n)), whole
		}
	}
	var result plan.Result
	var failed error // stored content could not be read
	apply := func(ops []plan.Op, meter plan.Meter) (err error) {
		if len(ops) == 0 {
			result.Items = a.result.items
			return nil
		}
		if a.checking {
			if err := onlyReplaces(ops); err != nil {
				return err
			}
		}
		defer func(unmetered func(string) int) { a.Count = unmetered }(a.Count)
		a.Count = tokens.Metered(meter, count)
		result, err = plan.Apply(a.result.items, ops, number, a, meter)
		if _, bad := errors.AsType[*plan.BadPlanError](err); err != nil && !bad && meter.Spend(0) == nil {
			failed = err
		}
		return err
	}
	began := a.svc.db.Clock()
	got := a.svc.policies.Call(a.ctx, plan.Call{Tenant: a.tenant, Module: s.Digest, Request: &req, Texts: texts,
		Apply: apply, Again: again})
	out.Duration = uint64(max(0, a.svc.db.Clock().Sub(began).Microseconds()))
	if failed = cmp.Or(failed, texts.Err); failed != nil {
		return out, failed
	}
	if again && !reproducible(got.Status) {
		return out, fault.Errorf(fault.Unavailable, "policy_unavailable", "policy %s: %s", s.Policy, got.Detail)
	}
	out.Fuel, out.Outcome, out.Detail = got.Fuel, got.Status, got.Detail
	for _, line := range got.Log {
		out.Log = append(out.Log, decision.LogLine{
			Level: logLevels[min(int(line.Level), len(logLevels)-1)], Message: line.Message})
	}
	if got.Status != plan.StatusOK {
		return out, nil
	}
	a.result.items = result.Items
	a.result.ask = max(a.result.ask, result.AskSummary)
	for _, f := range result.Fates {
		if was := &a.result.fates[f.Row]; f.Action != plan.Keep || was.Action == "" {
			*was = f.Fate // a pin is reported only if nothing else happened to the atom
		}
	}
	return out, nil
}

// reproducible reports whether a step with the same inputs always ends with this status.
// Quotas grew once, so a step that ended at one before might not any more.
func reproducible(s plan.Status) bool {
	return s != plan.StatusTimeout && s != plan.StatusUnavailable && s != plan.StatusHostQuota
}

// leastWindow keeps only the mandatory messages. Such a window is valid, because their tokens were checked before.
func (a *assembly) leastWindow() {
	a.result.items = nil
	a.result.fates = a.freshFates()
	for i := range a.table.guarded {
		it := &a.table.guarded[i]
		if it.Flags&plan.FlagMandatory != 0 {
			a.result.items = append(a.result.items, *it)
			continue
		}
		for _, row := range it.Shows() {
			a.result.fates[row] = plan.Fate{Action: plan.Drop, Step: -1,
				Reason: "law_minimum: neither the pipeline nor the fallback gave a lawful window"}
		}
	}
}
