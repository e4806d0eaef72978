// Package snowball turns texts into the terms of the recall index: Unicode words, case-folded and stemmed, without stop
// words; overlapping pairs of characters in scripts without spaces; and emoji as separate words.
package snowball

import (
	"embed"
	"math/bits"
	"slices"
	"strings"
	"unicode"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

//go:embed stopwords/*.txt
var lists embed.FS

// language is a language with its stemmer.
type language struct {
	name   string
	stem   func(*snowballstem.Env) bool
	script *unicode.RangeTable
	bit    languages
}

// languages is a set of languages, with one bit for each.
type languages uint32

// has reports whether a language is in the set. nil is in no set.
func (s languages) has(l *language) bool { return l != nil && s&l.bit != 0 }

// Analyser makes terms. It is safe for concurrent use.
type Analyser struct {
	latin     []*language // in Latin script; English comes first, and is assumed if stop words indicate no other
	other     map[*unicode.RangeTable]*language
	ukrainian *language
	letters   map[rune]languages   // the languages whose alphabets have the letter
	stops     map[string]languages // the stop words, case-folded, with the languages that have them
	stems     *stems
}

// New reads the lists of stop words that are part of the package.
func New() (*Analyser, error) {
	a := &Analyser{other: map[*unicode.RangeTable]*language{}, stops: map[string]languages{}, stems: newStems()}
	for i, l := range []*language{
		{name: "english", stem: english.Stem, script: unicode.Latin},
		{name: "german", stem: german.Stem, script: unicode.Latin},
		{name: "french", stem: french.Stem, script: unicode.Latin},
		{name: "spanish", stem: spanish.Stem, script: unicode.Latin},
		{name: "italian", stem: italian.Stem, script: unicode.Latin},
		{name: "portuguese", stem: portuguese.Stem, script: unicode.Latin},
		{name: "dutch", stem: dutch.Stem, script: unicode.Latin},
		{name: "swedish", stem: swedish.Stem, script: unicode.Latin},
		{name: "danish", stem: danish.Stem, script: unicode.Latin},
		{name: "norwegian", stem: norwegian.Stem, script: unicode.Latin},
		{name: "finnish", stem: finnish.Stem, script: unicode.Latin},
		{name: "hungarian", stem: hungarian.Stem, script: unicode.Latin},
		{name: "romanian", stem: romanian.Stem, script: unicode.Latin},
		{name: "turkish", stem: turkish.Stem, script: unicode.Latin},
		{name: "irish", stem: irish.Stem, script: unicode.Latin},
		{name: "russian", stem: russian.Stem, script: unicode.Cyrillic},
		{name: "arabic", stem: arabic.Stem, script: unicode.Arabic},
		{name: "tamil", stem: tamil.Stem, script: unicode.Tamil},
		{name: "ukrainian", stem: stemUkrainian, script: unicode.Cyrillic},
	} {
		l.bit = 1 << i
		if l.name != "tamil" { // There is no list of its stop words.
			list, err := lists.ReadFile("stopwords/" + l.name + ".txt")
			if err != nil {
				return nil, err
			}
			for _, w := range strings.Fields(string(list)) {
				a.stops[fold(w)] |= l.bit
			}
		}
		switch {
		case l.script == unicode.Latin:
			a.latin = append(a.latin, l)
		case l.name == "ukrainian": // Document and Query treat it as Russian, because replays of decisions depend on that.
			a.ukrainian = l
		default:
			a.other[l.script] = l
		}
	}
	a.letters = letterSets(a.latin)
	return a, nil
}

// Document returns a text's terms in reading order without stop words, and the language that its Latin words were
// stemmed in, or "" if it has none. In a text that has only stop words they count as words.
func (a *Analyser) Document(text string) (terms []string, latin string) {
	d := a.read(text)
	return d.terms, d.latin
}

// words splits a text into words and marks stop words.
func (a *Analyser) words(text string) []word {
	words := split(fold(text))
	for i := range words {
		words[i].stops = a.stops[words[i].text]
	}
	return words
}

// reading is a text's words with the result of Document, and what it depends on.
type reading struct {
	words []word
	terms []string
	latin string
	lang  *language // that Latin words are stemmed in
}

// Split is a text split into words, whose terms can be had in several languages.
type Split struct {
	analyser *Analyser
	words    []word
}

// Split splits a text into words. A word for which skip, given the case-folded word, returns true is left out.
func (a *Analyser) Split(text string, skip func(word string) bool) Split {
	return Split{a, slices.DeleteFunc(a.words(text), func(w word) bool { return skip(w.text) })}
}

// Language returns the language in which Document would stem the Latin words.
func (s Split) Language() string { return languageOf(s.words, s.analyser.latin).name }

// Terms returns the terms as Document does, with Latin words stemmed in the given language.
func (s Split) Terms(latin string) []string {
	for _, l := range s.analyser.latin {
		if l.name == latin {
			return s.analyser.readIn(s.words, l).terms
		}
	}
	return s.analyser.readIn(s.words, s.analyser.latin[0]).terms
}

func (a *Analyser) read(text string) reading {
	words := a.words(text)
	return a.readIn(words, languageOf(words, a.latin))
}

func (a *Analyser) readIn(words []word, latin *language) reading {
	r := reading{words: words, terms: make([]string, 0, len(words)), lang: latin}
	for pass := 0; pass < 2 && len(r.terms) == 0; pass++ {
		for _, w := range words {
			l := a.stemming(w, r.lang)
			if pass > 0 || !w.stops.has(l) {
				r.terms = append(r.terms, a.stems.term(l, w.text))
			}
			if l == r.lang {
				r.latin = r.lang.name
			}
		}
	}
	return r
}

// Query returns the significant words of a query, each once, with their terms in English and in all of the given Latin
// languages. In a query that has only stop words they count as words.
func (a *Analyser) Query(text string, languages []string) []rank.Word {
	known := []*language{a.latin[0]}
	for _, l := range a.latin[1:] {
		if slices.Contains(languages, l.name) {
			known = append(known, l)
		}
	}
	words := a.words(text)
	own := languageOf(words, known)
	var out []rank.Word
	seen := map[string]bool{}
	for pass := 0; pass < 2 && len(out) == 0; pass++ {
		clear(seen)
		for _, w := range words {
			if pass == 0 && w.stops.has(a.stemming(w, own)) {
				continue
			}
			q := rank.Word{Text: w.text}
			ways := known // languages that the word may have been indexed in
			if w.script != unicode.Latin {
				ways = []*language{a.stemming(w, nil)}
			}
			for _, l := range ways {
				if pass == 0 && w.stops.has(l) {
					continue // texts in that language were indexed without the word
				}
				if term := a.stems.term(l, w.text); !seen[term] {
					seen[term] = true
					q.Terms = append(q.Terms, term)
				}
			}
			if len(q.Terms) > 0 {
				out = append(out, q)
			}
		}
	}
	return out
}

// stemming returns the language that a word is stemmed in: that of its script, or nil if no stemmer knows the script.
// For words in Latin script it is the one given.
func (a *Analyser) stemming(w word, latin *language) *language {
	if w.script == unicode.Latin {
		return latin
	}
	return a.other[w.script]
}

// guessWords is the number of words of a text from which its language is guessed.
const guessWords = 4096

// languageOf guesses the language, among some, of a text's Latin words, by the stop words among them.
func languageOf(words []word, of []*language) *language {
	var hits [32]int // by the language's bit
	for i := range words[:min(len(words), guessWords)] {
		if words[i].script != unicode.Latin {
			continue
		}
		for left := words[i].stops; left != 0; left &= left - 1 {
			hits[bits.TrailingZeros32(uint32(left))]++
		}
	}
	best := of[0]
	for _, l := range of[1:] {
		if hits[bits.TrailingZeros32(uint32(l.bit))] > hits[bits.TrailingZeros32(uint32(best.bit))] {
			best = l
		}
	}
	return best
}
