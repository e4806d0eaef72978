package toolpairtrim

import mneme "github.com/seed-0906e6bc/mneme/sdk/go"

// anchorStep is the distance, in messages, between the places where a replay may begin. It is half the smallest table,
// so that an anchor stays in place for long while the table's start moves.
const anchorStep = 128

// lowWater is where the window begins if it is cut rarely and deep rather than at every turn, which would ruin the
// provider's prompt cache. The turns since an anchor are replayed, and whenever they exceed the budget the cut moves
// forward until no more than share of it is taken. Nothing is remembered between calls: a longer session replays the
// same turns first. Reserve is what the window holds beside its turns.
func (t *table) lowWater(reserve cost, share float64) int {
	low := cost{part(t.budget.messages, share), part(t.budget.tokens, share)}
	if anchor := t.anchor(); anchor > 0 {
		if from, exceeded := t.replay(anchor, reserve, low); exceeded {
			return from
		}
	}
	from, _ := t.replay(0, reserve, low) // what follows the anchor fits: it would cut too much
	return from
}

func (t *table) replay(start int, reserve, low cost) (from int, exceeded bool) {
	from = start
	window := reserve
	for i := start; i < t.req.Len(); {
		end, newest, _ := t.turnAt(i)
		window = window.plus(newest)
		if !t.budget.holds(window) {
			exceeded = true
			for from < i && !low.holds(window) {
				next, oldest, _ := t.turnAt(from)
				window, from = window.minus(oldest), next
			}
		}
		i = end
	}
	return from, exceeded
}

// anchor is the first turn that begins at or after a whole number of steps in the session, 0 where there is none.
func (t *table) anchor() int {
	var step uint64
	for i := 0; i < t.req.Len(); {
		seq := t.seqAt(i)
		if step == 0 {
			step = (max(seq, 1)-1+anchorStep-1)/anchorStep*anchorStep + 1
		}
		if seq >= step {
			return i
		}
		i, _, _ = t.turnAt(i)
	}
	return 0
}

// seqAt is the number of the first message from a record on, 0 where only system-class ones follow.
func (t *table) seqAt(i int) uint64 {
	for ; i < t.req.Len(); i++ {
		if r := t.req.Record(i); r.Role != mneme.System {
			return r.Seq
		}
	}
	return 0
}

// part is a share of a bound. It is at least 1, because 0 means no bound.
func part(bound uint64, share float64) uint64 {
	if bound == 0 {
		return 0
	}
	return max(uint64(float64(bound)*share), 1)
}
