package transcript

// This file keeps track of which turns and messages of a session are alive. A rewind supersedes all turns after a given
// one. They stay stored, for audit and for older decisions, and their numbers are never assigned again, so the numbers
// of the living ones have gaps.
//
// A rewind always takes back the newest living turns, and a client removes few messages from the middle of its history.
// What is superseded is therefore a short list of runs, which the session's head and every decision contain; no message
// needs a mark.

import (
	"iter"
	"math"
	"slices"
)

// Max is the maximum number of runs of one session, because its head and each of its decisions contain them all.
const Max = 256

// Run is a run of superseded turns with all their messages, or of some messages of a living turn, given by their first
// and last numbers. A run without messages has a last number one below the first: it comes from an imported file that
// lacks the messages of superseded turns. So has a run without turns; its last turn is the one that its messages are
// part of.
type Run struct {
	Turns    [2]uint32 `json:"turns"`
	Messages [2]uint64 `json:"messages"`
}

// Part returns the run of some messages of a living turn.
func Part(turn uint32, first, last uint64) Run {
	return Run{Turns: [2]uint32{turn + 1, turn}, Messages: [2]uint64{first, last}}
}

// Partial reports whether the run consists of some messages of a living turn.
func (r *Run) Partial() bool { return r.Turns[1] < r.Turns[0] }

// Runs are a session's superseded runs, sorted by the numbers of their messages, and those with turns by their turns,
// too. Between two runs there may be no living turns, because a turn from before a run may continue after it.
type Runs []Run

// Turnwise returns the runs without those that have no turns. Header records contain the messages of those.
func (rs Runs) Turnwise() Runs {
	if !slices.ContainsFunc(rs, func(r Run) bool { return r.Partial() }) {
		return rs
	}
	return slices.DeleteFunc(slices.Clone(rs), func(r Run) bool { return r.Partial() })
}

// Add returns the runs after a rewind that supersedes a run up to the last assigned number. The new run absorbs those
// that lie within it. The receiver is not changed, because others may share it.
func (rs Runs) Add(r Run) Runs {
	kept := len(rs.Before(r.Turns[0]))
	if kept < len(rs) { // The first of its messages may have been removed before.
		r.Messages[0] = min(r.Messages[0], rs[kept].Messages[0])
	}
	if kept > 0 {
		last := rs[kept-1]
		if !last.Partial() && last.Messages[1]+1 == r.Messages[0] && last.Turns[1]+1 == r.Turns[0] {
			r.Turns[0], r.Messages[0] = last.Turns[0], last.Messages[0]
			kept--
		}
	}
	return append(slices.Clip(rs[:kept]), r)
}

// Join adds a run after all others. If it is adjacent to the last one, it extends that.
func (rs Runs) Join(r Run) Runs {
	if n := len(rs); n > 0 && rs[n-1].Messages[1]+1 == r.Messages[0] && rs[n-1].adjoins(r) {
		rs = slices.Clone(rs)
		rs[n-1].Messages[1], rs[n-1].Turns[1] = r.Messages[1], max(rs[n-1].Turns[1], r.Turns[1])
		return rs
	}
	return append(slices.Clip(rs), r)
}

// adjoins reports whether the turns of a run allow it to be joined with a later one.
func (r *Run) adjoins(next Run) bool {
	if r.Partial() || next.Partial() {
		return r.Turns == next.Turns
	}
	return r.Turns[1]+1 >= next.Turns[0]
}

// Before returns the runs of messages that belong to turns before the given one, which is living.
func (rs Runs) Before(turn uint32) Runs {
	for i, r := range rs {
		if r.Turns[1] >= turn {
			return slices.Clip(rs[:i])
		}
	}
	return rs
}

// Upto returns the runs that begin no later than a message.
func (rs Runs) Upto(message uint64) Runs {
	for i, r := range rs {
		if r.Messages[0] > message {
			return slices.Clip(rs[:i])
		}
	}
	return rs
}

// Turns counts the superseded turns up to and including upto.
func (rs Runs) Turns(upto uint32) (n uint32) {
	for _, r := range rs {
		if r.Partial() {
			continue
		}
		if r.Turns[0] > upto {
			break
		}
		n += min(r.Turns[1], upto) - r.Turns[0] + 1
	}
	return n
}

// Messages counts the superseded messages up to and including upto.
func (rs Runs) Messages(upto uint64) (n uint64) {
	for _, r := range rs {
		if r.Messages[0] > upto {
			break
		}
		n += min(r.Messages[1], upto) + 1 - r.Messages[0]
	}
	return n
}

// Place returns the position of a living turn among the living ones, from 1.
func (rs Runs) Place(turn uint32) uint32 { return turn - rs.Turns(turn) }

// LastTurn returns the newest living turn up to upto; 0 if there is none.
func (rs Runs) LastTurn(upto uint32) uint32 {
	for _, r := range slices.Backward(rs) {
		if r.Turns[0] <= upto && upto <= r.Turns[1] {
			upto = r.Turns[0] - 1
		}
	}
	return upto
}

