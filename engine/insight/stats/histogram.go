package stats

import (
	"maps"
	"math/bits"
	"slices"
)

// Histogram counts durations by bins, of which there are eight to an octave: what is read from it is at most a
// sixteenth off.
type Histogram map[uint16]uint64

// perOctave is how many bins a doubling has. Durations below it have bins of their own.
const perOctave = 8

// binOf is the bin of a duration.
func binOf(us uint64) uint16 {
	if us < perOctave {
		return uint16(us)
	}
	octave := bits.Len64(us) - bits.Len(perOctave)
	return uint16(perOctave*octave) + uint16(us>>octave)
}

// middle is the duration in the middle of a bin.
func middle(bin uint16) uint64 {
	if bin < 2*perOctave {
		return uint64(bin)
	}
	octave := bin/perOctave - 1
	width := uint64(1) << octave
	return uint64(bin%perOctave+perOctave)*width + width/2
}

func (h *Histogram) add(bin uint16, n uint64) {
	if *h == nil {
		*h = Histogram{}
	}
	(*h)[bin] += n
}

// quantile is the duration that a share of all, in percent, does not exceed; nil where there are none.
func (h Histogram) quantile(percent uint64) *uint64 {
	var all uint64
	for _, n := range h {
		all += n
	}
	if all == 0 {
		return nil
	}
	rank := (all*percent + 99) / 100 // the first that so many are at most
	for _, bin := range slices.Sorted(maps.Keys(h)) {
		if n := h[bin]; n < rank {
			rank -= n
			continue
		}
		us := middle(bin)
		return &us
	}
	return nil
}
