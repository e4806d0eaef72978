package cache

// TableStart returns the index in stored of the first message that a window considers. stored are the newest messages
// of a session, and before is the number of living messages that precede them. From the start on there are at most
// horizon messages, and at most room records, counting one more for each call. The start moves in steps of a quarter of
// the horizon, to the first turn after the step. It therefore stays the same for many turns, and so do the cuts that
// policies derive from it. If one turn is longer than that, the start lies inside it, at the beginning of an atom (a
// call with its results). Only living messages are counted, so a rewind does not move the steps.
func TableStart(stored []Row, before, horizon, room int) int {
	fits, records := max(0, len(stored)-horizon), 0
	for i := len(stored) - 1; i >= fits; i-- {
		if records += 1 + int(stored[i].Calls); records > room {
			fits = i + 1
		}
	}
	if fits == 0 || fits == len(stored) {
		return fits
	}
	step := horizon / 4
	bound := (before+fits+step-1)/step*step - before
	first := bound
	if first >= len(stored) {
		first = fits // the calls of one message fill a table
	}
	for i := max(first, 1); i < len(stored) && i < bound+3*step; i++ {
		if stored[i].Turn != stored[i-1].Turn {
			first = i
			break
		}
	}
	for first < len(stored) && !stored[first].AtomStart() {
		first++
	}
	return first
}
