// Package toolpairtrim is the built-in policy that fits a window into its budget: whole turns from the newest back,
// never a call without its results, and one marker that says how much was left out.
package toolpairtrim

import mneme "github.com/seed-0906e6bc/mneme/sdk/go"

// Assemble keeps whole turns from the newest back and stops at the first that does not fit. Mandatory atoms get their
// room first and always stay, then system-class records, of which the summary goes last. Where the newest turn alone
// does not fit, its newest user message and as many of its newest atoms as fit are kept. The result is within the
// budget whenever what must stay is.
func Assemble(req *mneme.Request, plan *mneme.Plan) error {
	t := table{req: req, budget: cost{uint64(req.BudgetMessages), uint64(req.BudgetTokens)}}
	all := t.before(req.Len())
	if t.budget.holds(all.total()) {
		return nil
	}
	var shown notices
	shown, all.system = t.fitNotices(all)
	t.dropNotices(plan, shown)
	marked := req.ConfigBool("marker", true)
	if marked && t.budget.tokens != 0 {
		marker := cost{tokens: markerTokens(req)}
		if marked = t.budget.holds(all.fixed().plus(marker)); marked {
			all.system = all.system.plus(marker)
		}
	}
	c, exceeding := t.cut(all)
	if left, before := t.drop(plan, c, reason(plan, t.budget, exceeding)); left > 0 && marked {
		insertMarker(plan, before, left, t.missing(shown))
	}
	return nil
}

// cut is where a window begins: everything before from goes, except what must stay and the atom at question.
type cut struct {
	from     int
	question int // -1: none
}

// stays tells whether the atom that begins at first is in the window.
func (c cut) stays(first int, a atom) bool {
	return a.facts.fixed() || first >= c.from || first == c.question
}

// cut finds where the window begins, and what it would have cost to reach further back.
func (t *table) cut(all sums) (c cut, exceeding cost) {
	c, exceeding = cut{question: -1}, all.total()
	fixed, free := all.fixed(), all.free
	if share := t.req.ConfigFloat("low_water", 1); share < 1 {
		c.from = t.lowWater(all.system, max(share, 0))
		free = free.minus(t.before(c.from).free)
	}
	newest := c.from
	for c.from < t.req.Len() && !t.budget.holds(fixed.plus(free)) {
		exceeding = fixed.plus(free)
		end, _, oldest := t.turnAt(c.from)
		free, newest, c.from = free.minus(oldest), c.from, end
	}
	if c.from < t.req.Len() {
		return c, exceeding
	}
	return t.cutInside(newest, fixed, exceeding)
}

// cutInside cuts the newest turn, which does not fit as a whole.
func (t *table) cutInside(first int, fixed, exceeding cost) (cut, cost) {
	c := cut{from: first, question: -1}
	var free, question cost
	for i := first; i < t.req.Len(); {
		a := t.atomAt(i)
		if !a.facts.fixed() {
			free = free.plus(a.cost(i))
		}
		if a.facts.has(mneme.User) {
			c.question, question = i, a.cost(i)
			if a.facts.fixed() {
				c.question = -1
			}
		}
		i = a.end
	}
	if c.question >= 0 {
		if t.budget.holds(fixed.plus(question)) {
			fixed, free = fixed.plus(question), free.minus(question)
		} else {
			c.question = -1
		}
	}
	for c.from < t.req.Len() && !t.budget.holds(fixed.plus(free)) {
		exceeding = fixed.plus(free)
		a := t.atomAt(c.from)
		if !a.facts.fixed() && c.from != c.question {
			free = free.minus(a.cost(c.from))
		}
		c.from = a.end
	}
	return c, exceeding
}

// drop writes one DROP for each run of records that go. It returns how many messages those are and where the oldest
// message of the window stands.
func (t *table) drop(plan *mneme.Plan, c cut, why mneme.Text) (messages, oldest int) {
	oldest = -1
	for i := 0; i < t.req.Len() && (i < c.from || oldest < 0); {
		a := t.atomAt(i)
		switch {
		case !c.stays(i, a):
			plan.Drop(i, a.end-1, why)
			messages += a.end - i
		case oldest < 0 && !a.facts.system():
			oldest = i
		}
		i = a.end
	}
	if oldest < 0 {
		oldest = t.req.Len()
	}
	return messages, oldest
}

// reason says which bound would have been exceeded, and by how much.
func reason(plan *mneme.Plan, budget, exceeding cost) mneme.Text {
	if budget.messages != 0 && exceeding.messages > budget.messages {
		return plan.Text("over_max_messages: reaching further back would make ").Uint(exceeding.messages).
			Str(" messages, the budget is ").Uint(budget.messages)
	}
	return plan.Text("over_max_tokens: reaching further back would make ").Uint(exceeding.tokens).
		Str(" tokens, the budget is ").Uint(budget.tokens)
}
