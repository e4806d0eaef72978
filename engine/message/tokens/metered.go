package tokens

import "github.com/seed-0906e6bc/mneme/engine/plan"

// What counting tokens costs a step of a pipeline.
const (
	fuelPerCountedByte = 16
	// keptFrom is the length, in bytes, from which a text's count is remembered.
	keptFrom = 64
)

// metered counts tokens for a plan. Tokens are charged before they are counted. A text that many records will show is
// counted once.
type metered struct {
	meter plan.Meter
	count Count
	last  [2]countedText // newer first
	ended bool           // fuel or time has run out
}

// countedText is a text with its tokens. Two are remembered, because a question is counted both as a message and as an
// earlier question.
type countedText struct {
	text   string
	tokens int
}

// Count counts a text's tokens, and calls stop repeatedly while the text is long. It returns false if it stopped.
type Count func(text string, stop func() bool) (tokens int, whole bool)

// Metered returns count, charged to a step of a pipeline. Once the step's fuel or time has run out, it counts nothing.
func Metered(meter plan.Meter, count Count) func(string) int {
	m := &metered{meter: meter, count: count}
	return m.tokens
}

func (m *metered) tokens(text string) int {
	if m.ended {
		return 0
	}
	for i := range m.last {
		if len(text) >= keptFrom && text == m.last[i].text {
			return m.last[i].tokens
		}
	}
	if m.spend(len(text) * fuelPerCountedByte) {
		return 0
	}
	n, whole := m.count(text, func() bool { return m.spend(0) })
	if whole && len(text) >= keptFrom {
		m.last = [2]countedText{{text, n}, m.last[0]}
	}
	return n
}

// spend charges the step and reports whether that ended it.
func (m *metered) spend(fuel int) bool {
	m.ended = m.ended || m.meter.Spend(fuel) != nil
	return m.ended
}
