package snowball

import (
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

// Forms are further terms of a text, by which it is found when a query spells its words differently. They are not among
// the terms of Document, because replays of decisions depend on those.

// Limits of what counts as an identifier, and as a compound.
const (
	maxParts       = 6
	maxJoined      = 40 // bytes
	maxHumps       = 12
	compoundLength = 9  // letters of a word that may be a compound
	longCompound   = 14 // letters of a compound in a language not known to write them
	memberLength   = 4  // letters of a word that may be a part of one
	withinLength   = 6  // letters of a stem that may be in the middle of one
)

// compounding are the languages that write compounds in one word.
var compounding = []string{"german", "dutch", "swedish", "danish", "norwegian"}

// Index analyses a text for the index.
func (a *Analyser) Index(text string) rank.Indexed {
	x := &indexing{Analyser: a, original: text}
	x.read()
	for pass := 0; pass < 2 && len(x.out.Terms) == 0; pass++ {
		x.addWords(pass > 0)
	}
	x.addIdentifiers()
	x.out.Terms = append(append(append(x.out.Terms, x.further...), lastOfRuns(text)...), rank.DateTerms(text)...)
	return x.out
}

// indexing is a text being indexed.
type indexing struct {
	*Analyser
	original string
	words    []word
	lang     *language     // of the text's Latin words
	clauses  [][]*language // the language in which the Latin words of each clause are stemmed
	cyrillic *language
	out      rank.Indexed
	further  []string // forms, which come after the words
}

// read splits the text into words and determines their languages.
func (x *indexing) read() {
	x.words = x.wordsOf(x.original)
	x.lang = x.languageOfText(x.words, x.latin)
	if x.lang.name == "turkish" {
		x.words = x.wordsOf(turkishLower(withoutSuffixes(x.original)))
	} else {
		x.further = append(x.further, x.cutNames()...)
	}
	x.cyrillic = x.Analyser.cyrillic(x.words)
	for from := 0; from < len(x.words); {
		to := from + 1
		for to < len(x.words) && x.words[to].clause == x.words[from].clause {
			to++
		}
		for len(x.clauses) <= x.words[from].clause {
			x.clauses = append(x.clauses, nil)
		}
		x.clauses[x.words[from].clause] = x.stemmers(x.words[from:to], x.lang)
		from = to
	}
}

// addWords adds the terms of all words, or only those of stop words if there are no others.
func (x *indexing) addWords(stopsCount bool) {
	for i := range x.words {
		w := &x.words[i]
		ways := x.waysOf(w)
		if w.stops.has(ways[0]) {
			if !stopsCount {
				if stop := rank.StopMark + w.text; !slices.Contains(x.out.Stops, stop) {
					x.out.Stops = append(x.out.Stops, stop)
				}
				continue
			}
		}
		for n, l := range ways {
			x.note(l)
			term := x.stems.indexTerm(l, w.text)
			if n == 0 {
				x.out.Terms = append(x.out.Terms, term)
			} else if term != x.stems.indexTerm(ways[0], w.text) {
				x.further = append(x.further, term)
			}
			if x.compounds(l, w) {
				x.further = append(x.further, rank.BackwardsMark+reverse(term))
			}
		}
		x.further = append(x.further, hebrewForms(w.text)...)
		if other := beside(w.text); other != "" && !x.stops[other].has(ways[0]) {
			x.addBeside(other, ways, x.stems.indexTerm(ways[0], w.text))
		}
	}
}

// addBeside adds the terms of a word beside an apostrophe, unless the whole has the same.
func (x *indexing) addBeside(w string, ways []*language, whole string) {
	for _, l := range distinct(ways[0], x.latin[0]) {
		if l == nil {
			continue
		}
		x.note(l)
		if term := x.stems.indexTerm(l, w); term != whole && !slices.Contains(x.further, term) {
			x.further = append(x.further, term)
		}
	}
}

// waysOf returns the languages that a word is stemmed in. A nil language does not stem.
func (x *indexing) waysOf(w *word) []*language {
	switch w.script {
	case unicode.Latin:
		return x.clauses[w.clause]
	case unicode.Cyrillic:
		return []*language{x.cyrillic}
	}
	return []*language{x.other[w.script]}
}

// note records that a query must use a language. Queries always use English and Russian.
func (x *indexing) note(l *language) {
	if l != nil && (l.script == unicode.Latin || l == x.ukrainian) && !slices.Contains(x.out.Languages, l.name) {
		x.out.Languages = append(x.out.Languages, l.name)
	}
}

// anyCompounds is added to a list of languages for compounds in texts whose language is not known to write them.
const anyCompounds = "compounds"

// compounds reports whether a word can also be found by its ending.
func (x *indexing) compounds(l *language, w *word) bool {
	if w.script != unicode.Latin || l == nil {
		return false
	}
	if slices.Contains(compounding, l.name) {
		return len(w.text) >= compoundLength
	}
	if len(w.text) < longCompound || strings.IndexFunc(w.text, func(r rune) bool { return !unicode.IsLetter(r) }) >= 0 {
		return false
	}
	if !slices.Contains(x.out.Languages, anyCompounds) {
		x.out.Languages = append(x.out.Languages, anyCompounds)
	}
	return true
}

// addIdentifiers adds the other forms of identifiers and numbers.
func (x *indexing) addIdentifiers() {
	ways := distinct(x.lang, x.latin[0])
	for _, w := range append(identifierWords(x.original), spacedIdentifiers(spacedIdentifier, x.original)...) {
		if x.stops[w].has(x.lang) {
			continue
		}
		term := x.stems.indexTerm(ways[0], w)
		x.further = append(x.further, term)
		for _, l := range ways[1:] {
			if other := x.stems.indexTerm(l, w); other != term {
				x.further = append(x.further, other)
			}
		}
	}
	for _, number := range numbersOf(x.original) {
		x.further = append(x.further, number, rank.BackwardsMark+reverse(number))
	}
	x.further = append(x.further, addressesOf(x.original)...)
}

// identifiers returns the longest runs of letters and digits, with single separators between them.
func identifiers(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, end := -1, 0 // where a run begins, and where its last letter or digit ends
		for i, r := range text {
			switch {
			case unicode.IsLetter(r) || unicode.IsNumber(r):
				if from < 0 {
					from = i
				}
				end = i + utf8.RuneLen(r)
			case from >= 0 && !(i == end && strings.ContainsRune(separators, r)):
				if !yield(text[from:end]) {
					return
				}
				from = -1
			}
		}
		if from >= 0 {
			yield(text[from:end])
		}
	}
}

