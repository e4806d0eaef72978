package project

import (
	"math"

	"github.com/seed-0906e6bc/mneme/engine/fault"
)

// Scale multiplies token counts, for models whose tokenizer is not public. It has at most three decimals, so that
// results are the same on every machine. The zero Scale belongs to settings stored without one, and means 1.
type Scale float64

// The smallest and the largest Scale.
const (
	minScale Scale = 0.1
	maxScale Scale = 10
)

// thousandths returns the scale multiplied by 1000.
func (s Scale) thousandths() int {
	if s == 0 {
		return 1000
	}
	return int(math.Round(float64(s) * 1000))
}

// Of returns a count, multiplied and rounded.
func (s Scale) Of(tokens int) uint32 {
	by := s.thousandths()
	if by == 1000 {
		return uint32(tokens)
	}
	return uint32(min((uint64(tokens)*uint64(by)+500)/1000, math.MaxUint32))
}

// Within returns the largest count for which Of returns at most this many tokens.
func (s Scale) Within(tokens int) int { return (tokens*1000 + 499) / s.thousandths() }

func (s Scale) check() error {
	if !(s >= minScale && s <= maxScale) {
		return fault.InvalidField("token_scale", "out_of_range", "must be from %v to %v", minScale, maxScale)
	}
	if math.Abs(float64(s)*1000-float64(s.thousandths())) > 1e-6 {
		return fault.InvalidField("token_scale", "invalid_value", "must have at most three decimals")
	}
	return nil
}
