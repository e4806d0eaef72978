package toolresultclear

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// maxLengths is the maximum number of different lengths to which results are cut: powers of two and the longest
// allowed.
const maxLengths = 32

// reasons are the plan's reason texts. Each is written when it is first needed.
type reasons struct {
	cleared mneme.Text
	cuts    [maxLengths]mneme.Text // by index in lengths
	lengths [maxLengths]uint64
	known   int
}

func (w *reasons) clear(plan *mneme.Plan, keep uint64) mneme.Text {
	if w.cleared.Len() == 0 {
		w.cleared = plan.Text("cleared: older than the newest ").Uint(keep).Str(" tool results")
	}
	return w.cleared
}

func (w *reasons) cut(plan *mneme.Plan, tokens uint64) mneme.Text {
	at := 0
	for at < w.known && w.lengths[at] != tokens {
		at++
	}
	if at == w.known {
		w.lengths[at], w.cuts[at] = tokens, plan.Text("result_too_long: cut to ").Uint(tokens).Str(" tokens")
		w.known++
	}
	return w.cuts[at]
}