const separators = "-_.,/'"

// thousands is a number with its digits in groups of three.
var thousands = regexp.MustCompile(`^(\d{1,3}(?:[.,']\d{3})+)(?:[.,]\d{1,2})?$`)

// identifierWords returns the other forms of identifiers: getUserDetails and get_user_details are three words and one,
// ABC-1234 is abc1234, 1,299.00 is 1299.
func identifierWords(text string) (out []string) {
	for id := range identifiers(norm.NFKC.String(text)) {
		if isASCII(id) && strings.ToLower(id) == id && !strings.ContainsAny(id, "-_.,/'0123456789") {
			continue // the usual case
		}
		if '0' <= id[0] && id[0] <= '9' {
			if digits := thousands.FindStringSubmatch(id); digits != nil {
				out = append(out, strings.Map(onlyDigits, digits[1]))
				continue
			}
		}
		out = append(out, joinedHumps(id)...)
		separated := strings.ContainsAny(id, "-_") || strings.ContainsAny(id, ".,/") && strings.ContainsAny(id, "0123456789")
		var joined strings.Builder
		parts := 0
		for _, piece := range strings.FieldsFunc(id, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
			joined.WriteString(piece)
			humps := humpsOf(piece)
			parts += len(humps)
			if len(humps) > 1 {
				for _, h := range humps {
					out = append(out, fold(h))
				}
			}
		}
		if separated && parts > 1 && parts <= maxParts && joined.Len() <= maxJoined {
			out = append(out, fold(joined.String()))
		}
	}
	return out
}

// joinedHumps returns adjacent humps of a word, joined, so that gatewayservice finds PaymentGatewayService: all but one
// of three or four humps, and two of more.
func joinedHumps(id string) (out []string) {
	if isASCII(id) && (strings.ToLower(id) == id || strings.ToUpper(id) == id) || strings.ContainsAny(id, separators) {
		return nil
	}
	humps := humpsOf(id)
	most := 2
	if len(humps) <= 4 {
		most = len(humps) - 1
	}
	if len(humps) > maxHumps {
		return nil
	}
	for n := 2; n <= most; n++ {
		for i := range len(humps) - n + 1 {
			out = append(out, fold(strings.Join(humps[i:i+n], "")))
		}
	}
	return out
}

// Letters followed by a space and digits may be one identifier: in a text if the letters are capitals, in a query
// whenever there are few.
var (
	spacedIdentifier = regexp.MustCompile(`\b(\p{Lu}{2,5}) (\d{2,})\b`)
	spacedAsked      = regexp.MustCompile(`\b(\p{L}{2,5}) (\d{2,})\b`)
)

func spacedIdentifiers(by *regexp.Regexp, text string) (out []string) {
	// Searching a text is slow, so only words followed by a number are searched, with the words next to them.
	before, at := 0, 0 // positions of the space before the word, or of the beginning of the text, and of the space after it
	for {
		next := strings.IndexByte(text[at:], ' ')
		if next < 0 {
			return out
		}
		at += next + 1
		end := at
		for end < len(text) && '0' <= text[end] && text[end] <= '9' {
			end++
		}
		if end-at >= 2 {
			if parts := by.FindStringSubmatch(text[before:min(end+1, len(text))]); parts != nil {
				out = append(out, fold(parts[1]+parts[2]))
			}
		}
		before = at - 1
	}
}

func onlyDigits(r rune) rune {
	if r < '0' || r > '9' {
		return -1
	}
	return r
}

// humpsOf splits a word at its humps: XMLHttpRequest into three.
func humpsOf(w string) (out []string) {
	runes, from := []rune(w), 0
	for i := 1; i < len(runes); i++ {
		before, r := runes[i-1], runes[i]
		cut := unicode.IsLower(before) && unicode.IsUpper(r) ||
			unicode.IsUpper(before) && unicode.IsUpper(r) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
		if cut {
			out, from = append(out, string(runes[from:i])), i
		}
	}
	return append(out, string(runes[from:]))
}

func reverse(s string) string {
	runes := []rune(s)
	slices.Reverse(runes)
	return string(runes)
}

// lastOfRuns returns the last character of each run in a script without spaces. All other characters of a run begin a
// pair.
func lastOfRuns(text string) (out []string) {
	if isASCII(text) {
		return nil
	}
	var run []rune
	for _, r := range fold(text) + " " {
		switch c := classOf(r); {
		case c == unspaced:
			run = append(run, r)
		case c != invisible:
			if len(run) > 1 {
				out = append(out, string(run[len(run)-1]))
			}
			run = run[:0]
		}
	}
	return out
}
