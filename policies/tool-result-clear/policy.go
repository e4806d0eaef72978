// Package toolresultclear is the built-in policy that keeps tool results from filling the window. It cuts results that
// cannot be shown whole, and when the window passes a bound it clears old results and keeps the newest.
//
// What is cut and cleared depends on the table alone: a result is cut by its own length and the budget, and clearing
// re-runs the session atom by atom. So the next window cuts and clears the same results and begins like this one.
package toolresultclear

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// DefaultKeep is how many of the newest results are never cleared if the config names no number.
const DefaultKeep = 3

// Assemble cuts results that cannot be shown, or that are longer than the config allows, and clears old ones.
func Assemble(req *mneme.Request, plan *mneme.Plan) error {
	s := settingsOf(req)
	if s.longest == 0 && s.trigger == 0 {
		return nil
	}
	if s.trigger == 0 && s.fits() {
		return nil
	}
	cleared := s.replay()
	var why reasons
	for w := s.walk(); w.next(); {
		r := w.record
		switch {
		case !isResult(r) || r.Flags.Has(mneme.Pinned):
		case w.at < cleared && !r.Flags.Has(mneme.Mandatory) && s.clearable(r):
			plan.Stub(w.at, w.at, why.clear(plan, s.keep))
		case w.tokens < uint64(r.Tokens):
			plan.Truncate(w.at, w.at, int(w.tokens), why.cut(plan, w.tokens))
		}
	}
	return nil
}

func isResult(r *mneme.Record) bool { return r.Role == mneme.Tool }

// settings are derived from the config and the budget.
type settings struct {
	req      *mneme.Request
	longest  uint64 // the maximum of one result; 0 for no bound
	always   bool   // longest applies to each result, not only when an atom cannot be shown
	share    uint64 // the maximum for the results of one atom together with their call; 0 for no bound
	budget   uint64 // 0 means no bound
	trigger  uint64 // 0 means nothing is cleared
	keep     uint64
	atLeast  uint64 // the minimum that is cleared at once
	excluded string
}

func settingsOf(req *mneme.Request) settings {
	whole := func(key string, absent int64) uint64 { return uint64(max(req.ConfigInt(key, absent), 0)) }
	s := settings{req: req, longest: whole("max_result_tokens", 0), trigger: whole("trigger", 0),
		keep: whole("keep", DefaultKeep), atLeast: whole("clear_at_least", 0),
		excluded: req.ConfigString("exclude_tools", "")}
	s.budget = uint64(req.BudgetTokens)
	if s.always = s.longest > 0; !s.always {
		s.longest = half(s.budget)
	}
	s.share = s.budget - s.budget/4
	if s.atLeast == 0 {
		s.atLeast = s.trigger / 10
	}
	return s
}

// half returns half of a budget, rounded to steps. If the host sets some tokens aside, the budget differs a little from
// window to window, and the same result must be cut equally in both.
func half(budget uint64) uint64 {
	const step, apart = 256, 16
	if budget < 4*step {
		return (budget + 1) / 2
	}
	return (budget/2 - apart) / step * step
}

// stubTokens is the approximate cost of a cleared result. A result that has no more is not worth clearing.
const stubTokens = 24

// clearable reports whether a result may be cleared when it is old.
func (s *settings) clearable(r *mneme.Record) bool {
	return r.Tokens > stubTokens && !r.Flags.Has(mneme.Pinned) && !listed(s.excluded, s.req.String(r.Tool))
}

// listed reports whether a list, separated by commas and spaces, contains a name.
func listed(list, name string) bool {
	for from := 0; from < len(list); {
		end := from
		for end < len(list) && list[end] != ',' && list[end] != ' ' {
			end++
		}
		if end > from && list[from:end] == name {
			return true
		}
		from = end + 1
	}
	return false
}

// replay returns the end of the results to clear. It walks over the table as if the session grew atom by atom. Each
// time the window passes the trigger, all results but the newest are cleared, if that is worth it. Results of the
// newest atom are never cleared.
func (s *settings) replay() (cleared int) {
	if s.trigger == 0 {
		return 0
	}
	var window, gain, newer uint64 // newer counts the results that old has not reached
	old := s.walk()                // walks over the records that are no longer among the newest
	for w := s.walk(); w.next(); {
		if w.record.Role == mneme.System {
			continue // memories and the summary come and go
		}
		window += w.tokens
		if isResult(w.record) {
			newer++
		}
		if w.at+1 < w.end {
			continue
		}
		for newer > s.keep && old.at+1 < w.first && old.next() {
			if !isResult(old.record) {
				continue
			}
			newer--
			if s.clearable(old.record) && old.tokens > stubTokens {
				gain += old.tokens - stubTokens
			}
		}
		if window > s.trigger && gain > 0 && gain >= s.atLeast {
			window, gain, cleared = window-gain, 0, old.at+1
		}
	}
	return cleared
}
