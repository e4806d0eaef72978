package align

// Stored is a stored history.
type Stored interface {
	// Len is the number of messages.
	Len() int
	// Message is the hash of one message, from 0.
	Message(i int) Hash
}

// Case says what a request is to the stored history.
type Case string

// The cases, in the order in which they are looked for.
const (
	New     Case = "new"     // nothing is stored
	Extend  Case = "extend"  // the request goes on from all that is stored
	Rewind  Case = "rewind"  // the request is an earlier state: a retry, or another answer is wanted
	Tail    Case = "tail"    // the client has trimmed or summarised its front
	Diverge Case = "diverge" // the client has edited a message
	Edit    Case = "edit"    // messages in the middle have other texts, and what is behind them is the same
	Gap     Case = "gap"     // messages in the middle are missing
	Front   Case = "front"   // text of the client's own stands among the messages
	None    Case = "none"    // the request has nothing to do with what is stored
	Delta   Case = "delta"   // the client says that it sends new messages alone; Find never answers it
)

// Match is what Find found. The first Keep stored messages stay, and the messages of the request from New on are new.
type Match struct {
	Case Case
	Keep int
	New  int
	// Front counts, for Tail and behind a summary, the messages in front of those that were found again.
	Front int
}

// Find tells what a request, given by the hashes of its messages, is to a stored history. assistant tells of a message
// of the request whether the model said it.
//
// A tail is a run of at least two messages, one of them the model's, with which the stored history ends. It is looked
// for before a divergence: who edits a message has no answer behind it yet, so the stored history's end shows that a
// front was trimmed, even one that begins as the stored history does.
func Find(s Stored, request []Hash, assistant func(i int) bool) Match {
	stored := s.Len()
	if stored == 0 {
		return Match{Case: New}
	}
	common := commonPrefix(s, request)
	switch common {
	case stored:
		return Match{Case: Extend, Keep: stored, New: stored}
	case len(request):
		return Match{Case: Rewind, Keep: common, New: common}
	}
	end, length := longestTail(s, request, assistant)
	switch {
	case length > 0:
		return Match{Case: Tail, Keep: stored, New: end, Front: end - length}
	case common > 0:
		return Match{Case: Diverge, Keep: common, New: common}
	}
	return Match{Case: None}
}

// commonPrefix is the number of messages with which both begin.
func commonPrefix(s Stored, request []Hash) int {
	n := min(s.Len(), len(request))
	for i := range n {
		if s.Message(i) != request[i] {
			return i
		}
	}
	return n
}

// longestTail finds the longest run of the request with which the stored history ends, the last of equally long ones.
// It gives where the run ends in the request and its length, 0 where there is none that counts.
//
// Read backwards, the run is where the stored end's beginning occurs in the request: the Z-algorithm (Gusfield,
// Algorithms on Strings, Trees and Sequences, 1997, section 1.3) finds all of them in one pass.
func longestTail(s Stored, request []Hash, assistant func(i int) bool) (end, length int) {
	size := min(s.Len(), len(request))
	backwards := make([]Hash, 0, size+len(request))
	for i := range size {
		backwards = append(backwards, s.Message(s.Len()-1-i))
	}
	for i := range request {
		backwards = append(backwards, request[len(request)-1-i])
	}
	for i, run := range prefixes(backwards)[size:] {
		run = min(run, size)
		last := len(request) - i
		if run >= 2 && run > length && anyOf(last-run, last, assistant) {
			end, length = last, run
		}
	}
	return end, length
}

func anyOf(from, to int, is func(i int) bool) bool {
	for i := from; i < to; i++ {
		if is(i) {
			return true
		}
	}
	return false
}

// prefixes gives, for each place, how many elements from there on equal those from the start on.
func prefixes(s []Hash) []int {
	z := make([]int, len(s))
	left, right := 0, 0
	for i := 1; i < len(s); i++ {
		if i < right {
			z[i] = min(right-i, z[i-left])
		}
		for i+z[i] < len(s) && s[z[i]] == s[i+z[i]] {
			z[i]++
		}
		if i+z[i] > right {
			left, right = i, i+z[i]
		}
	}
	return z
}
