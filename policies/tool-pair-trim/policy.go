// Package toolpairtrim is the built-in policy that fits a window into its budget: turns go from the oldest on, never a
// call without its results; of what went it leaves the newest questions and a ledger of what was named there.
package toolpairtrim

import (
	"github.com/seed-0906e6bc/mneme/policies/cut"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// Assemble leaves everything where it fits, and else leaves out what is oldest, further than it must, so that the cut
// stands still until there is no room again (walk). Mandatory atoms get their room first and always stay, then
// system-class records, of which the summary goes last, then pinned atoms. A turn that takes more than half of the
// budget is cut inside, and keeps its question. The result is within the budget whenever what must stay is.
func Assemble(req *mneme.Request, plan *mneme.Plan) error {
	all := sumsOf(req)
	t := trim{req: req, records: req.Records(), budget: cost{Messages: uint64(req.BudgetMessages), Tokens: uint64(req.BudgetTokens)}}
	t.notices, all.system = fitNotices(req, all)
	t.dropNotices(plan)

	depth, newest := cut.DepthOf(req), cut.NewestPlace(req)
	missing := t.missing(all)
	if !missing && t.budget.Holds(all.total()) && !t.reaches(depth.Beyond(newest)) {
		return nil
	}
	if req.ConfigBool("marker", true) {
		t.marker = markerTokens(req)
		t.marked = t.budget.Holds(all.system.Plus(all.must).Plus(cost{Tokens: t.marker}))
	}
	if !t.marked {
		t.marker = 0
	}
	t.questions, t.named = t.roomForQuestions(depth), t.roomForLedger()
	r := t.rules(depth, all)
	s := r.run(newest)
	s.total.Tokens -= r.beside
	if !r.notices {
		s.total.Tokens += all.system.Tokens
	}
	s.total.Tokens += t.marker
	t.force(&s)
	if b := t.budget.Tokens; b > 0 {
		t.named = min(t.named, b-min(b, s.total.Tokens))
	}
	o := t.write(plan, &r, &s)
	if t.marked && (o.lost || missing) {
		insertMarker(plan, o.oldest)
	}
	if t.named > 0 && o.first >= 0 { // in the place of the marker, where it names anything
		tokens := t.named + t.marker - messageTokens
		plan.Ledger(o.first, o.last, int(min(tokens, mneme.MaxLedger)), plan.Text("ledger"))
	}
	return nil
}

// trim is one call's table and what its window may take.
type trim struct {
	req       *mneme.Request
	records   mneme.Records
	budget    cost
	marked    bool   // the marker has room
	marker    uint64 // tokens that it takes
	questions uint64 // tokens that earlier questions may take of turns that go
	named     uint64 // tokens that the ledger may take of what turns that go named, beside the marker
	notices   notices
	unpin     int // pinned atoms before this record have no room
}

// The defaults of the config.
const (
	defaultShare    = .5 // of the budget: what a cut leaves
	defaultTurnRoom = .4 // of the budget: the most that is kept free for a turn that begins
)

// rules are what the walk goes by.
func (t *trim) rules(depth cut.Depth, all sums) rules {
	r := rules{records: t.records, budget: t.budget, share: t.req.ConfigFloat("low_water", defaultShare),
		beside: t.marker + t.named + t.questions, notices: t.notices.worth == allNotices, older: t.req.OlderExist(), depth: depth}
	if !(r.share >= 0 && r.share < 1) {
		r.share = 1
	}
	if !r.notices { // those that have room count from the start
		r.beside += all.system.Tokens
	}
	if room := t.req.ConfigFloat("turn_room", defaultTurnRoom); room > 0 && !depth.Exact() {
		r.reserve = t.budget.Part(min(room, 1))
	}
	if b := t.budget.Tokens; b > 0 {
		const least = 64
		for r.long, r.short = b/4, least; r.short < b/16; r.short *= 2 {
		}
	}
	return r
}

// roomForQuestions is the tokens that earlier questions may take. Small windows leave none, unless the depth is set.
func (t *trim) roomForQuestions(depth cut.Depth) uint64 {
	const most, small = 1000, 2000
	if room := t.req.ConfigInt("question_tokens", -1); room >= 0 {
		return uint64(room)
	}
	b := t.budget.Tokens
	switch {
	case b == 0:
		return most
	case b < small && depth == cut.Depth{Turns: cut.DefaultDepth, Step: cut.DefaultStep}:
		return 0
	}
	return min(b/16, most)
}

// roomForLedger is the tokens that the ledger may take. There is none without a marker.
func (t *trim) roomForLedger() uint64 {
	const least, most = 200, 1500
	if !t.marked {
		return 0
	}
	if room := t.req.ConfigInt("ledger_tokens", -1); room >= 0 {
		return uint64(room)
	}
	b := t.budget.Tokens
	if b == 0 {
		return most
	}
	return min(max(b/8, least), most, b/4)
}

// reaches tells whether messages in full are of turns up to a place.
func (t *trim) reaches(place uint32) bool {
	for i := 0; place > 0 && i < t.records.Len(); {
		a := cut.At(t.records, i)
		if a.Facts.Plain() {
			return t.records.At(i).Place <= place
		}
		i = a.End
	}
	return false
}

// force leaves out what else there is where the budget does not even hold the newest atom beside what must stay: earlier
// questions, atoms, the question, and at last what is pinned, oldest first.
func (t *trim) force(s *start) {
	for s.asked < t.records.Len() && !t.budget.Holds(s.total) {
		a := cut.At(t.records, s.asked)
		leave(s, s.asked, a, a.Facts.Question() && !a.Facts.Fixed())
		s.asked = a.End
	}
	for s.from < t.records.Len() && !t.budget.Holds(s.total) {
		a := cut.At(t.records, s.from)
		leave(s, s.from, a, a.Facts.Plain())
		s.from = a.End
	}
	if s.question >= 0 && !t.budget.Holds(s.total) {
		s.total, s.question = s.total.Minus(s.takes), -1
	}
	for t.unpin < t.records.Len() && !t.budget.Holds(s.total) {
		a := cut.At(t.records, t.unpin)
		leave(s, t.unpin, a, a.Facts.OnlyPinned())
		t.unpin = a.End
	}
}

// leave takes the cost of an atom that goes off the window's.
func leave(s *start, first int, a cut.Atom, goes bool) {
	if goes {
		s.total = s.total.Minus(a.Cost(first))
	}
}
