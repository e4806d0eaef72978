// Package snowball turns texts into the terms of the recall index: Unicode words, case-folded and stemmed, without stop
// words; overlapping pairs of characters where a script writes without spaces; emoji as words of their own.
package snowball

import (
	"embed"
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

// language is a way of stemming with the words that say nothing in it.
type language struct {
	name string
	stem func(*snowballstem.Env) bool
	stop map[string]bool // as they are written, case-folded
}

// Analyser makes terms. Safe for concurrent use.
type Analyser struct {
	latin []*language // those that share the Latin script; English first, which is meant where nothing speaks for another
	other map[*unicode.RangeTable]*language
}

// New reads the lists of stop words.
func New() (*Analyser, error) {
	a := &Analyser{other: map[*unicode.RangeTable]*language{}}
	for _, l := range []struct {
		name   string
		stem   func(*snowballstem.Env) bool
		script *unicode.RangeTable
	}{
		{"english", english.Stem, unicode.Latin},
		{"german", german.Stem, unicode.Latin},
		{"french", french.Stem, unicode.Latin},
		{"spanish", spanish.Stem, unicode.Latin},
		{"italian", italian.Stem, unicode.Latin},
		{"portuguese", portuguese.Stem, unicode.Latin},
		{"dutch", dutch.Stem, unicode.Latin},
		{"swedish", swedish.Stem, unicode.Latin},
		{"danish", danish.Stem, unicode.Latin},
		{"norwegian", norwegian.Stem, unicode.Latin},
		{"finnish", finnish.Stem, unicode.Latin},
		{"hungarian", hungarian.Stem, unicode.Latin},
		{"romanian", romanian.Stem, unicode.Latin},
		{"turkish", turkish.Stem, unicode.Latin},
		{"irish", irish.Stem, unicode.Latin},
		{"russian", russian.Stem, unicode.Cyrillic},
		{"arabic", arabic.Stem, unicode.Arabic},
		{"tamil", tamil.Stem, unicode.Tamil},
	} {
		stop, err := readList(l.name)
		if err != nil {
			return nil, err
		}
		lang := &language{name: l.name, stem: l.stem, stop: stop}
		if l.script == unicode.Latin {
			a.latin = append(a.latin, lang)
		} else {
			a.other[l.script] = lang
		}
	}
	return a, nil
}

// readList reads a language's stop words; none are known of Tamil.
func readList(name string) (map[string]bool, error) {
	if name == "tamil" {
		return nil, nil
	}
	b, err := lists.ReadFile("stopwords/" + name + ".txt")
	if err != nil {
		return nil, err
	}
	words := map[string]bool{}
	for _, w := range strings.Fields(string(b)) {
		words[fold(w)] = true
	}
	return words, nil
}

// Document gives a text's terms in reading order, stop words left out, and the language that its Latin words were
// stemmed in, "" where it has none. Where there is nothing but stop words they count as words.
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

// Query gives the words of a query that say something, each once, with its terms in all of the Latin languages named.
// Where all are stop words they count as words.
func (a *Analyser) Query(text string, languages []string) []rank.Word {
	known := []*language{a.latin[0]}
	for _, l := range a.latin[1:] {
		for _, name := range languages {
			if l.name == name {
				known = append(known, l)
			}
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
			if pass == 0 && a.stops(w, own) {
				continue
			}
			q := rank.Word{Text: w.text}
			for _, l := range a.ways(w, known) {
				if l != nil && pass == 0 && l.stop[w.text] {
					continue // no text in that language was indexed by it
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

func (a *Analyser) stops(w word, own *language) bool {
	l := a.stemming(w, own)
	return l != nil && l.stop[w.text]
}

// ways are the languages that a query's word may have been indexed in.
func (a *Analyser) ways(w word, known []*language) []*language {
	if w.script == unicode.Latin {
		return known
	}
	return []*language{a.stemming(w, nil)}
}

// stemming is the language that a word is stemmed in: that of its script, or nil where no stemmer knows it.
func (a *Analyser) stemming(w word, latin *language) *language {
	if w.script == unicode.Latin {
		return latin
	}
	return a.other[w.script]
}

// languageOf guesses the language of a text's Latin words by the stop words among them.
func (a *Analyser) languageOf(words []word, of []*language) *language {
	if len(of) == 1 {
		return of[0]
	}
	hits := make([]int, len(of))
	for i, w := range words {
		if i == 4096 {
			break // so much tells
		}
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
