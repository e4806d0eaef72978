package toolpairtrim

import (
	"math"

	mneme "github.com/seed-0906e6bc/mneme/sdk/go"
)

// notices says which system-class records stay: all of a higher worth, and those of this worth before end.
type notices struct {
	worth worth
	end   int
}

// worth orders system-class records where the budget does not hold all of them. The lowest value gets room first.
type worth uint8

const (
	worthMandatory worth = iota
	worthSummary
	worthMemory
	worthRest
	allNotices
)

func worthOf(r *mneme.Record) worth {
	switch {
	case r.Flags.Has(mneme.Mandatory):
		return worthMandatory
	case r.Kind == mneme.Summary:
		return worthSummary
	case r.Kind == mneme.Memory:
		return worthMemory
	}
	return worthRest
}

// stays tells whether the system-class record at an index stays.
func (n notices) stays(index int, r *mneme.Record) bool {
	w := worthOf(r)
	return w < n.worth || w == n.worth && index < n.end
}

// fitNotices finds which system-class records fit beside the messages that must stay, and their cost. It stops at the
// first that does not fit, so that no smaller record of less worth gets its room.
func (t *table) fitNotices(all sums) (notices, cost) {
	bound, used := uint64(t.req.BudgetTokens), all.mandatory.tokens
	if bound == 0 || used+all.system.tokens <= bound {
		return notices{worth: allNotices}, all.system
	}
	var system cost
	for w := worthMandatory; w < allNotices; w++ {
		for i := range t.req.Len() {
			r := t.req.Record(i)
			if r.Role != mneme.System || worthOf(r) != w {
				continue
			}
			if used += uint64(r.Tokens); used > bound && w != worthMandatory {
				return notices{w, i}, system
			}
			system.tokens += uint64(r.Tokens)
		}
	}
	return notices{worth: allNotices}, system
}

// dropNotices drops the system-class records that have no room.
func (t *table) dropNotices(plan *mneme.Plan, n notices) {
	if n.worth == allNotices {
		return
	}
	why := plan.Text("over_max_tokens: no room beside what must stay, the budget is ").Uint(uint64(t.req.BudgetTokens))
	for i := range t.req.Len() {
		if r := t.req.Record(i); r.Role == mneme.System && !n.stays(i, r) {
			plan.Drop(i, i, why)
		}
	}
}

// missing tells whether there are messages that neither the table nor the window's summary holds.
func (t *table) missing(n notices) bool {
	summary, oldest := false, uint64(math.MaxUint64) // the oldest message that a summary would not cover
	for i := range t.req.Len() {
		switch r := t.req.Record(i); {
		case r.Role != mneme.System:
			if r.Seq > t.req.SummaryCovers {
				oldest = min(oldest, r.Seq)
			}
		case r.Kind == mneme.Summary && !n.stays(i, r):
			return true
		case r.Kind == mneme.Summary:
			summary = true
		}
	}
	return t.req.OlderExist() && !(summary && oldest <= t.req.SummaryCovers+1)
}
