// Package summarise is the built-in policy that replaces messages by the running summary that covers them, and requests
// a longer summary when too many messages or tokens are not covered.
package summarise

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

const (
	// DefaultThreshold is how many messages may be uncovered if the config names no number.
	DefaultThreshold = 40
	// DefaultKeepLast is how many of the newest messages stay uncovered if the config names no number.
	DefaultKeepLast = 12
)

// Assemble shows the stored summary. If more messages than the threshold are uncovered, or more tokens than allowed, it
// requests a summary of all but the newest messages. By default three fifths of the budget may be uncovered, so that
// the summary is ready before tool-pair-trim cuts. The summary is placed before the table, as in the previous turn, so
// that the provider's prompt cache can be used.
func Assemble(req *mneme.Request, plan *mneme.Plan) error {
	if !req.ConfigBool("enabled", false) || req.Len() == 0 {
		return nil
	}
	threshold := max(req.ConfigInt("threshold", DefaultThreshold), 1)
	keep := min(max(req.ConfigInt("keep_last", DefaultKeepLast), 1), threshold)
	t := survey(req)
	tokens := uint64(max(req.ConfigInt("threshold_tokens", 0), 0))
	if tokens == 0 {
		tokens = uint64(req.BudgetTokens) * 3 / 5
	}
	end := 0
	if tokens > 0 && t.tokens > tokens {
		end = t.cut(uint64(keep), max(tokens/2, 1))
	} else if t.unseen+t.uncovered > uint64(threshold) {
		end = t.cut(uint64(keep), t.tokens+1)
	}
	switch {
	case end > 0:
		plan.Summarise(0, end-1, reason(req, plan))
	case req.SummaryCovers > 0:
		plan.ShowSummary(0, t.covered-1, reason(req, plan))
	}
	return nil
}

func reason(req *mneme.Request, plan *mneme.Plan) mneme.Text {
	return plan.Text("summarised: the running summary covers the messages up to ").Uint(req.SummaryCovers)
}

// table is what the policy must know about all records before it can cut. It is about stored messages; those that count
// belong to no delegation.
type table struct {
	req       *mneme.Request
	uncovered uint64 // messages that count and are not covered
	tokens    uint64 // their tokens
	unseen    uint64 // messages between the summary and the table, which only a summary can still preserve
	covered   int    // the end of the last atom that begins among the covered messages, or of the first atom if none does
	wall      int    // the limit of the cut: the newest user message that counts, or a call without its results
}

func survey(req *mneme.Request) table {
	t := table{req: req, wall: req.Len()}
	user, oldest := -1, uint64(0)
	for i := 0; i < req.Len(); {
		a := atomAt(req, i)
		t.uncovered += a.uncovered
		t.tokens += a.tokens
		if a.asks {
			user = i
		}
		if a.open && t.wall == req.Len() {
			t.wall = i
		}
		if oldest == 0 {
			oldest = a.oldest
		}
		if i == 0 || a.oldest > 0 && a.oldest <= req.SummaryCovers {
			t.covered = a.end
		}
		i = a.end
	}
	if user >= 0 {
		t.wall = min(t.wall, user)
	}
	if req.OlderExist() && oldest > req.SummaryCovers+1 {
		t.unseen = oldest - 1 - req.SummaryCovers
	}
	return t
}

// cut returns the end of the records that a summary should cover, or 0 if there is nothing to add. At least keep
// uncovered messages that count remain, or messages of at least the given number of tokens. That number is less than
// what may be uncovered, so the next summary is requested only after as much has been added again. A late result
// belongs to its call's atom, so a position between two atoms can be a cut only if all messages before it are older
// than all messages after it.
func (t *table) cut(keep, tokens uint64) int {
	end, before, newest, spent := 0, uint64(0), uint64(0), uint64(0)
	last := 0 // the last atom's end; system-class records after it do not belong to the range
	for i := 0; i < t.req.Len() && i <= t.wall; {
		a := atomAt(t.req, i)
		if a.oldest > 0 {
			if newest < a.oldest && before+t.unseen > 0 &&
				(before+keep <= t.uncovered || spent+tokens <= t.tokens) {
				end = last
			}
			before, newest, last = before+a.uncovered, max(newest, a.newest), a.end
			spent += a.tokens
		}
		i = a.end
	}
	return end
}

// atom is the records up to end, which are covered together or not at all.
type atom struct {
	end            int
	oldest, newest uint64 // numbers of its messages, including pending ones; 0 for a system-class atom
	uncovered      uint64 // messages that count and are not covered
	tokens         uint64 // their tokens
	asks           bool   // has a stored user message that counts
	open           bool   // some results are missing
}

func atomAt(req *mneme.Request, first int) atom {
	r := req.Record(first)
	head, covers := r, req.SummaryCovers
	a := atom{end: first, oldest: head.Seq}
	for {
		a.newest = max(a.newest, r.Seq)
		a.open = a.open || r.Flags.Has(mneme.OpenCall)
		if r.Role != mneme.System && !r.Flags.Has(mneme.Pending) && r.Delegation == 0 {
			a.asks = a.asks || r.Role == mneme.User
			// A result with the same number as its call was added by the host.
			if r.Seq > covers && (a.end == first || r.Seq != head.Seq) {
				a.uncovered++
				a.tokens += uint64(r.Tokens)
			}
		}
		if a.end++; a.end == req.Len() {
			return a
		}
		if r = req.Record(a.end); r.Atom != head.Atom {
			return a
		}
	}
}
