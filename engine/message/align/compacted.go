package align

import "slices"

// FindCompacted classifies a request for which Find returns None or Diverge, if the client of the stored history writes
// summaries itself, as Claude Code and Codex do. The request is
//
//   - a tail, if it continues from the end of the history. Claude Code sends its summary, the newest answer, and what is
//     new: a tail of one message, which would be too short for a client that may mix conversations in a session. Codex
//     sends the user's messages in order, then its summary and what is new. Since this contains no answer, it counts only
//     if the request itself says that it was compacted.
//   - a rewind, if it is an earlier state of the newest turn after a summary: a retry, or a request for another answer.
//     At least two messages must match, and the request must have the turn from its beginning, which is at newest.
//   - none, otherwise.
func FindCompacted(s Stored, newest int, request []Hash, assistant func(i int) bool, compacted bool) Match {
	history := make([]Hash, s.Len())
	for i := range history {
		history[i] = s.Message(i)
	}
	stored := len(history)
	if stored == 0 {
		return Match{Case: None}
	}
	for i := len(request) - 2; i > 0; i-- {
		if request[i] == history[stored-1] && assistant(i) {
			return Match{Case: Tail, Keep: stored, New: i + 1, Front: i}
		}
	}
	if keep, length := earlier(history, newest, request); length > 0 {
		return Match{Case: Rewind, Keep: keep, New: len(request), Front: len(request) - length}
	}
	if end := inOrder(history, request); compacted && end > 0 && end < len(request) {
		return Match{Case: Tail, Keep: stored, New: end, Front: end}
	}
	return Match{Case: None}
}

// earlier finds the longest run that ends the request and ends within the newest turn; of equally long ones, the
// newest. It returns the index in the history where the run ends, before its last message, and the length of the run,
// or 0 if none counts.
func earlier(history []Hash, newest int, request []Hash) (end, length int) {
	backwards := slices.Concat(request, history[:len(history)-1])
	slices.Reverse(backwards[:len(request)])
	slices.Reverse(backwards[len(request):])
	for i, run := range prefixes(backwards)[len(request):] {
		at := len(history) - 1 - i
		run = min(run, len(request))
		if at > newest && run >= max(2, at-newest) && run > length {
			end, length = at, run
		}
	}
	return end, length
}

// inOrder finds messages of the request in the history, in the same order. It returns the index in the request after
// the last one that it finds.
func inOrder(history, request []Hash) (end int) {
	at := map[Hash][]int{}
	for i, h := range history {
		at[h] = append(at[h], i)
	}
	from := 0
	for i, h := range request {
		next, _ := slices.BinarySearch(at[h], from)
		if next < len(at[h]) {
			from, end = at[h][next]+1, i+1
		}
	}
	return end
}
