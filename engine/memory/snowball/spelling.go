package snowball

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// foldForIndex folds a text for the index and for queries. Unlike fold it also removes the dot from a Turkish capital I
// and the points from Hebrew, and takes the letter ʼ for an apostrophe.
func foldForIndex(text string) string {
	folded := fold(text)
	if isASCII(folded) {
		return folded
	}
	return strings.Map(func(r rune) rune {
		if r == '\u0307' || r >= '\u05B0' && r <= '\u05C7' {
			return -1
		}
		if r == 'ʼ' {
			return '\''
		}
		return r
	}, folded)
}

// contractions are what follows an apostrophe in English without being the end of a name. The word before it is none.
var contractions = []string{"t"}

// beside returns the word beside an apostrophe in a word that split has not split, or "" if there is none: the name in "ada's"
// and "auto's", whose language may not be known to be English or Dutch, and what follows an article in "l'an" and "d'or".
func beside(w string) string {
	left, right, found := strings.Cut(w, "'")
	n := utf8.RuneCountInString(left)
	switch {
	case !found || strings.Contains(right, "'"):
		return ""
	case n >= 3 && !slices.Contains(contractions, right):
		return left
	case n <= 2 && utf8.RuneCountInString(right) >= 2:
		return right
	}
	return ""
}

// wordsOf splits a text into words for the index.
func (a *Analyser) wordsOf(text string) []word {
	words := split(foldForIndex(text))
	for i := range words {
		words[i].stops = a.stops[words[i].text]
	}
	return words
}

// indexTerm returns the term of a word in the index. It does not distinguish ı from i, because capitals do not.
func (s *stems) indexTerm(l *language, w string) string {
	term := s.term(l, w)
	if isASCII(term) {
		return term
	}
	return strings.ReplaceAll(term, "ı", "i")
}

// turkishLower converts the capitals I and İ to lower case as Turkish does.
func turkishLower(text string) string { return turkishCapitals.Replace(text) }

var turkishCapitals = strings.NewReplacer("İ", "i", "I", "ı")

// suffixed is a name with a suffix after an apostrophe, as in Turkish.
var suffixed = regexp.MustCompile(`(\p{Lu}[\p{L}\p{M}]+)['’]([\p{L}\p{M}]+)`)

func hasApostrophe(text string) bool { return strings.ContainsAny(text, "'’") }

// withoutSuffixes removes Turkish suffixes from names.
func withoutSuffixes(text string) string {
	if !hasApostrophe(text) {
		return text
	}
	return suffixed.ReplaceAllString(text, "$1")
}

// turkishSuffixes are suffixes of names to look for in texts of other languages.
var turkishSuffixes = strings.Fields(`de da te ta den dan ten tan e a i ı u ü ye ya yi yı yu yü in ın un ün nin nın nun nün
	le la yle yla deki daki teki taki`)

// cutNames returns the terms of names that have a Turkish suffix in a text of another language.
func (x *indexing) cutNames() (terms []string) {
	for _, name := range suffixedNames(x.original) {
		terms = append(terms, x.stems.indexTerm(x.lang, name))
	}
	return terms
}

// suffixedNames returns the names of a text that have a Turkish suffix, folded and without it.
func suffixedNames(text string) (names []string) {
	for at, r := range text {
		if r != '\'' && r != '’' || !longWord(text[:at]) {
			continue
		}
		m := suffixed.FindStringSubmatch(text[strings.LastIndexFunc(text[:at], notLetter)+1:])
		if m != nil && utf8.RuneCountInString(m[1]) >= 3 && slices.Contains(turkishSuffixes, foldForIndex(m[2])) {
			names = append(names, foldForIndex(m[1]))
		}
	}
	return names
}

func notLetter(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }

// longWord reports whether a text ends with a word of three letters or more that begins with a capital.
func longWord(text string) bool {
	begin := strings.LastIndexFunc(text, notLetter) + 1
	if begin > 0 {
		_, size := utf8.DecodeRuneInString(text[begin-1:])
		begin = max(begin, begin-1+size)
	}
	first, _ := utf8.DecodeRuneInString(text[begin:])
	return unicode.IsUpper(first) && utf8.RuneCountInString(text[begin:]) >= 3
}

