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

// Forms are further terms of a text, by which what is written one way is found when it is asked for another way. They
// are not among the terms of Document, which decisions are replayed by.

// Bounds of what is taken for an identifier, and for a compound.
const (
	maxParts       = 6
	maxJoined      = 40 // bytes
	compoundLength = 9  // letters of a word that may be a compound
	memberLength   = 4  // letters of a word that may be a part of one
)

// compounding are the languages that write compounds in one word.
var compounding = []string{"german", "dutch", "swedish", "danish", "norwegian"}

// Index gives the terms of a text as the index has them: those of Document, and the text's forms.
func (a *Analyser) Index(text string) (terms []string, latin string) {
	r := a.read(text)
	terms, lang := r.terms, r.lang
	for _, w := range append(identifierWords(text), spacedIdentifiers(spacedIdentifier, text)...) {
		if !a.stops[w].has(lang) {
			terms = append(terms, a.stems.term(lang, w))
		}
	}
	if slices.Contains(compounding, r.latin) {
		for _, w := range r.words {
			if w.script == unicode.Latin && len(w.text) >= compoundLength {
				terms = append(terms, rank.BackwardsMark+reverse(a.stems.term(lang, w.text)))
			}
		}
	}
	return append(append(terms, lastOfRuns(text)...), rank.DateTerms(text)...), r.latin
}

// identifiers gives the longest runs of letters and digits, with single separators between them.
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

// thousands is a number whose digits stand in groups of three.
var thousands = regexp.MustCompile(`^(\d{1,3}(?:[.,']\d{3})+)(?:[.,]\d{1,2})?$`)

// identifierWords gives what identifiers are otherwise: getUserDetails and get_user_details are three words and one,
// ABC-1234 is abc1234, 1,299.00 is 1299.
func identifierWords(text string) (out []string) {
	for id := range identifiers(norm.NFKC.String(text)) {
		if isASCII(id) && strings.ToLower(id) == id && !strings.ContainsAny(id, "-_.,/'0123456789") {
			continue // the usual word
		}
		if '0' <= id[0] && id[0] <= '9' {
			if digits := thousands.FindStringSubmatch(id); digits != nil {
				out = append(out, strings.Map(onlyDigits, digits[1]))
				continue
			}
		}
		separated := strings.ContainsAny(id, "-_") || strings.ContainsAny(id, ".,/") && strings.ContainsAny(id, "0123456789")
		var joined strings.Builder
		parts := 0
		for _, piece := range strings.FieldsFunc(id, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
			joined.WriteString(piece)
			humps := humpsOf(piece)
			if parts += len(humps); len(humps) > 1 {
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

// Letters with digits behind a space may be one identifier: in a text where the letters are capitals, in a query
// wherever they are few.
var (
	spacedIdentifier = regexp.MustCompile(`\b(\p{Lu}{2,5}) (\d{2,})\b`)
	spacedAsked      = regexp.MustCompile(`\b(\p{L}{2,5}) (\d{2,})\b`)
)

func spacedIdentifiers(by *regexp.Regexp, text string) (out []string) {
	// Searching a text takes a while, so only words with a number behind them are searched, with what stands beside them.
	before, at := 0, 0 // where the space before the word is, or the text begins, and where the one behind it is
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

// humpsOf cuts a word at its humps: XMLHttpRequest into three.
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

// lastOfRuns gives the last character of each run of a script without spaces. Any other character of a run begins a
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
