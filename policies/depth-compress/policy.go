// Package depthcompress is the built-in policy that keeps the newest turns in full and of older ones only the question.
package depthcompress

import mneme "github.com/seed-0906e6bc/mneme/sdk/go"

// DefaultDepth is the number of turns kept in full where the config names none.
const DefaultDepth = 20

// Assemble compresses each run of records of an old turn to its question, or drops the run where it has no question.
// Turns are counted by their numbers, so that a turn that an earlier policy dropped still counts. Records that are
// compressed, system-class or mandatory stay as they are.
func Assemble(req *mneme.Request, plan *mneme.Plan) error {
	depth := req.ConfigInt("depth", DefaultDepth)
	oldest := int64(req.NewestTurn) - depth + 1 // the oldest turn in full
	var why reasons
	for first := 0; first < req.Len(); {
		r := runAt(req, first, oldest)
		switch {
		case !r.old:
		case r.asks:
			plan.Compress(first, r.end-1, why.compress(plan, depth))
		default:
			plan.Drop(first, r.end-1, why.drop(plan, depth))
		}
		first = r.end
	}
	return nil
}

// run is consecutive whole atoms, up to end. If old, they are of one old turn and none must stay as it is; if not, it
// is one atom.
type run struct {
	end  int
	old  bool
	asks bool // there is a user message among them
}

func runAt(req *mneme.Request, first int, oldest int64) run {
	turn := req.Record(first).Turn
	r := atomAt(req, first, oldest)
	for r.old && r.end < req.Len() && req.Record(r.end).Turn == turn {
		next := atomAt(req, r.end, oldest)
		if !next.old {
			break
		}
		r.end, r.asks = next.end, r.asks || next.asks
	}
	return r
}

func atomAt(req *mneme.Request, first int, oldest int64) run {
	head := req.Record(first)
	r := run{end: first, old: int64(head.Turn) < oldest}
	for ; r.end < req.Len(); r.end++ {
		next := req.Record(r.end)
		if next.Atom != head.Atom {
			break
		}
		if next.Role == mneme.System || next.Flags.Has(mneme.Mandatory|mneme.Compressed) {
			r.old = false
		}
		r.asks = r.asks || next.Role == mneme.User
	}
	return r
}

// reasons are the plan's texts, each written when it is first needed.
type reasons struct{ compressed, dropped mneme.Text }

func (w *reasons) compress(plan *mneme.Plan, depth int64) mneme.Text {
	if w.compressed.Len() == 0 {
		w.compressed = plan.Text("beyond_depth: older than the newest ").Uint(uint64(depth)).Str(" turns")
	}
	return w.compressed
}

func (w *reasons) drop(plan *mneme.Plan, depth int64) mneme.Text {
	if w.dropped.Len() == 0 {
		w.dropped = plan.Text("beyond_depth: no question in a turn older than the newest ").Uint(uint64(depth))
	}
	return w.dropped
}
