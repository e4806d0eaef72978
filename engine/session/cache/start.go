package cache

// TableStart is the index of the first message that a window considers, of the newest ones of a session, before which
// there are as many as before says. Behind it are at most horizon messages, and no more than room once their calls are
// answered. It moves in steps of a quarter of the horizon, to the first turn behind the step, so that it stands still for
// many turns, and with it every cut that policies work out from there. A turn that is longer than the shortest table is
// begun inside, at an atom. What counts is what lives, so that a rewind moves no step.
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
		first = fits // one message's calls fill a table
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
