package depthcompress

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// reasons are the plan's reason texts. Each is written when it is first needed.
type reasons struct {
	depth               int64
	compressed, dropped mneme.Text
}

func (w *reasons) compress(plan *mneme.Plan) mneme.Text {
	if w.compressed.Len() == 0 {
		w.compressed = plan.Text("beyond_depth: older than the newest ").Uint(uint64(w.depth)).Str(" turns")
	}
	return w.compressed
}

func (w *reasons) drop(plan *mneme.Plan) mneme.Text {
	if w.dropped.Len() == 0 {
		w.dropped = plan.Text("beyond_depth: no question in a turn older than the newest ").Uint(uint64(w.depth))
	}
	return w.dropped
}
