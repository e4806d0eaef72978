// Package toolpairtrim is the built-in policy that fits a window into its budget. It leaves out the oldest turns first,
// and never a call without its results. Of what it leaves out, the newest questions remain, and a ledger of the
// literals in it.
package toolpairtrim

import (
	"github.com/seed-0906e6bc/mneme/policies/cut"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// Assemble changes nothing if the table fits. Otherwise it leaves out the oldest messages, more than necessary, so that
// the cut stays where it is until the budget is exceeded again (see walk). Mandatory atoms get room first and always
// stay. Next come system-class records, the summary before all others, then pinned atoms. A turn that takes more than
// half of the budget is cut inside and keeps its question. The result is within the budget whenever the mandatory atoms
// are.
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
	if t.named > 0 && o.first >= 0 { // replaces the marker, if it names anything
		tokens := t.named + t.marker - messageTokens
		plan.Ledger(o.first, o.last, int(min(tokens, mneme.MaxLedger)), plan.Text("ledger"))
	}
	return nil
}

// trim is the table of one call and the limits of its window.
type trim struct {
	req       *mneme.Request
	records   mneme.Records
	budget    cost
	marked    bool   // there is room for the marker
	marker    uint64 // its tokens
	questions uint64 // tokens available for the questions of dropped turns
	named     uint64 // tokens available for the ledger of dropped turns, in addition to the marker
	notices   notices
	unpin     int // there is no room for pinned atoms before this record
}

// The defaults of the config.
const (
	defaultShare    = .5 // of the budget, that a cut leaves
	defaultTurnRoom = .4 // of the budget, the most that is kept free for a new turn
)

// rules returns the rules for the walk.
func (t *trim) rules(depth cut.Depth, all sums) rules {
	r := rules{records: t.records, budget: t.budget, share: t.req.ConfigFloat("low_water", defaultShare),
		beside: t.marker + t.named + t.questions, notices: t.notices.worth == allNotices, older: t.req.OlderExist(), depth: depth}
	if !(r.share >= 0 && r.share < 1) {
		r.share = 1
	}
	if !r.notices { // those with room count from the start
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

// roomForQuestions returns the tokens available for earlier questions. Small windows have none, unless the depth is
// set.
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

// roomForLedger returns the tokens available for the ledger. Without a marker there are none.
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

// reaches reports whether there are full messages of turns up to a place.
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

// force leaves out more if the budget does not even hold the newest atom together with the mandatory ones. It removes
// earlier questions, then atoms, then the kept question, and at last pinned atoms, the oldest first.
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

// leave subtracts the cost of an atom that goes from the window's.
func leave(s *start, first int, a cut.Atom, goes bool) {
	if goes {
		s.total = s.total.Minus(a.Cost(first))
	}
}
