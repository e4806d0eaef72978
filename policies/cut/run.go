package cut

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// Run is a sequence of whole atoms of one turn that can leave the window together: an earlier question, or full
// messages of which none must stay. An atom that must stay is a run by itself.
type Run struct {
	End      int
	Turn     uint32
	Facts    Facts
	Question uint64 // tokens of the earlier question that it is or can become
}

// RunAt returns the run that begins at a record and ends at or before end.
//
//go:noinline
func RunAt(records mneme.Records, first, end int) Run {
	run := Run{End: first}
	for run.End < end {
		a := At(records, run.End)
		whole := a.Facts.Plain()
		if run.End > first && !(whole && a.Turn == run.Turn) {
			return run
		}
		for i := run.End; i < a.End; i++ {
			r := records.At(i)
			if a.Facts.Question() {
				run.Question += uint64(r.Tokens)
			} else {
				run.Question += uint64(r.CompressedTokens)
			}
		}
		run.End, run.Turn, run.Facts = a.End, a.Turn, run.Facts|a.Facts
		if !whole {
			return run
		}
	}
	return run
}

// Asks reports whether a user's message is among the full messages.
func (r *Run) Asks() bool { return r.Facts.Has(mneme.User) && !r.Facts.Question() }
