package window

import (
	"github.com/seed-0906e6bc/mneme/engine/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// What counting tokens costs a step, and how many bytes are counted between two looks at the clock.
const (
	fuelPerCountedByte = 16
	countedAtOnce      = 64 << 10
)

// work is the work that a plan makes for the host. Its tokens are charged before they are counted. A text that many
// records are to show is counted once.
type work struct {
	meter plan.Meter
	count func(string) int
	last  [2]countedText // the newer first
	ended bool           // fuel or time has run out
}

// countedText is a text with its tokens. Two are kept, because a question is counted as a message and as an earlier
// question.
type countedText struct {
	text   string
	tokens int
}

// keptFrom is the length, in bytes, from which a text's count is kept.
const keptFrom = 64

func (w *work) tokens(text string) int {
	if w.ended {
		return 0
	}
	for i := range w.last {
		if len(text) >= keptFrom && text == w.last[i].text {
			return w.last[i].tokens
		}
	}
	if w.spend(len(text) * fuelPerCountedByte) {
		return 0
	}
	n, whole := chat.CountInParts(text, countedAtOnce, w.count, func() bool { return w.spend(0) })
	if whole && len(text) >= keptFrom {
		w.last = [2]countedText{{text, n}, w.last[0]}
	}
	return n
}

// spend charges the step and reports whether that ended it.
func (w *work) spend(fuel int) bool {
	w.ended = w.ended || w.meter.Spend(fuel) != nil
	return w.ended
}

// apply carries out a plan on the window as it stands, as step number.
func (a *assembly) apply(ops []plan.Op, number int16, meter plan.Meter) (plan.Result, error) {
	count := a.count
	defer func() { a.count = count }()
	w := &work{meter: meter, count: count}
	a.count = w.tokens
	return plan.Apply(a.result.items, ops, number, a, meter)
}
