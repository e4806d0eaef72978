// Package likeness compares the texts of two memories. Words alone find texts that belong together, but cannot judge
// whether they say the same: a contradiction shares more words with a fact than a paraphrase does. So Score only finds,
// and Equal and Covers, which hold for texts that say nothing new, are what a policy may merge by.
package likeness

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/memory/snowball"
)

// Rules is the version of the rules of this package. Decisions that depend on them record it.
const Rules = 1

// MaxScore is the Score of two texts with the same words.
const MaxScore = 1_000_000

// maxText is how much of a text is compared, in bytes.
const maxText = 16 << 10

// Comparer compares texts. It is safe for concurrent use.
type Comparer struct{ analyser *snowball.Analyser }

// New returns a Comparer that stems words with an analyser.
func New(a *snowball.Analyser) *Comparer { return &Comparer{a} }

// Text is a text prepared for comparing. It is not safe for concurrent use.
type Text struct {
	text     string
	cut      bool   // the text has more than maxText bytes
	language string // that its words are in, guessed
	split    snowball.Split
	terms    map[string]weighed // by language

	read    bool     // the fields below are set
	spoken  []spoken // its words in order
	negated []string // its negations, sorted
}

// weighed are a text's distinct terms in one language, sorted, with their weight.
type weighed struct {
	terms  []string
	weight uint64
}

// Read prepares a text.
func (c *Comparer) Read(text string) *Text {
	t := &Text{text: text, terms: make(map[string]weighed, 1)}
	if len(text) > maxText {
		at := maxText
		for at > 0 && !utf8.RuneStart(text[at]) {
			at--
		}
		t.text, t.cut = text[:at], true
	}
	t.split = c.analyser.Split(t.text, isNegation)
	t.language = t.split.Language()
	return t
}

// speak sets the words in order. Most texts are only scored and need none.
func (t *Text) speak() {
	if t.read {
		return
	}
	t.read, t.spoken = true, speak(t.text, t.language)
	for _, w := range t.spoken {
		if negations[w.text] {
			t.negated = append(t.negated, w.text)
		}
	}
	slices.Sort(t.negated)
}

// Likeness says how two texts relate. At most one of the four relations holds.
type Likeness struct {
	// Score is twice the weight of the words that both texts have, divided by the weight of the words of each, from 0 to
	// MaxScore, rounded down. Words are stemmed; stop words and negations do not count.
	Score uint32
	// Equal holds for texts with the same words in the same order, not counting articles.
	Equal bool
	// Covers holds if the first text, of at least 3 words, is how a sentence of the second begins, or how it goes on
	// after ", and" or ", but", and the second only adds to it.
	Covers bool
	// Covered holds if the second is covered by the first.
	Covered bool
	// Digits holds for texts that are equal but for their digits.
	Digits bool
}

// Compare compares a candidate with a memory. Compare(b, a) has the same Score, Equal and Digits, and exchanges Covers
// and Covered. If the Score is below atLeast, the rest is not looked at.
func Compare(candidate, memory *Text, atLeast uint32) Likeness {
	l := Likeness{Score: score(candidate, memory)}
	if l.Score < atLeast {
		return l
	}
	candidate.speak()
	memory.speak()
	whole := !candidate.cut && !memory.cut
	switch {
	case whole && sameWords(candidate, memory, spoken.same):
		l.Equal, l.Score = true, MaxScore
	case whole && sameWords(candidate, memory, spoken.sameButDigits):
		l.Digits = true
	case whole && slices.Equal(candidate.negated, memory.negated):
		l.Covers = covers(memory, candidate)
		l.Covered = !l.Covers && covers(candidate, memory)
	}
	return l
}

// score returns the Score in that of the two texts' languages in which it is higher.
func score(a, b *Text) uint32 {
	best := scoreIn(a, b, a.language)
	if a.language != b.language {
		best = max(best, scoreIn(a, b, b.language))
	}
	return best
}

func scoreIn(a, b *Text, language string) uint32 {
	x, y := a.in(language), b.in(language)
	if x.weight+y.weight == 0 {
		return 0
	}
	var both uint64
	for i, j := 0, 0; i < len(x.terms) && j < len(y.terms); {
		switch order := strings.Compare(x.terms[i], y.terms[j]); {
		case order < 0:
			i++
		case order > 0:
			j++
		default:
			both += weight(x.terms[i])
			i, j = i+1, j+1
		}
	}
	return uint32(2 * both * MaxScore / (x.weight + y.weight))
}

// in returns the text's terms in a language.
func (t *Text) in(language string) weighed {
	w, known := t.terms[language]
	if !known {
		w.terms = t.split.Terms(language)
		slices.Sort(w.terms)
		w.terms = slices.Compact(w.terms)
		for _, term := range w.terms {
			w.weight += weight(term)
		}
		t.terms[language] = w
	}
	return w
}

// weight returns the weight of a term in fifths: 10 with a digit, otherwise as many as it has letters, 3 to 8.
func weight(term string) uint64 {
	if strings.ContainsFunc(term, unicode.IsDigit) {
		return 10
	}
	return uint64(min(max(utf8.RuneCountInString(term), 3), 8))
}

// sameWords reports whether texts have the same words by same.
func sameWords(a, b *Text, same func(a, b spoken, english bool) bool) bool {
	english := a.language == "english" && b.language == "english"
	return len(a.spoken) > 0 && slices.EqualFunc(a.spoken, b.spoken, func(x, y spoken) bool { return same(x, y, english) })
}

// minCovered is the number of words of the shortest text that another can cover.
const minCovered = 3

// covers reports whether the words of a text are a run of the words of another, from where a sentence or a clause begins
// to where one ends or something is only added.
func covers(longer, shorter *Text) bool {
	run := shorter.spoken
	if len(run) < minCovered || len(run) >= len(longer.spoken) {
		return false
	}
	english := longer.language == "english" && shorter.language == "english"
	for from := 0; from+len(run) <= len(longer.spoken); from++ {
		if !begins(longer.spoken, from) || !ends(longer.spoken, from+len(run)) {
			continue
		}
		same := true
		for i := range run {
			other := longer.spoken[from+i]
			if !run[i].same(other, english) || i > 0 && run[i].sentence != other.sentence {
				same = false
				break
			}
		}
		if same {
			return true
		}
	}
	return false
}

// begins reports whether a statement can begin at a word: at the beginning of a sentence, or behind ", and" or ", but".
func begins(words []spoken, at int) bool {
	if words[at].sentence {
		return true
	}
	return at > 0 && joins[words[at-1].text] && words[at-1].clause
}

// ends reports whether what is before a word is a whole statement: the sentence or the clause ends there, or a word
// follows that adds a circumstance.
func ends(words []spoken, at int) bool {
	if at == len(words) {
		return true
	}
	w := words[at]
	return w.sentence || w.clause && !alternatives[w.text] || additions[w.text]
}

func isNegation(word string) bool { return negations[word] || strings.HasSuffix(word, "n't") }
