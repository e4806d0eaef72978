package stats

import (
	"maps"
	"math/bits"
	"slices"
)

// Histogram counts durations in bins, eight per octave. Values read from it are off by at most a sixteenth.
type Histogram map[uint16]uint64

// perOctave is the number of bins per doubling. Smaller durations have their own bins.
const perOctave = 8

// binOf returns the bin of a duration.
func binOf(us uint64) uint16 {
	if us < perOctave {
		return uint16(us)
	}
	octave := bits.Len64(us) - bits.Len(perOctave)
	return uint16(perOctave*octave) + uint16(us>>octave)
}

// middle returns the duration in the middle of a bin.
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

// quantile returns the duration that the given percentage of all durations does not exceed; nil if there are none.
func (h Histogram) quantile(percent uint64) *uint64 {
	var all uint64
	for _, n := range h {
		all += n
	}
	if all == 0 {
		return nil
	}
	rank := (all*percent + 99) / 100 // rounded up
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