// LastMessage returns the newest living message up to upto; 0 if there is none.
func (rs Runs) LastMessage(upto uint64) uint64 {
	for _, r := range slices.Backward(rs) {
		if r.Messages[0] <= upto && upto <= r.Messages[1] {
			upto = r.Messages[0] - 1
		}
	}
	return upto
}

// Message reports whether a message is superseded.
func (rs Runs) Message(n uint64) bool { return rs.of(n) != nil }

// Part reports whether a message is superseded, and its turn is not.
func (rs Runs) Part(n uint64) bool {
	r := rs.of(n)
	return r != nil && r.Partial()
}

// of returns the run that holds a message; nil if none does.
func (rs Runs) of(n uint64) *Run {
	i, in := slices.BinarySearchFunc(rs, n, func(r Run, n uint64) int {
		switch {
		case n < r.Messages[0]:
			return 1
		case n > r.Messages[1]:
			return -1
		}
		return 0
	})
	if !in {
		return nil
	}
	return &rs[i]
}

// Stretch returns the first and last numbers of the first stretch of living messages at or after from. The last stretch
// has no end.
func (rs Runs) Stretch(from uint64) (first, last uint64) {
	for _, r := range rs {
		switch {
		case r.Messages[1] < max(from, r.Messages[0]):
		case r.Messages[0] <= from:
			from = r.Messages[1] + 1
		default:
			return from, r.Messages[0] - 1
		}
	}
	return from, math.MaxUint64
}

// Nth returns the number of the living message that is preceded by n living ones.
func (rs Runs) Nth(n uint64) uint64 {
	n++
	for _, r := range rs {
		if r.Messages[0] > n {
			break
		}
		n += r.Messages[1] + 1 - r.Messages[0]
	}
	return n
}

// Living visits the stretches of living messages up to upto, newest first, by their first and last numbers.
func (rs Runs) Living(upto uint64) iter.Seq2[uint64, uint64] {
	return func(yield func(first, last uint64) bool) {
		for _, r := range slices.Backward(rs) {
			if r.Messages[0] > upto {
				continue
			}
			if first := r.Messages[1] + 1; first <= upto && !yield(first, upto) {
				return
			}
			upto = r.Messages[0] - 1
		}
		if upto > 0 {
			yield(1, upto)
		}
	}
}

// Sound reports whether the runs are valid for a session that has assigned this many numbers.
func (rs Runs) Sound(turns uint32, messages uint64) bool {
	lastTurn, last := uint32(0), uint64(0)
	for _, r := range rs {
		if r.Turns[1] > turns || r.Messages[0] <= last || r.Messages[1]+1 < r.Messages[0] || r.Messages[1] > messages {
			return false
		}
		if r.Partial() {
			if r.Turns[1] == 0 || r.Turns[1]+1 != r.Turns[0] || r.Messages[1] < r.Messages[0] {
				return false
			}
		} else if r.Turns[0] <= lastTurn {
			return false
		} else {
			lastTurn = r.Turns[1]
		}
		last = r.Messages[1]
	}
	return len(rs) <= Max
}

// Equal reports whether two lists contain the same runs.
func (rs Runs) Equal(other Runs) bool { return slices.Equal(rs, other) }

// Insert returns the runs with one more, whose turns are living. Its messages are, too, except that a run of turns
// replaces the runs of some of their messages. A run without turns is joined with those next to it.
func (rs Runs) Insert(r Run) Runs {
	out := slices.DeleteFunc(slices.Clone(rs), func(old Run) bool {
		return old.Partial() && r.Messages[0] <= old.Messages[0] && old.Messages[1] <= r.Messages[1]
	})
	at := slices.IndexFunc(out, func(old Run) bool { return old.Messages[0] > r.Messages[0] })
	if at < 0 {
		at = len(out)
	}
	if !r.Partial() {
		return slices.Insert(out, at, r)
	}
	if at > 0 && out[at-1].Turns == r.Turns && out[at-1].Messages[1]+1 == r.Messages[0] {
		at--
		r.Messages[0] = out[at].Messages[0]
		out = slices.Delete(out, at, at+1)
	}
	if at < len(out) && out[at].Turns == r.Turns && r.Messages[1]+1 == out[at].Messages[0] {
		r.Messages[1] = out[at].Messages[1]
		out = slices.Delete(out, at, at+1)
	}
	return slices.Insert(out, at, r)
}

// Without returns the runs without the turns and messages of one that lies within them.
func (rs Runs) Without(r Run) (out Runs) {
	for _, old := range rs {
		if old.Messages[1] < r.Messages[0] || old.Messages[0] > r.Messages[1] {
			out = append(out, old)
			continue
		}
		if old.Messages[0] < r.Messages[0] {
			out = append(out, Run{Turns: [2]uint32{old.Turns[0], r.Turns[0] - 1}, Messages: [2]uint64{old.Messages[0], r.Messages[0] - 1}})
		}
		if old.Messages[1] > r.Messages[1] {
			out = append(out, Run{Turns: [2]uint32{r.Turns[1] + 1, old.Turns[1]}, Messages: [2]uint64{r.Messages[1] + 1, old.Messages[1]}})
		}
	}
	return out
}
