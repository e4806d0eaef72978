// Package snowball turns texts into the terms of the recall index: Unicode words, case-folded and stemmed, without stop
// words; overlapping pairs of characters where a script writes without spaces; emoji as words of their own.
package snowball

import (
	"embed"
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

	"github.com/seed-0906e6bc/mneme/engine/rank"
)

//go:embed stopwords/*.txt
var lists embed.FS

// language is a way of stemming, with the words that say nothing in it.
type language struct {
	name   string
	stem   func(*snowballstem.Env) bool
	script *unicode.RangeTable
	stop   map[string]bool // stop words as they are written, case-folded; nil for Tamil, of which none are known
}

// Analyser makes terms. Safe for concurrent use.
type Analyser struct {
	latin []*language // in Latin script; English comes first, and is meant where no stop word speaks for another
	other map[*unicode.RangeTable]*language
}

// New reads the lists of stop words that come with the package.
func New() (*Analyser, error) {
	a := &Analyser{other: map[*unicode.RangeTable]*language{}}
	for _, l := range []*language{
		{"english", english.Stem, unicode.Latin, nil},
		{"german", german.Stem, unicode.Latin, nil},
		{"french", french.Stem, unicode.Latin, nil},
		{"spanish", spanish.Stem, unicode.Latin, nil},
		{"italian", italian.Stem, unicode.Latin, nil},
		{"portuguese", portuguese.Stem, unicode.Latin, nil},
		{"dutch", dutch.Stem, unicode.Latin, nil},
		{"swedish", swedish.Stem, unicode.Latin, nil},
		{"danish", danish.Stem, unicode.Latin, nil},
		{"norwegian", norwegian.Stem, unicode.Latin, nil},
		{"finnish", finnish.Stem, unicode.Latin, nil},
		{"hungarian", hungarian.Stem, unicode.Latin, nil},
		{"romanian", romanian.Stem, unicode.Latin, nil},
		{"turkish", turkish.Stem, unicode.Latin, nil},
		{"irish", irish.Stem, unicode.Latin, nil},
		{"russian", russian.Stem, unicode.Cyrillic, nil},
		{"arabic", arabic.Stem, unicode.Arabic, nil},
		{"tamil", tamil.Stem, unicode.Tamil, nil},
	} {
		if l.name != "tamil" {
			list, err := lists.ReadFile("stopwords/" + l.name + ".txt")
			if err != nil {
				return nil, err
			}
			l.stop = map[string]bool{}
			for _, w := range strings.Fields(string(list)) {
				l.stop[fold(w)] = true
			}
		}
		if l.script == unicode.Latin {
			a.latin = append(a.latin, l)
		} else {
			a.other[l.script] = l
		}
	}
	return a, nil
}

// Document gives a text's terms in reading order without stop words, and the language that its Latin words were stemmed
// in, "" where it has none. In a text of nothing but stop words they count as words.
func (a *Analyser) Document(text string) (terms []string, latin string) {
	words := split(fold(text))
	lang := a.languageOf(words, a.latin)
	s := newStemmer()
	terms = make([]string, 0, len(words))
	for pass := 0; pass < 2 && len(terms) == 0; pass++ {
		for _, w := range words {
			l := a.stemming(w, lang)
			if pass > 0 || l == nil || !l.stop[w.text] {
				terms = append(terms, s.term(l, w))
			}
			if l == lang {
				latin = lang.name
			}
		}
	}
	return terms, latin
}

// Query gives the words of a query that say something, each once, with their terms in English and in all of the Latin
// languages named. In a query of nothing but stop words they count as words.
func (a *Analyser) Query(text string, languages []string) []rank.Word {
	known := []*language{a.latin[0]}
	for _, l := range a.latin[1:] {
		if slices.Contains(languages, l.name) {
			known = append(known, l)
		}
	}
	words := split(fold(text))
	own := a.languageOf(words, known)
	s := newStemmer()
	var out []rank.Word
	seen := map[string]bool{}
	for pass := 0; pass < 2 && len(out) == 0; pass++ {
		clear(seen)
		for _, w := range words {
			if l := a.stemming(w, own); pass == 0 && l != nil && l.stop[w.text] {
				continue
			}
			q := rank.Word{Text: w.text}
			ways := known // languages that the word may have been indexed in
			if w.script != unicode.Latin {
				ways = []*language{a.stemming(w, nil)}
			}
			for _, l := range ways {
				if pass == 0 && l != nil && l.stop[w.text] {
					continue // texts in that language were indexed without the word
				}
				if term := s.term(l, w); !seen[term] {
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

// stemming is the language that a word is stemmed in: that of its script, or nil where no stemmer knows the script. For
// words in Latin script it is the one given.
func (a *Analyser) stemming(w word, latin *language) *language {
	if w.script == unicode.Latin {
		return latin
	}
	return a.other[w.script]
}

// guessWords is how many words of a text its language is guessed by.
const guessWords = 4096

// languageOf guesses the language of a text's Latin words by the stop words among them.
func (a *Analyser) languageOf(words []word, of []*language) *language {
	if len(of) == 1 {
		return of[0]
	}
	hits := make([]int, len(of))
	for _, w := range words[:min(len(words), guessWords)] {
		if w.script != unicode.Latin {
			continue
		}
		for j, l := range of {
			if l.stop[w.text] {
				hits[j]++
			}
		}
	}
	best := 0
	for i, n := range hits {
		if n > hits[best] {
			best = i
		}
	}
	return of[best]
}
