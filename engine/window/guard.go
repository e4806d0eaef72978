package window

import (
	"fmt"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// guard runs the pipeline's guards on the whole table, in which each reminder is a record before its message. What they
// leave is the table that the other steps, the fallback, the least window and the cut of oversized texts start from. A
// guard that does not end well, or whose result is invalid for another reason than a budget, fails the request with
// policy_failed.
func (a *assembly) guard() error {
	a.guards, a.guardsAsk, a.table.guarded = nil, 0, a.table.items
	n := a.Guards()
	if n == 0 {
		return nil
	}
	a.startOver(a.limits)
	table, reminders := a.memories.asRecords(a.table.items)
	a.result.items = table
	for i := range n {
		out, err := a.runGuard(i)
		if err != nil {
			return err
		}
		if v := plan.CheckDerived(table, a.result.items); v != nil {
			out.Outcome, out.Detail = plan.StatusBadPlan, "its result is not lawful: "+v.Error()
			return stepFailed(&out)
		}
	}
	a.guards, a.guardsAsk = slices.Clone(a.result.steps), a.result.ask
	a.table.fates = slices.Clone(a.result.fates)
	a.table.guarded = a.memories.fromRecords(a.result.items, reminders)
	return a.ctx.Err()
}

// runGuard runs the guard at index i on the current result.
func (a *assembly) runGuard(i int) (decision.Step, error) {
	out, err := a.runStep(&a.Steps[i], int16(len(a.result.steps)))
	if err == nil && out.Outcome != plan.StatusOK {
		err = stepFailed(&out)
	}
	if err != nil {
		return out, err
	}
	out.Limit(a.result.steps)
	a.result.steps = append(a.result.steps, out)
	return out, nil
}

// guardSupplied lets the guards look at texts that came after them: the running summary, and what other steps inserted or
// put in the place of texts and arguments. In a table of these records alone they may only replace and mask. A request fails with
// policy_failed if a guard does not end well, or if the window is no longer valid.
func (a *assembly) guardSupplied() error {
	n := a.Guards()
	if n == 0 {
		return nil
	}
	var supplied []plan.Item
	var at []int
	for i := range a.result.items {
		it := &a.result.items[i]
		if it.Change == plan.Notice && it.Kind == plan.KindSummary || it.Supplied && int(it.Step) >= n {
			at, supplied = append(at, i), append(supplied, *it)
		}
	}
	if len(at) == 0 {
		return nil
	}
	window := slices.Clone(a.result.items)
	a.result.items, a.checking = supplied, true
	defer func() { a.checking = false }()
	for i := range n {
		if _, err := a.runGuard(i); err != nil {
			return err
		}
	}
	for i := range at {
		window[at[i]] = a.result.items[i]
	}
	a.result.items = window
	law := a.law(a.limits)
	if !a.unchecked {
		if v := law.Check(a.table.items, window); v != nil {
			return fault.Errorf(fault.Invalid, "policy_failed", "with the texts that the guards replaced, the window breaks the law: %s", v)
		}
	}
	a.settle(law)
	return nil
}

// onlyReplaces returns a *plan.BadPlanError if a plan does anything but replace texts and arguments.
func onlyReplaces(ops []plan.Op) error {
	for n := range ops {
		if code := ops[n].Code; code != plan.OpReplace && code != plan.OpMask && code != plan.OpKeep {
			return &plan.BadPlanError{Op: n, Detail: fmt.Sprintf("is op %d; a guard that looks at the texts of later steps can only replace or mask them",
				code)}
		}
	}
	return nil
}

// asRecords returns a copy of the items in which each reminder is an item of its own before its message, and the
// reminders by the rows of their messages. Until fromRecords puts them back, the messages have none.
func (s *Memories) asRecords(items []plan.Item) ([]plan.Item, map[int32]*reminder.Message) {
	reminders := s.reminders
	table := make([]plan.Item, 0, len(items)+len(reminders))
	for i := range items {
		it := items[i]
		if shown := s.Of(&it); shown != nil {
			it.Tokens -= shown.Tokens
			notice := plan.NoticeItem(plan.KindMemory, shown.Text, shown.Tokens, -1, shown.Reason)
			notice.Rows = []int32{it.Row}
			table = append(table, notice)
		}
		table = append(table, it)
	}
	s.reminders = nil
	return table, reminders
}

// fromRecords is the inverse of asRecords, for what the guards left. A reminder that a guard dropped is not shown.
func (s *Memories) fromRecords(items []plan.Item, reminders map[int32]*reminder.Message) []plan.Item {
	left := make([]plan.Item, 0, len(items))
	shown := map[int32]reminder.Message{}
	for i := range items {
		it := &items[i]
		if it.Change != plan.Notice || it.Kind != plan.KindMemory || len(it.Rows) == 0 {
			left = append(left, *it)
			continue
		}
		m := *reminders[it.Rows[0]]
		if it.Text != m.Text {
			m.Text, m.Tokens = it.Text, s.saidTokens(it.Text, m.AsSystem)
		}
		shown[it.Rows[0]] = m
	}
	for i := range left {
		it := &left[i]
		if m, ok := shown[it.Row]; ok && (it.Change == plan.Unchanged || it.Change == plan.Retexted) {
			s.putBefore(it, m)
		}
	}
	return left
}
