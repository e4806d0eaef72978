package align

// Stored is a stored history.
type Stored interface {
	// Len returns the number of messages.
	Len() int
	// Message returns the hash of message i, counted from 0.
	Message(i int) Hash
}

// Case says how a request relates to the stored history.
type Case string

// The cases, in the order in which they are tried.
const (
	New      Case = "new"       // nothing is stored
	Extend   Case = "extend"    // the request continues from the end of the stored history
	Rewind   Case = "rewind"    // the request is an earlier state: a retry, or a request for another answer
	Tail     Case = "tail"      // the client has trimmed or summarised the beginning
	Diverge  Case = "diverge"   // the client has edited a message
	Edit     Case = "edit"      // messages in the middle have other texts, and those after them are the same
	Gap      Case = "gap"       // messages in the middle are missing
	Front    Case = "front"     // the client's own text is among the messages
	None     Case = "none"      // the request is unrelated to what is stored
	Delta    Case = "delta"     // the client sends only new messages; Find never returns it
	SideCall Case = "side_call" // a call for a title and the like, beside the conversation; Find never returns it
)

// Match is the result of Find. The first Keep stored messages are kept, and the messages of the request from New on are
// new.
type Match struct {
	Case Case
	Keep int
	New  int
	// Front is, for Tail and after a summary, the number of messages before those that were found again.
	Front int
}

// Find determines how a request, given by the hashes of its messages, relates to a stored history. assistant reports
// whether the model wrote message i of the request.
//
// A tail is a run of at least two messages at the end of the stored history, one of them the model's. Find tries it
// before a divergence. After an edit there is no answer yet; so if the request contains the end of the stored history,
// the client has trimmed the beginning, even if the request begins like the history.
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

// commonPrefix returns the number of messages with which both begin.
func commonPrefix(s Stored, request []Hash) int {
	n := min(s.Len(), len(request))
	for i := range n {
		if s.Message(i) != request[i] {
			return i
		}
	}
	return n
}

// longestTail finds the longest run of the request with which the stored history ends; of equally long ones, the last.
// It returns the end of the run in the request and its length, or 0 if none counts.
//
// In reverse order, the run is an occurrence of the reversed history's prefix in the reversed request. The Z-algorithm
// (Gusfield, Algorithms on Strings, Trees and Sequences, 1997, section 1.3) finds all of them in one pass.
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

// prefixes returns, for each index, how many elements from there on equal those from the start.
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
