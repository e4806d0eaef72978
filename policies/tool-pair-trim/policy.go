// Package toolpairtrim is the built-in policy that fits a window into its budget: earlier questions go first, then turns
// from the oldest on, never a call without its results, and one marker says that something was left out.
package toolpairtrim

import (
	"github.com/seed-0906e6bc/mneme/policies/cut"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// Assemble leaves out what is oldest where the table exceeds the budget, and further than it must, so that the cut
// stands still until the budget is exceeded again (package cut). Mandatory atoms get their room first and always stay,
// then system-class records, of which the summary goes last, then pinned atoms. A turn that takes more than half of the
// budget is cut inside, and keeps its question. The result is within the budget whenever what must stay is.
func Assemble(req *mneme.Request, plan *mneme.Plan) error {
	all := sumsOf(req)
	t := trim{req: req, budget: cut.Cost{Messages: uint64(req.BudgetMessages), Tokens: uint64(req.BudgetTokens)},
		share: cut.ShareOf(req, defaultShare)}
	t.notices, all.system = fitNotices(req, all)
	t.dropNotices(plan)

	missing, fits := t.missing(all), t.budget.Holds(all.total())
	if req.ConfigBool("marker", true) && (missing || !fits || all.questions.Tokens > 0) {
		marked := cut.Cost{Tokens: markerTokens(req)}
		if t.marked = t.budget.Holds(all.system.Plus(all.must).Plus(marked)); t.marked {
			t.beside = marked
		}
	}
	c := t.cut(all, fits && !missing)
	oldest, left := t.drop(plan, c)
	if t.marked && (left || missing) {
		insertMarker(plan, oldest)
	}
	return nil
}

// trim is one call's table and what its window may take.
type trim struct {
	req     *mneme.Request
	budget  cut.Cost
	share   float64
	marked  bool     // the marker has room
	beside  cut.Cost // that it takes
	notices notices
	unpin   int // pinned atoms before this record have no room
}

// defaultShare is what a cut leaves of the budget where the config names nothing.
const defaultShare = 0.7

// fewShare is the part of the budget's tokens that turns in full take where there are few of them, and cut.FullShare what
// they may take at most. Earlier questions have the rest as their room, whatever the turns take at the moment, so that
// neither moves when the other grows.
const fewShare = 0.175

// cut finds where the window begins. Where everything fits, earlier questions alone may go.
func (t *trim) cut(all sums, fits bool) cut.Cut {
	r := cut.Replay{Records: t.req.Records(), Budget: t.budget, Share: cut.Share{Messages: t.share, Tokens: t.share}, Beside: t.beside.Tokens,
		Notices: t.notices.worth == allNotices}
	if !r.Notices { // those that have room count from the start
		r.Beside += all.system.Tokens
	}
	if r.Roomed = t.share < 1 && t.budget.Tokens > 0; r.Roomed {
		full := t.budget.Part(fewShare).Tokens
		if all.must.Plus(all.pinned).Plus(all.full).Tokens > full {
			full = t.budget.Part(cut.FullShare).Tokens
		}
		if other := full + all.system.Tokens + t.beside.Tokens; other < t.budget.Tokens {
			r.Room = t.budget.Tokens - other
		}
	}
	crowded := r.Roomed && all.questions.Tokens > r.Room
	if !crowded && (fits || t.budget.Holds(all.total().Plus(t.beside))) {
		return cut.Cut{Question: -1}
	}
	if fits {
		r.Budget = cut.Cost{}
		return r.Run()
	}
	c := r.Run()
	t.force(&c)
	return c
}

// force leaves out what else there is where the budget does not even hold the newest atom beside what must stay: earlier
// questions, atoms, the question, and at last what is pinned, oldest first.
func (t *trim) force(c *cut.Cut) {
	for c.Asked < t.req.Len() && !t.budget.Holds(c.Window) {
		a := cut.At(t.req.Records(), c.Asked)
		leave(c, c.Asked, a, a.Facts.Question() && !a.Facts.Fixed())
		c.Asked = a.End
	}
	for c.From < t.req.Len() && !t.budget.Holds(c.Window) {
		a := cut.At(t.req.Records(), c.From)
		leave(c, c.From, a, !a.Facts.Question() && !a.Facts.Fixed())
		c.From = a.End
	}
	if c.Question >= 0 && !t.budget.Holds(c.Window) {
		leave(c, c.Question, cut.At(t.req.Records(), c.Question), true)
		c.Question = -1
	}
	for t.unpin < t.req.Len() && !t.budget.Holds(c.Window) {
		a := cut.At(t.req.Records(), t.unpin)
		leave(c, t.unpin, a, a.Facts.OnlyPinned())
		t.unpin = a.End
	}
}

// leave takes the cost of an atom that goes off the window's.
func leave(c *cut.Cut, first int, a cut.Atom, goes bool) {
	if goes {
		c.Window = c.Window.Minus(a.Cost(first))
	}
}

// drop writes one DROP for each run of records that go for one reason. It returns where the oldest message of the window
// stands, and whether any went.
func (t *trim) drop(plan *mneme.Plan, c cut.Cut) (oldest int, left bool) {
	oldest = -1
	var why reasons
	records := t.req.Records()
	for i := 0; i < records.Len() && (i < max(c.From, c.Asked, t.unpin) || oldest < 0); {
		a := cut.At(records, i)
		switch {
		case a.Facts.System():
		case i < t.unpin && a.Facts.OnlyPinned():
			plan.Drop(i, a.End-1, why.unpinned(plan))
			left = true
		case !c.Stays(i, a):
			plan.Drop(i, a.End-1, why.cut(plan, t.budget, &c, a))
			left = true
		case oldest < 0:
			oldest = i
		}
		i = a.End
	}
	if oldest < 0 {
		oldest = t.req.Len()
	}
	return oldest, left
}
