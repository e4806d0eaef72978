package align

import "slices"

// FindCompacted tells what a request, which Find calls none or a divergence, is to a stored history whose client makes
// summaries of it by itself, as Claude Code and Codex do:
//
//   - a tail, where it goes on from all of the history. Claude Code sends its summary, the newest answer, and what is
//     new: a tail of one message, which is too short where a client may mix conversations in a session. Codex sends the
//     user's messages in their order, then its summary and what is new. As that has no answer, it counts only where the
//     request itself says that it was compacted.
//   - a rewind, where it is an earlier state of the newest turn behind a summary: a retry, or another answer is wanted.
//     At least two messages must show it, and the request must have the turn from its beginning on, which newest gives.
//   - else none.
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

// earlier finds the longest run that the request ends with and that ends within the newest turn, the newest of equally
// long ones. It gives where in the history the run ends, in front of its last message, and how long it is; 0: there is
// none that counts.
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

// inOrder finds messages of the request in the history, each behind the one before. It gives the place in the request
// behind the last one that it finds.
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
