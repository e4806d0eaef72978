// Package summarise is the built-in policy that shows the running summary in place of the messages that it covers, and
// asks to extend it when too many messages, or too many tokens, are not covered.
package summarise

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

const (
	// DefaultThreshold is how many messages may be uncovered where the config names no other number.
	DefaultThreshold = 40
	// DefaultKeepLast is how many of the newest stay uncovered where the config names no other number.
	DefaultKeepLast = 12
)

// Assemble asks for a summary of all but the newest messages when more than the threshold are uncovered, or more tokens
// than may be: by default three fifths of the budget, so that a summary is there before tool-pair-trim cuts.
// It shows the stored summary. The summary stands in front of the table, where it stood in the turn before, so that the
// provider's prompt cache can be used.
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

// table is what the policy must know of all records before it can cut. Messages are stored ones; those that count are
// of no delegation.
type table struct {
	req       *mneme.Request
	uncovered uint64 // messages that count and are not covered
	tokens    uint64 // of these
	unseen    uint64 // messages between the summary and the table: a summary is all that can still keep them
	covered   int    // the end of the last atom that begins among what is covered; of the first atom where none does
	wall      int    // where the cut must not pass: the newest user message that counts, or a call without its results
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

// cut is the end of the records that a summary should cover so that at least keep uncovered messages that count are
// left, or messages of at least so many tokens; 0 where there is nothing to add. What is left by tokens is a part of what
// may be uncovered, so that the next summary is asked for only once as much has come again. A late result stands with its call, so a cut between two atoms is one between
// two messages only where all before it are older than all behind it.
func (t *table) cut(keep, tokens uint64) int {
	end, before, newest, spent := 0, uint64(0), uint64(0), uint64(0)
	last := 0 // the last atom's end; system-class records after it are no part of the range
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
	oldest, newest uint64 // numbers of its messages, pending ones too; 0 where it is system-class
	uncovered      uint64 // messages that count and are not covered
	tokens         uint64 // of these
	asks           bool   // a stored user message that counts
	open           bool   // results are still to come
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
			// A result with the number of its call is one that the host made up.
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
