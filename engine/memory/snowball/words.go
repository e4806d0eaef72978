package snowball

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxWord is the length of the longest word, in characters. Only the beginning of a longer one is indexed.
const maxWord = 64

// word is a run of characters that belong together. Its script is nil if no stemmer knows it.
type word struct {
	text   string
	script *unicode.RangeTable
	stops  languages // languages in which it is a stop word; see Analyser.words
	clause int       // of the text, counted from 0
}

// fold makes texts equal that differ only in case or in the encoding of their characters.
func fold(text string) string {
	if isASCII(text) {
		return strings.ToLower(text)
	}
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(text)))
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// class classifies characters by their role in a word.
type class uint8

const (
	between    class = iota // It ends a word.
	letter                  // It is part of a word.
	invisible               // It is ignored: zero-width and formatting characters.
	apostrophe              // It may be part of a word.
	unspaced                // It belongs to a script without spaces between words.
	symbol                  // It is an emoji, which is a separate word.
	region                  // It is half of a flag.
)

func classOf(r rune) class {
	switch {
	case 'a' <= r && r <= 'z', '0' <= r && r <= '9', 'A' <= r && r <= 'Z':
		return letter
	case r == '\'', r == '’':
		return apostrophe
	case r < 0x80:
		return between
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r), r >= 0x1F3FB && r <= 0x1F3FF:
		return invisible
	case r == 'ー', unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai,
		unicode.Lao, unicode.Khmer, unicode.Myanmar) && !unicode.IsPunct(r):
		return unspaced
	case unicode.IsLetter(r), unicode.IsMark(r), unicode.IsNumber(r):
		return letter
	case r >= 0x1F1E6 && r <= 0x1F1FF:
		return region
	case r >= 0x2190 && unicode.Is(unicode.So, r):
		return symbol
	}
	return between
}

// split splits folded text into words.
func split(text string) []word {
	s := splitter{out: make([]word, 0, len(text)/6+1)}
	for _, r := range text {
		c := classOf(r)
		if c == between && r != ' ' && endsClause(r) {
			s.end()
			s.class = c
			s.clause++
		}
		if c == invisible {
			continue
		}
		if c != s.class || c == symbol || c == region && len(s.run) == 2 {
			if c == apostrophe && s.class == letter && len(s.run) > 0 {
				s.run = append(s.run, '\'')
				continue
			}
			s.end()
		}
		s.class = c
		if c != between && c != apostrophe {
			s.run = append(s.run, r)
		}
	}
	s.end()
	return s.out
}

// endsClause reports whether a character ends a clause, in folded text.
func endsClause(r rune) bool {
	switch r {
	case '.', '!', '?', ';', ':', ',', '(', ')', '\n':
		return true
	}
	return false
}

type splitter struct {
	out    []word
	class  class
	run    []rune
	clause int
}

// end turns the current run into words.
func (s *splitter) end() {
	run := s.run
	s.run = s.run[:0]
	switch {
	case len(run) == 0:
	case s.class == unspaced:
		if len(run) == 1 {
			s.add(run)
		}
		for i := range len(run) - 1 {
			s.add(run[i : i+2])
		}
	default:
		s.spaced(run)
	}
}

// spaced adds a run of letters. What follows an apostrophe is part of the word before it if it is short ("don't",
// "anna's"), and otherwise a separate word ("l'homme", "dell'arte").
func (s *splitter) spaced(run []rune) {
	for from, at := 0, 0; at <= len(run); at++ {
		if at < len(run) && (run[at] != '\'' || nextApostrophe(run, at+1)-at-1 < 3) {
			continue
		}
		w := run[from:at]
		for len(w) > 0 && w[0] == '\'' {
			w = w[1:]
		}
		for len(w) > 0 && w[len(w)-1] == '\'' {
			w = w[:len(w)-1]
		}
		if len(w) > 0 {
			s.add(w)
		}
		from = at + 1
	}
}

// nextApostrophe returns the index of the next apostrophe, or the end of the run.
func nextApostrophe(run []rune, at int) int {
	for at < len(run) && run[at] != '\'' {
		at++
	}
	return at
}

func (s *splitter) add(run []rune) {
	if len(run) > maxWord {
		run = run[:maxWord]
	}
	s.out = append(s.out, word{text: string(run), script: scriptOf(run), clause: s.clause})
}

// scriptOf returns the script of the first letter whose script some stemmer knows, or nil if there is none.
func scriptOf(run []rune) *unicode.RangeTable {
	for _, r := range run {
		switch {
		case 'a' <= r && r <= 'z':
			return unicode.Latin
		case r < 0x80:
			continue
		case unicode.Is(unicode.Latin, r):
			return unicode.Latin
		case unicode.Is(unicode.Cyrillic, r):
			return unicode.Cyrillic
		case unicode.Is(unicode.Arabic, r):
			return unicode.Arabic
		case unicode.Is(unicode.Tamil, r):
			return unicode.Tamil
		}
	}
	return nil
}

// stems caches the terms of words. Each word has one slot, which keeps the last word that used it, because most texts
// consist mostly of a few words.
type stems struct {
	places [1 << 13]atomic.Pointer[stem]
	seed   maphash.Seed
	envs   sync.Pool // of *snowballstem.Env
}

type stem struct {
	of         *language
	word, term string
}

func newStems() *stems {
	return &stems{seed: maphash.MakeSeed(), envs: sync.Pool{New: func() any { return snowballstem.NewEnv("") }}}
}

// term returns the stem of a word without its accents. A nil language does not stem.
func (s *stems) term(l *language, w string) string {
	if l == nil {
		return plain(w)
	}
	place := &s.places[(maphash.String(s.seed, w)+uint64(l.bit))%uint64(len(s.places))]
	if known := place.Load(); known != nil && known.of == l && known.word == w {
		return known.term
	}
	env := s.envs.Get().(*snowballstem.Env)
	defer s.envs.Put(env)
	env.SetCurrent(w)
	l.stem(env)
	term := env.Current()
	if term == "" {
		term = w
	}
	term = plain(term)
	place.Store(&stem{l, w, term})
	return term
}

// plain removes the accents from a word, unless it consists only of them.
func plain(s string) string {
	if isASCII(s) {
		return s
	}
	d := strings.Map(func(r rune) rune {
		if r >= 0x300 && r <= 0x36F {
			return -1
		}
		return r
	}, norm.NFD.String(s))
	if d == "" {
		return s
	}
	return norm.NFC.String(d)
}
