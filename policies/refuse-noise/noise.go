package refusenoise

// class is a kind of noise.
type class uint8

const (
	none class = iota
	agent
	conversation
	dump
	echo
	heartbeat
	invented
	progress
	refusal
	classes
)

// codes are the reasons of the classes.
var codes = [classes]string{"", "about_agent", "about_conversation", "dump", "echo", "heartbeat", "invented",
	"in_progress", "refusal"}

// Further reasons.
const (
	tooShort  = "too_short"
	emptyJSON = "empty_json"
	counter   = "counter"
)

// Limits of the rules.
const (
	minWords      = 3
	enough        = 2   // the weight of hints of one class that makes a text noise
	enoughOfAll   = 4   // the weight of hints of all classes
	shortRequest  = 8   // a report of what a user asked for, of at most this many words, is only that
	maxWords      = 400 // that are looked at
	maxRead       = 4 << 10
	minTechnical  = 4 // words that look like code in a dump
	technicalPart = 3 // one of so many words
)

// text is a text prepared for the rules.
type text struct {
	raw    string
	folded [maxRead + 2]byte // the words in lower case, each with a space behind it
	size   int
	words  [maxWords]word
	count  int
	half   int // characters of scripts without spaces, of which two count as a word
	marks  marks
}

// word is a word of a text.
type word struct {
	at    int  // in folded
	first bool // A sentence begins with it.
}

// noise returns the reason why a text is not worth remembering, or "".
func (t *text) noise() string {
	if t.emptyJSON() {
		return emptyJSON
	}
	if t.count+t.half/2 < minWords {
		return tooShort
	}
	var weights [classes]int
	for i := 0; i < t.count; {
		i += t.hints(i, &weights)
	}
	if t.count <= shortRequest && weights[conversation] == 1 {
		weights[conversation]++
	}
	if t.marks.trailing {
		weights[progress]++
	}
	if t.numberedStep() {
		weights[progress] += enough
	}
	if t.marks.commas >= minTechnical && t.marks.numbers >= 3 {
		weights[dump]++
	}
	if t.marks.looksLikeCode(t.count) {
		weights[dump] += enough
	}
	all, best := 0, none
	for c := agent; c < classes; c++ {
		all += weights[c]
		if weights[c] > weights[best] {
			best = c
		}
	}
	if weights[best] >= enough || all >= enoughOfAll {
		return codes[best]
	}
	return ""
}

// hints adds what the phrases at a word weigh, the longest of each class, and returns how many words to go on by.
func (t *text) hints(i int, weights *[classes]int) (step int) {
	at := t.words[i].at
	rest := t.folded[at:t.size]
	var found [classes]uint8 // the weight of the longest phrase of each class
	var long [classes]int
	longest := 0
	low, high := 0, len(phrases)
	for low < high { // the first phrase that is not before the word
		middle := (low + high) / 2
		if before(phrases[middle].words, rest) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	for n := low; n < len(phrases); n++ {
		p := &phrases[n]
		if !sameWord(p.words, rest) {
			break
		}
		if !begins(rest, p.words) || !t.fits(i, p.place) {
			continue
		}
		if len(p.words) > long[p.class] || len(p.words) == long[p.class] && p.weight > found[p.class] {
			found[p.class], long[p.class] = p.weight, len(p.words)
		}
		longest = max(longest, len(p.words))
	}
	for c := range found {
		weights[c] += int(found[c])
	}
	step = 1
	for i+step < t.count && t.words[i+step].at < at+longest {
		step++
	}
	return step
}

// numberedStep reports whether the text begins like "Step 3" or "Schritt 3".
func (t *text) numberedStep() bool {
	if t.count < 2 || t.folded[t.words[1].at] < '0' || t.folded[t.words[1].at] > '9' {
		return false
	}
	switch t.word(0) {
	case "step", "schritt", "étape", "paso":
		return true
	}
	return false
}

// fits reports whether a phrase that counts at a place counts at a word.
func (t *text) fits(i int, where place) bool {
	switch where {
	case sentence:
		return t.words[i].first || i > 0 && t.words[i-1].first && isArticle(t.word(i-1))
	case beginning:
		return i == 0
	}
	return true
}

func (t *text) word(i int) string {
	from := t.words[i].at
	to := from
	for t.folded[to] != ' ' {
		to++
	}
	return string(t.folded[from:to])
}

func isArticle(w string) bool {
	switch w {
	case "the", "a", "an", "der", "die", "le", "la", "el", "il":
		return true
	}
	return false
}

// before reports whether all of phrases is before the words of a text, comparing only the first word.
func before(words string, rest []byte) bool {
	for i := 0; ; i++ {
		var a, b byte = ' ', ' '
		if i < len(words) {
			a = words[i]
		}
		if i < len(rest) {
			b = rest[i]
		}
		if a != b {
			return a < b
		}
		if a == ' ' {
			return false
		}
	}
}

// sameWord reports whether a phrase and a text begin with the same word.
func sameWord(words string, rest []byte) bool {
	for i := 0; ; i++ {
		var a, b byte = ' ', ' '
		if i < len(words) {
			a = words[i]
		}
		if i < len(rest) {
			b = rest[i]
		}
		if a != b {
			return false
		}
		if a == ' ' {
			return true
		}
	}
}

// begins reports whether a text begins with the words of a phrase.
func begins(rest []byte, words string) bool {
	return len(rest) > len(words) && string(rest[:len(words)]) == words && rest[len(words)] == ' '
}
