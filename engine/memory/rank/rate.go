package rank

// Analyser turns texts into terms. It is safe for concurrent use. Terms are at most 512 bytes and hold no zero byte.
type Analyser interface {
	// Document gives a text's terms in order, and the language that its Latin words were stemmed in, "" without any.
	Document(text string) (terms []string, latin string)
	// Query gives the words of a query that say something, each with its terms in all of the languages named.
	Query(text string, languages []string) []Word

	// Index analyses a text for the index: the terms of Document and further ones, by which a text is found that is
	// spelled otherwise than the query.
	Index(text string) Indexed
	// Search reads a query for what Index made. Operators are "a phrase", -without, -"a phrase" and begins*.
	Search(query string, languages []string, operators bool) Search
	// SaysNothing tells whether a text has no words but stop words.
	SaysNothing(text string) bool
	// Holds reports whether a text contains a phrase.
	Holds(text, phrase string) bool
}

// Indexed is a text as the index has it.
type Indexed struct {
	Terms     []string // in reading order; further forms of words come last
	Stops     []string // terms of stop words, which do not count in the text's length
	Languages []string // whose rules a query must apply to find the terms
}

// Search is a query as it is looked for.
type Search struct {
	Words          []Word
	Pairs          []Pair   // words that follow each other
	Without        []Word   // no hit holds any of these
	Phrases        []string // each hit holds all of these
	WithoutPhrases []string // no hit holds any of these
}

// What Rate counts with. Its numbers are whole ones, because a window made of them is made again on other machines.
const (
	fullRate      = 1_000_000 // of a text that holds all words of the query, over and over
	usualTerms    = 128       // the length at which a text's length neither helps nor harms
	rateThousands = 1000
	rateLength    = 400 // thousandths of how much the length of a text matters
	rateMore      = 900 // thousandths of how soon more of the same word stops to count
)

// Rate says how well a text answers a query, from 0 to 1,000,000, by the two alone: what else is stored does not count.
// A text without any word of the query has 0. Each word of the query, the first MaxWords of them, has an equal share,
// of which its first occurrence in the text gives about half; more of them give the rest, and count for less in a long
// text, by constants of its own.
//
// Decisions are replayed by what Rate says: whoever changes it, or an analyser, makes old decisions those of other
// rules.
func Rate(an Analyser, text, query string) int {
	terms, latin := an.Document(text)
	words := an.Query(query, []string{latin})
	if len(words) == 0 || len(terms) == 0 {
		return 0
	}
	words = words[:min(len(words), MaxWords)]
	wanted := make(map[string]int, 2*len(words)) // by term: its word
	for w := range words {
		for _, term := range words[w].Terms {
			if _, taken := wanted[term]; !taken {
				wanted[term] = w
			}
		}
	}
	counts := make([]int64, len(words))
	for _, term := range terms {
		if w, ok := wanted[term]; ok {
			counts[w]++
		}
	}
	length := int64(rateThousands-rateLength) +
		int64(rateLength)*int64(len(terms))/usualTerms // in thousandths of the usual
	dampened := int64(rateMore) * length / rateThousands
	sum := int64(0)
	for _, n := range counts {
		sum += fullRate * n * rateThousands / (n*rateThousands + dampened)
	}
	rate := int(sum / int64(len(words)))
	if sum > 0 {
		rate = max(rate, 1)
	}
	return rate
}