// Hebrew joins some short words to the next.
const hebrewPrefixes = "והבכלמש"

// hebrewForms returns a Hebrew word without its first letter, and without its first two, if these are prefixes.
func hebrewForms(w string) (forms []string) {
	first, _ := utf8.DecodeRuneInString(w)
	if !unicode.Is(unicode.Hebrew, first) {
		return nil
	}
	for range 2 {
		first, size := utf8.DecodeRuneInString(w)
		if !strings.ContainsRune(hebrewPrefixes, first) ||
			utf8.RuneCountInString(w) <= 3 {
			break
		}
		w = w[size:]
		forms = append(forms, w)
	}
	return forms
}

// digraphs are letters that may also be spelled with two.
var digraphs = []string{"ä", "ae", "ö", "oe", "ü", "ue", "ø", "oe", "å", "aa", "æ", "ae"}

var (
	spellOut = strings.NewReplacer(digraphs...)
	contract = []*strings.Replacer{strings.NewReplacer("ae", "ä", "oe", "ö", "ue", "ü"),
		strings.NewReplacer("ae", "æ", "oe", "ø", "aa", "å")}
)

// spelledOut returns a word with two letters for each umlaut, or "" if it has none.
func spelledOut(w string) string {
	if out := spellOut.Replace(w); out != w {
		return out
	}
	return ""
}

// contracted returns the spellings of a word in which pairs of letters are written as one letter, as in German or in
// Nordic languages.
func contracted(w string) (out []string) {
	for _, by := range contract {
		if other := by.Replace(w); other != w {
			out = append(out, other)
		}
	}
	return out
}

// phoneRun matches digits with the separators of a telephone number. It begins with +, a bracket or 0.
var phoneRun = regexp.MustCompile(`(?:\+\d|\(\+?\d|\b0\d)[\d ()./-]{4,}\d`)

// The number of digits of a telephone number.
const (
	fewestDigits = 7
	mostDigits   = 15
)

// numbersOf returns the telephone numbers of a text as digits.
func numbersOf(text string) (out []string) {
	for _, run := range phoneRun.FindAllString(numerals(text), -1) {
		digits := strings.Map(onlyDigits, run)
		if n := len(digits); n < fewestDigits || n > mostDigits || isDate.MatchString(run) {
			continue
		}
		out = append(out, digits)
	}
	return out
}

// numerals returns the parts of a text that may contain a telephone number, one per line. Searching them is faster than
// searching the text.
func numerals(text string) string {
	var out strings.Builder
	from, digits := -1, 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) {
			switch c := text[i]; {
			case '0' <= c && c <= '9':
				if from < 0 {
					from = i
				}
				digits++
				continue
			case c == '+', c == '(':
				if from < 0 {
					from = i
				}
				continue
			case c == ' ' && from >= 0, c == ')', c == '.', c == '/', c == '-':
				continue
			}
		}
		if digits >= fewestDigits {
			if from > 0 && asciiWord(text[from-1]) {
				out.WriteByte(text[from-1])
			}
			out.WriteString(text[from:i])
			out.WriteByte('\n')
		}
		from, digits = -1, 0
	}
	return out.String()
}

// asciiWord reports whether a byte before a number is part of a word.
func asciiWord(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf
}

// isDate matches text that begins with a date in digits.
var isDate = regexp.MustCompile(`^\(?\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b`)

// subscriber returns a telephone number without the digits that may be omitted at its beginning.
func subscriber(digits string) string { return strings.TrimLeft(digits, "0") }

// address matches a hardware address: six pairs of hexadecimal digits.
var address = regexp.MustCompile(`\b[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}\b`)

// addressesOf returns the hardware addresses of a text without their separators.
func addressesOf(text string) (out []string) {
	if strings.Count(text, ":") < 5 && strings.Count(text, "-") < 5 {
		return nil
	}
	for _, a := range address.FindAllString(text, -1) {
		out = append(out, strings.ToLower(strings.NewReplacer(":", "", "-", "").Replace(a)))
	}
	return out
}
