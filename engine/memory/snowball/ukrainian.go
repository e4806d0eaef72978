package snowball

import (
	"strings"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
)

// ukrainianEndings are endings of Ukrainian nouns, adjectives and verbs, longest first.
var ukrainianEndings = strings.Fields(`
	уватиме юватиме
	ованого уванням юванням ськими ського ському
	ування ювання ською ський ських ськім
	ували ювали ували ували увати ювати ється ються
	ованих остями
	ання ення іння ість істю ості остей ього ьому
	ними ного ному німи
	ами ями ого ому ими іми ові еві єві ією ією иму ати яти іти ити али яли іли или ала яла іла ила ало яло ило ють уть ять ать
	емо имо ете ите ємо єте ешь иш єш еш
	ах ях ам ям ом ем єм ою ею єю ів їв ей ий ій їй им ім их іх ої ії ія ію іє ує ює ав яв ів ив ть ті
	а я о е є и і ї у ю ь й`)

// ukrainianRest is the minimum number of letters left by removing an ending.
const ukrainianRest = 3

// stemUkrainian removes the ending of a Ukrainian word. Snowball has no Ukrainian stemmer in Go. This is a light one:
// it removes one ending, and unifies the vowels that change in a closed syllable (Київ, Києва; Львів,
// Львова).
func stemUkrainian(env *snowballstem.Env) bool {
	w := env.Current()
	if rest, ok := strings.CutSuffix(w, "ся"); ok && utf8.RuneCountInString(rest) > ukrainianRest {
		w = rest
	}
	if !endsInSyllable(w) {
		for _, ending := range ukrainianEndings {
			rest, ok := strings.CutSuffix(w, ending)
			if ok && utf8.RuneCountInString(rest) >= ukrainianRest {
				w = rest
				break
			}
		}
	}
	for _, syllable := range closedSyllables {
		if rest, ok := strings.CutSuffix(w, syllable); ok && utf8.RuneCountInString(rest) >= 2 {
			w = rest + "ев"
			break
		}
	}
	env.SetCurrent(w)
	return true
}

// closedSyllables are the ends of stems that are unified.
var closedSyllables = []string{"ів", "їв", "ов", "єв"}

// endsInSyllable reports whether a short word ends in a closed syllable that belongs to its stem, like Київ and
// Львів.
func endsInSyllable(w string) bool {
	letters := utf8.RuneCountInString(w)
	return letters <= 5 && (strings.HasSuffix(w, "їв") || strings.HasSuffix(w, "ів"))
}
