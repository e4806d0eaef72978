package snowball

import (
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

// operators are the operators of a query: -"a phrase", "a phrase", -without, begins*.
var operators = regexp.MustCompile(
	`(?:(^|\s)(-))?["“„]([^"“”„]+)["”“]|(?:^|\s)-([\p{L}\p{N}]\S*)|([\p{L}\p{N}]{2,})\*`)

// parsed is a query without its operators.
type parsed struct {
	text                                   string
	phrases, unwanted, without, beginnings []string
}

// parse removes the operators from a query.
func parse(query string) (p parsed) {
	p.text = operators.ReplaceAllStringFunc(query, func(found string) string {
		parts := operators.FindStringSubmatch(found)
		phrase := parts[3]
		several := len(split(fold(phrase))) > 1
		switch {
		case parts[2] != "" && several:
			p.unwanted = append(p.unwanted, phrase)
			return " "
		case parts[2] != "":
			p.without = append(p.without, phrase)
			return " "
		case phrase != "":
			if several {
				p.phrases = append(p.phrases, phrase)
			}
			return " " + phrase + " "
		case parts[4] != "":
			p.without = append(p.without, parts[4])
			return " "
		}
		p.beginnings = append(p.beginnings, parts[5])
		return " "
	})
	if len(p.without)+len(p.unwanted) > 0 && strings.TrimSpace(p.text) == "" && len(p.beginnings) == 0 {
		return parsed{text: query} // The query has nothing else.
	}
	return p
}

// Search parses a query for the index: its words, each with all terms that it may have been indexed as, and the
// operators, if they count.
func (a *Analyser) Search(query string, languages []string, withOperators bool) (out rank.Search) {
	p := parsed{text: query}
	if withOperators {
		p = parse(query)
	}
	out.Phrases, out.WithoutPhrases = p.phrases, p.unwanted
	q := a.asking(languages)
	known := map[string]bool{}
	add := func(words ...rank.Word) {
		for _, w := range words {
			if len(w.Terms) > 0 && !known[w.Terms[0]] {
				known[w.Terms[0]] = true
				out.Words = append(out.Words, w)
			}
		}
	}
	words, pairs := q.words(p.text)
	add(words...)
	out.Pairs = pairs
	for _, w := range append(identifierWords(p.text), spacedIdentifiers(spacedAsked, p.text)...) {
		some, _ := q.words(w)
		add(some...)
	}
	for _, w := range suffixedNames(p.text) {
		some, _ := q.words(w)
		add(some...)
	}
	for _, w := range p.beginnings {
		w = foldForIndex(w)
		some, _ := q.words(w)
		for _, found := range some {
			found.Text, found.Begins = w+"*", []rank.Beginning{{Term: plain(w)}}
			found.Terms = append([]string{plain(w)}, found.Terms...)
			add(found)
		}
	}
	for i := range out.Words {
		q.complete(&out.Words[i])
	}
	add(numberWords(p.text)...)
	for _, d := range rank.Dates(p.text) {
		if term := d.Term(); term != "" {
			add(rank.Word{Text: strings.TrimPrefix(term, rank.DateMark), Terms: []string{term}})
		}
	}
	for _, w := range p.without {
		some, _ := q.words(w)
		out.Without = append(out.Without, some...)
	}
	return out
}

// bareAddress matches a hardware address without separators.
var bareAddress = regexp.MustCompile(`\b[0-9A-Fa-f]{12}\b`)

// numberWords returns the telephone numbers and hardware addresses of a query. A number finds longer ones that end with
// it, and one with a country code the same one in national form.
func numberWords(text string) (words []rank.Word) {
	for _, number := range numbersOf(text) {
		words = append(words, numberWord(number))
	}
	for _, a := range append(addressesOf(text), bareAddress.FindAllString(text, -1)...) {
		a = strings.ToLower(a)
		words = append(words, rank.Word{Text: a, Terms: []string{a}})
	}
	return words
}

// The digits of a country code, and the least number of digits that follow it where a national form is looked for.
const (
	countryDigits  = 3
	nationalDigits = 9
)

func numberWord(digits string) rank.Word {
	w := rank.Word{Text: digits, Terms: []string{digits}}
	if end := subscriber(digits); len(end) >= fewestDigits {
		w.Begins = []rank.Beginning{{Term: rank.BackwardsMark + reverse(end)}}
	}
	if strings.HasPrefix(digits, "0") && !strings.HasPrefix(digits, "00") {
		return w
	}
	end := subscriber(digits)
	for n := 1; n <= countryDigits && len(end)-n >= nationalDigits; n++ {
		w.Begins = append(w.Begins, rank.Beginning{Term: rank.BackwardsMark + reverse(end[n:]), More: 1, Most: 1}) // the 0
	}
	return w
}

// asking parses queries in the languages of a space.
type asking struct {
	*Analyser
	latin     []*language // English comes first
	ukrainian bool
	turkish   bool
	compounds bool        // words of any language are indexed by their endings
	inflected []*language // languages known to inflect words by long endings
}

func (a *Analyser) asking(names []string) *asking {
	q := &asking{Analyser: a, latin: a.latin[:1:1], ukrainian: slices.Contains(names, "ukrainian"),
		compounds: slices.Contains(names, anyCompounds)}
	for _, l := range a.latin[1:] {
		if !slices.Contains(names, l.name) {
			continue
		}
		q.latin = append(q.latin, l)
		q.turkish = q.turkish || l.name == "turkish"
		if caseEndings[l.name] != nil {
			q.inflected = append(q.inflected, l)
		}
	}
	return q
}

// words returns the significant words of a text, each once, and the pairs that follow each other. In a text that has
// only stop words they count as words.
func (q *asking) words(text string) (out []rank.Word, pairs []rank.Pair) {
	words := q.wordsOf(text)
	own, cyrillic := q.languageOfText(words, q.latin), q.cyrillic(words)
	ofWord := func(w *word) *language {
		switch w.script {
		case unicode.Latin:
			return own
		case unicode.Cyrillic:
			return cyrillic
		}
		return q.other[w.script]
	}
	for pass := 0; pass < 2 && len(out) == 0; pass++ {
		before := ""
		for i := range words {
			w := &words[i]
			if pass == 0 && w.stops.has(ofWord(w)) {
				continue
			}
			terms := q.terms(w, pass > 0)
			if before != "" {
				pairs = append(pairs, rank.Pair{First: before, Second: w.text})
			}
			before = w.text
			if len(terms) > 0 && !slices.ContainsFunc(out, func(o rank.Word) bool { return o.Text == w.text }) {
				out = append(out, rank.Word{Text: w.text, Terms: terms})
			}
		}
	}
	return out, pairs
}

// SaysNothing reports whether a text has only stop words of one language. A single word may mean something in another
// language, like the Danish "dog", so it must be a stop word in English or in two languages.
func (a *Analyser) SaysNothing(text string) bool {
	words := a.wordsOf(text)
	if len(words) == 1 {
		return words[0].stops.has(a.latin[0]) || bits.OnesCount32(uint32(words[0].stops)) > 1
	}
	lang := a.languageOfText(words, a.latin)
	return !slices.ContainsFunc(words, func(w word) bool { return w.script != unicode.Latin || !w.stops.has(lang) })
}

// ways returns the languages that a word may have been indexed in.
func (q *asking) ways(w *word) []*language {
	switch w.script {
	case unicode.Latin:
		return q.latin
	case unicode.Cyrillic:
		russian := q.other[unicode.Cyrillic]
		if q.ukrainian || q.cyrillic([]word{*w}) == q.Analyser.ukrainian {
			return []*language{russian, q.Analyser.ukrainian}
		}
		return []*language{russian}
	}
	return []*language{q.other[w.script]}
}

// terms returns the terms that a word may have been indexed as. For a stop word, that is the term of the stop word and,
// if stops is set, also the term it has in a text that has only stop words.
func (q *asking) terms(w *word, stops bool) (terms []string) {
	add := func(term string) {
		if !slices.Contains(terms, term) {
			terms = append(terms, term)
		}
	}
	for _, l := range q.ways(w) {
		if w.stops.has(l) {
			if !stops {
				continue
			}
		}
		for _, spelled := range q.spellings(w.text) {
			add(q.stems.indexTerm(l, spelled))
		}
	}
	for _, form := range hebrewForms(w.text) {
		add(form)
	}
	if other := beside(w.text); other != "" {
		for _, l := range q.ways(w) {
			if l != nil && !q.stops[other].has(l) {
				add(q.stems.indexTerm(l, other))
			}
		}
	}
	for _, l := range q.ways(w) {
		if w.stops.has(l) {
			add(rank.StopMark + w.text)
		}
	}
	return terms
}

// spellings returns the possible spellings of a word.
func (q *asking) spellings(w string) []string {
	out := []string{w}
	if q.turkish {
		for _, other := range []string{strings.ReplaceAll(w, "i", "ı"), strings.ReplaceAll(w, "ı", "i")} {
			if other != w {
				out = append(out, other)
			}
		}
	}
	if isASCII(w) {
		return out
	}
	if other := spelledOut(w); other != "" {
		out = append(out, other)
	}
	return out
}

// members returns the stems of a word in the languages that write compounds, without those that begin with another.
func (q *asking) members(text string) (out []string) {
	for _, l := range q.latin {
		writes := slices.Contains(compounding, l.name) || q.compounds && l == q.latin[0]
		if !writes || q.stops[text].has(l) {
			continue
		}
		if stem := q.stems.indexTerm(l, text); utf8.RuneCountInString(stem) >= memberLength {
			out = append(out, stem)
		}
	}
	slices.Sort(out)
	return slices.CompactFunc(out, func(a, b string) bool { return strings.HasPrefix(b, a) })
}

// Limits of looking for longer words and for identifiers.
const (
	inflectedStem    = 4 // letters of a stem in Hungarian and Finnish, which may have
	inflection       = 6 // this many more letters
	identifierLength = 7 // characters of the beginning of an identifier
	identifierDigits = 3
)

// complete adds the other terms that may stand for a word: compounds that begin or end with it, pairs that begin with a
// single character, longer identifiers, and words that differ by a typing error.
func (q *asking) complete(w *rank.Word) {
	letters := utf8.RuneCountInString(w.Text)
	first, _ := utf8.DecodeRuneInString(w.Text)
	switch {
	case len(w.Begins) > 0:
	case classOf(first) == unspaced:
		if letters == 1 {
			w.Begins = []rank.Beginning{{Term: w.Text}}
		}
	case strings.IndexFunc(w.Text, func(r rune) bool { return !unicode.IsLetter(r) }) < 0:
		q.completeWord(w, letters)
	}
	if isIdentifier(w.Text) {
		w.OtherwiseBegins = append(w.OtherwiseBegins, rank.Beginning{Term: w.Text, More: 1})
		if strings.Map(onlyDigits, w.Text) == w.Text {
			end := numberWord(w.Text)
			w.OtherwiseBegins = append(w.OtherwiseBegins, end.Begins...)
		}
	}
}

func (q *asking) completeWord(w *rank.Word, letters int) {
	switch {
	case letters >= 8:
		w.Edits = 2
	case letters >= 4:
		w.Edits = 1
	}
	for _, stem := range q.members(w.Text) {
		if slices.ContainsFunc(q.latin, func(l *language) bool { return slices.Contains(compounding, l.name) }) {
			w.Begins = append(w.Begins, rank.Beginning{Term: stem, More: memberLength})
		}
		w.Begins = append(w.Begins, rank.Beginning{Term: rank.BackwardsMark + reverse(stem), More: memberLength})
		if utf8.RuneCountInString(stem) >= withinLength {
			w.Within = append(w.Within, reverse(stem))
		}
	}
	for _, l := range q.inflected {
		if stem := q.stems.indexTerm(l, w.Text); utf8.RuneCountInString(stem) >= inflectedStem && !q.stops[w.Text].has(l) {
			w.Begins = append(w.Begins, rank.Beginning{Term: stem, More: 1, Most: inflection})
		}
	}
	for _, other := range contracted(w.Text) {
		for _, l := range q.latin {
			if term := q.stems.indexTerm(l, other); !slices.Contains(w.Otherwise, term) && !slices.Contains(w.Terms, term) {
				w.Otherwise = append(w.Otherwise, term)
			}
		}
	}
}

// isIdentifier reports whether a word may be the beginning of an identifier: letters and digits, hexadecimal or with
// some digits.
func isIdentifier(w string) bool {
	if len(w) < identifierLength || !isASCII(w) {
		return false
	}
	digits, hex := 0, true
	for _, r := range w {
		switch {
		case '0' <= r && r <= '9':
			digits++
		case 'a' <= r && r <= 'f':
		case 'a' <= r && r <= 'z':
			hex = false
		default:
			return false
		}
	}
	return hex && digits > 0 || digits >= identifierDigits
}

// Holds reports whether a text contains the words of a phrase, one after another.
func (a *Analyser) Holds(text, phrase string) bool {
	words, wanted := split(foldForIndex(text)), split(foldForIndex(phrase))
	same := func(a, b word) bool { return a.text == b.text || dotless(plain(a.text)) == dotless(plain(b.text)) }
	for i := range words {
		if len(words)-i < len(wanted) {
			return false
		}
		if slices.EqualFunc(words[i:i+len(wanted)], wanted, same) {
			return true
		}
	}
	return false
}

func dotless(s string) string { return strings.ReplaceAll(s, "ı", "i") }
