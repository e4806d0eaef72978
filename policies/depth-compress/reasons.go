package depthcompress

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// reasons are the plan's texts, each written when it is first needed.
type reasons struct {
	depth               int64
	compressed, dropped [beyondDepth + 1]mneme.Text
}

func (w *reasons) compress(plan *mneme.Plan, old age) mneme.Text {
	t := &w.compressed[old]
	switch {
	case t.Len() > 0:
	case old == beyondDepth:
		*t = plan.Text("beyond_depth: older than the newest ").Uint(uint64(w.depth)).Str(" turns")
	default:
		*t = plan.Text("beyond_room: the budget does not hold the turn in full")
	}
	return *t
}

func (w *reasons) drop(plan *mneme.Plan, old age) mneme.Text {
	t := &w.dropped[old]
	switch {
	case t.Len() > 0:
	case old == beyondDepth:
		*t = plan.Text("beyond_depth: no question in a turn older than the newest ").Uint(uint64(w.depth))
	default:
		*t = plan.Text("beyond_room: no question in a turn that the budget does not hold in full")
	}
	return *t
}
