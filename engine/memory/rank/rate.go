package rank

// Analyser turns texts into terms. It is safe for concurrent use. Terms are at most 512 bytes and contain no zero byte.
type Analyser interface {
	// Document returns a text's terms in order, and the language that its Latin words were stemmed in, or "" if it has
	// none.
	Document(text string) (terms []string, latin string)
	// Query returns the significant words of a query, each with its terms in all of the given languages.
	Query(text string, languages []string) []Word

	// Index analyses a text for the index. It returns the terms of Document and further ones, by which the text is found if
	// the query is spelled differently.
	Index(text string) Indexed
	// Search parses a query for terms made by Index. Operators are "a phrase", -without, -"a phrase" and begins*.
	Search(query string, languages []string, operators bool) Search
	// SaysNothing reports whether a text has no words other than stop words.
	SaysNothing(text string) bool
	// Holds reports whether a text contains a phrase.
	Holds(text, phrase string) bool
}

// Indexed is a text as the index stores it.
type Indexed struct {
	Terms     []string // in reading order; further forms of words come last
	Stops     []string // terms of stop words, which do not count in the text's length
	Languages []string // languages whose rules a query must apply to find the terms
}

// Search is a parsed query.
type Search struct {
	Words          []Word
	Pairs          []Pair   // words that are adjacent in the query
	Without        []Word   // no hit contains any of these
	Phrases        []string // each hit contains all of these
	WithoutPhrases []string // no hit contains any of these
}

// The constants of Rate. They are integers, because windows depend on them and must be the same on all machines.
const (
	fullRate      = 1_000_000 // of a text that repeats all words of the query
	usualTerms    = 128       // the length that neither raises nor lowers the rate
	rateThousands = 1000
	rateLength    = 400 // thousandths: how much the length of a text matters
	rateMore      = 900 // thousandths: how soon further occurrences of a word stop counting
)

// Rate returns how well a text answers a query, from 0 to 1,000,000. It depends only on the two, not on what else is
// stored. A text without any word of the query has 0. Each word of the query, up to the first MaxWords, has an equal
// share. Its first occurrence in the text gives about half of that, and further ones the rest. Occurrences count less
// in a long text.
//
// Replays of decisions depend on Rate: changing it, or an analyser, changes the results of old decisions.
func Rate(an Analyser, text, query string) int {
	terms, latin := an.Document(text)
	words := an.Query(query, []string{latin})
	if len(words) == 0 || len(terms) == 0 {
		return 0
	}
	words = words[:min(len(words), MaxWords)]
	wanted := make(map[string]int, 2*len(words)) // the word of each term
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
		int64(rateLength)*int64(len(terms))/usualTerms // in thousandths of the usual length
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
