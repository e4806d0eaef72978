package snowball

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
)

// alphabets are the letters of the languages in Latin script besides a to z. English has none and may borrow any.
var alphabets = map[string]string{
	"german": "äöü", "french": "àâæçéèêëîïôœùûüÿ", "spanish": "áéíñóúü", "italian": "àèéìíîòóùú",
	"portuguese": "áâãàçéêíóôõúü", "dutch": "éëïöüèê", "swedish": "åäöé", "danish": "æøåé", "norwegian": "æøåéòô",
	"finnish": "äöåšž", "hungarian": "áéíóöőúüű", "romanian": "ăâîșțşţ", "turkish": "çğıöşüâîû", "irish": "áéíóú",
}

// caseEndings are endings of long words that show that a text without any stop words is Hungarian or Finnish.
var caseEndings = map[string][]string{
	"hungarian": {"ban", "ben", "nak", "nek", "val", "vel", "ból", "ből", "hoz", "hez", "höz"},
	"finnish":   {"ssa", "ssä", "sta", "stä", "lla", "llä", "lle", "ksi"},
}

// Case endings are looked for in words of at least this many letters, and count in at least this many words of a text.
const (
	caseLetters = 6
	caseWords   = 2
)

// letterSets returns, for each letter, the languages whose alphabets have it.
func letterSets(of []*language) map[rune]languages {
	out := map[rune]languages{}
	for _, l := range of {
		for _, r := range alphabets[l.name] {
			out[r] |= l.bit
		}
	}
	return out
}

// guess is the language guessed for some Latin words, and the evidence for it.
type guess struct {
	lang    *language // nil if there is no evidence
	stops   int       // stop words of the language
	letters bool      // the words have letters that only some alphabets have
}

// guess guesses the language of words, among some languages, by stop words, letters and case endings.
func (a *Analyser) guess(words []word, of []*language) (g guess) {
	var hits [32]int // by the language's bit
	allowed := ^languages(0)
	latin := false
	for i := range words {
		if words[i].script != unicode.Latin {
			continue
		}
		latin = true
		for left := words[i].stops; left != 0; left &= left - 1 {
			hits[bits.TrailingZeros32(uint32(left))]++
		}
		if isASCII(words[i].text) {
			continue
		}
		for _, r := range words[i].text {
			if set, known := a.letters[r]; known {
				g.letters = true
				allowed &= set
			}
		}
	}
	if !latin {
		return guess{}
	}
	english := a.latin[0]
	var best *language
	possible := 0
	for _, l := range of {
		n := hits[bits.TrailingZeros32(uint32(l.bit))]
		if l != english && !allowed.has(l) {
			continue
		}
		if l != english {
			possible++
		}
		better := best == nil || n > g.stops || n == g.stops && g.letters && best == english
		if !better && n == g.stops && n > 0 && best != english {
			better = inflected(words, l) > inflected(words, best)
		}
		if better {
			best, g.stops = l, n
		}
	}
	switch {
	case g.stops > 0 || g.letters && possible == 1:
		g.lang = best
	default:
		g.lang = endingsOf(words, of, allowed)
		g.letters = g.letters || g.lang != nil
	}
	return g
}

// endingsOf returns the language whose case endings enough words have, or nil if there is none.
func endingsOf(words []word, of []*language, allowed languages) *language {
	for _, l := range of {
		if allowed.has(l) && inflected(words, l) >= caseWords {
			return l
		}
	}
	return nil
}

// inflected counts the long words that have one of the case endings of a language.
func inflected(words []word, l *language) (n int) {
	endings := caseEndings[l.name]
	if endings == nil {
		return 0
	}
	for _, w := range words {
		if len(w.text) >= caseLetters && slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(w.text, e) }) {
			n++
		}
	}
	return n
}

// stemmers returns the languages that the Latin words of a clause are stemmed in: its own, if its words show it, and
// otherwise that of the text and English. If only letters show the language of a clause, or a single word shows that it is
// English in a text of another language, it is stemmed in English, too.
func (a *Analyser) stemmers(clause []word, text *language) []*language {
	english := a.latin[0]
	g := a.guess(clause, a.latin)
	switch {
	case g.lang == text && g.stops > 0, g.lang != nil && g.stops >= 2:
		return []*language{g.lang}
	case g.lang != nil && g.letters:
		return distinct(g.lang, english)
	case g.stops > 0 && g.lang == english:
		return distinct(text, english)
	case g.stops > 0:
		return []*language{text}
	}
	return distinct(text, english)
}

func distinct(a, b *language) []*language {
	if a == b {
		return []*language{a}
	}
	return []*language{a, b}
}

// languageOfText returns the language assumed for a text's Latin words: English if there is no evidence.
func (a *Analyser) languageOfText(words []word, of []*language) *language {
	if g := a.guess(words[:min(len(words), guessWords)], of); g.lang != nil {
		return g.lang
	}
	return of[0]
}

// cyrillic returns the language of Cyrillic words: Ukrainian or Russian by letters, or by stop words, or else Russian.
func (a *Analyser) cyrillic(words []word) *language {
	russian, ukrainian := a.other[unicode.Cyrillic], a.ukrainian
	ru, uk := 0, 0
	for _, w := range words {
		if w.script != unicode.Cyrillic {
			continue
		}
		if strings.ContainsAny(w.text, "іїєґ") {
			return ukrainian
		}
		if strings.ContainsAny(w.text, "ыэъё") {
			return russian
		}
		if w.stops.has(russian) {
			ru++
		}
		if w.stops.has(ukrainian) {
			uk++
		}
	}
	if uk > ru {
		return ukrainian
	}
	return russian
}
