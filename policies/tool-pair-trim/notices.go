package toolpairtrim

import (
	"math"

	"github.com/seed-0906e6bc/mneme/policies/cut"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// notices says which system-class records stay: all with a lower worth value, and those with this one before end.
type notices struct {
	worth worth
	end   int
}

// worth ranks system-class records for when the budget has no room for all of them. The lowest value gets room first.
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

// stays reports whether the system-class record at an index stays.
func (n notices) stays(index int, r *mneme.Record) bool {
	w := worthOf(r)
	return w < n.worth || w == n.worth && index < n.end
}

// fitNotices determines which system-class records fit beside the mandatory messages, and their cost. It stops at the
// first that does not fit, so that a smaller record of lower rank cannot take its room.
func fitNotices(req *mneme.Request, all sums) (notices, cut.Cost) {
	bound, used := uint64(req.BudgetTokens), all.must.Tokens
	if bound == 0 || used+all.system.Tokens <= bound {
		return notices{worth: allNotices}, all.system
	}
	var system cut.Cost
	for w := worthMandatory; w < allNotices; w++ {
		for i := range req.Len() {
			r := req.Record(i)
			if r.Role != mneme.System || worthOf(r) != w {
				continue
			}
			if used += uint64(r.Tokens); used > bound && w != worthMandatory {
				return notices{w, i}, system
			}
			system.Tokens += uint64(r.Tokens)
		}
	}
	return notices{worth: allNotices}, system
}

// dropNotices drops the system-class records for which there is no room.
func (t *trim) dropNotices(plan *mneme.Plan) {
	if t.notices.worth == allNotices {
		return
	}
	why := plan.Text("over_max_tokens: no room beside what must stay, the budget is ").Uint(uint64(t.req.BudgetTokens))
	for i := range t.req.Len() {
		if r := t.req.Record(i); r.Role == mneme.System && !t.notices.stays(i, r) {
			plan.Drop(i, i, why)
		}
	}
}

// missing reports whether there are messages that are neither in the table nor covered by the window's summary.
func (t *trim) missing(all sums) bool {
	if t.notices.worth == allNotices && !(t.req.OlderExist() && all.notices) {
		return t.req.OlderExist()
	}
	summary, oldest := false, uint64(math.MaxUint64) // the oldest message that a summary would not cover
	records := t.req.Records()
	for i := range records.Len() {
		switch r := records.At(i); {
		case r.Role != mneme.System:
			if r.Seq > t.req.SummaryCovers {
				oldest = min(oldest, r.Seq)
			}
		case r.Kind == mneme.Summary && !t.notices.stays(i, r):
			return true
		case r.Kind == mneme.Summary:
			summary = true
		}
	}
	return t.req.OlderExist() && !(summary && oldest <= t.req.SummaryCovers+1)
}
