package likeness

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// spoken is a word of a text, or a sign that stands alone. Unlike the terms of recall it keeps what makes texts differ:
// tenses, signs as in C++, -5 and 10 %, and the case of identifiers.
type spoken struct {
	text     string
	sentence bool // A sentence begins with it.
	clause   bool // A clause begins with it: it stands behind a comma, semicolon, colon, dash or bracket.
}

// same reports whether words are the same. English texts may use a word with and without its s: "dogs", "wants".
func (w spoken) same(other spoken, english bool) bool {
	if w.text == other.text {
		return true
	}
	return english && (plural(w.text, other.text) || plural(other.text, w.text))
}

// plural reports whether a word is another one of at least 3 letters with an s.
func plural(one, other string) bool {
	const letters = 3
	if len(one) < letters || !strings.HasPrefix(other, one) || strings.HasSuffix(one, "s") {
		return false
	}
	for _, r := range one {
		if !unicode.IsLetter(r) {
			return false
		}
	}
	return other[len(one):] == "s" && !wholeWithS[other]
}

// sameButDigits is like same, but for the numbers that the words contain.
func (w spoken) sameButDigits(other spoken, english bool) bool {
	if !strings.ContainsFunc(w.text, unicode.IsDigit) || !strings.ContainsFunc(other.text, unicode.IsDigit) {
		return w.same(other, english)
	}
	return withoutDigits(w.text) == withoutDigits(other.text)
}

// withoutDigits replaces each number of a word, with its points and commas, by a 0.
func withoutDigits(s string) string {
	var out strings.Builder
	number := false
	for i, r := range s {
		digit := unicode.IsDigit(r)
		switch {
		case digit && !number:
			out.WriteByte('0')
			number = true
		case digit:
		case number && (r == '.' || r == ',') && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
		default:
			out.WriteRune(r)
			number = false
		}
	}
	return out.String()
}

// speak splits a text into its words, without the articles of its language.
func speak(text, language string) []spoken {
	articles := articles[language]
	var out []spoken
	sentence, clause := true, false
	for _, part := range strings.Fields(spaced(text)) {
		word, before, after := trim(part)
		clause = clause || before
		for _, w := range expand(foldWord(word), articles) {
			if articles[w] {
				continue
			}
			out = append(out, spoken{w, sentence, clause && !sentence})
			sentence, clause = false, false
		}
		switch after {
		case '.', '!', '…', '。', '！':
			sentence = true
		case '?', '？':
			out = append(out, spoken{text: "?"})
			sentence = true
		case 0:
		default:
			clause = true
		}
	}
	return out
}

// spaced puts spaces around marks of scripts that write none, and between lines a sentence ends.
func spaced(text string) string {
	if isASCII(text) {
		return strings.ReplaceAll(text, "\n", " ... ")
	}
	return spacing.Replace(norm.NFKC.String(text))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

var spacing = strings.NewReplacer("。", "。 ", "、", "、 ", "！", "！ ", "？", "？ ", "，", "， ", "；", "； ", "：", "： ",
	"’", "'", "‘", "'", "—", " — ", "\n", " ... ")

// trim removes the punctuation around a word. before says that the word stands behind a bracket, after is the last
// mark that ended a sentence or clause behind the word, or 0. A word that is only punctuation is empty.
func trim(part string) (word string, before bool, after rune) {
	word = part
	for word != "" {
		r, size := utf8.DecodeRuneInString(word)
		next, _ := utf8.DecodeRuneInString(word[size:])
		keeps := (r == '-' || r == '–' || r == '.') && len(word) > size && unicode.IsDigit(next) ||
			r == '.' && unicode.IsLetter(next)
		if keeps || !strings.ContainsRune(leading, r) {
			break
		}
		before = before || strings.ContainsRune("(–—-", r)
		if len(word) == size && strings.ContainsRune(".!?…。！？", r) {
			after = r
		}
		word = word[size:]
	}
	if word == "" && after == 0 && before {
		after = ','
	}
	for word != "" {
		r, size := utf8.DecodeLastRuneInString(word)
		previous, _ := utf8.DecodeLastRuneInString(word[:len(word)-size])
		keeps := (r == '\'' || r == '"') && unicode.IsDigit(previous) && !strings.ContainsAny(part[:1], `'"`)
		if keeps || !strings.ContainsRune(trailing, r) {
			break
		}
		if after == 0 || strings.ContainsRune(".!?…。！？", r) && after != '?' && after != '？' {
			if !strings.ContainsRune(quotes, r) {
				after = r
			}
		}
		word = word[:len(word)-size]
	}
	return word, before, after
}

const (
	quotes   = "'\"“”„«»`*"
	leading  = quotes + "([{.,;:!?…。、！？，；：–—-¿¡•"
	trailing = quotes + ")]}.,;:!?…。、！？，；："
)

var folder = cases.Fold()

// foldWord folds a word's case, unless it is an identifier: a word with a digit, an inner capital, or a sign such as / or
// _ in it.
func foldWord(w string) string {
	if w == "" || isIdentifier(w) {
		return w
	}
	if isASCII(w) {
		return strings.ToLower(w)
	}
	return folder.String(w)
}

func isIdentifier(w string) bool {
	lower := false
	for i, r := range w {
		switch {
		case unicode.IsDigit(r), i > 0 && strings.ContainsRune(`/\_@=`, r):
			return strings.ContainsFunc(w, unicode.IsLetter)
		case unicode.IsUpper(r) && lower:
			return true
		}
		lower = unicode.IsLower(r)
	}
	return false
}

// expand writes out the contractions of a folded English word: n't is not. The empty word has no parts.
func expand(w string, articles map[string]bool) []string {
	switch w {
	case "":
		return nil
	case "can't", "cannot":
		return []string{"can", "not"}
	case "won't":
		return []string{"will", "not"}
	case "shan't":
		return []string{"shall", "not"}
	}
	stem, ending, found := strings.Cut(w, "'")
	if !found || stem == "" {
		return []string{w}
	}
	switch {
	case ending == "t" && strings.HasSuffix(stem, "n"):
		return []string{strings.TrimSuffix(stem, "n"), "not"}
	case ending == "m" && stem == "i":
		return []string{stem, "am"}
	case ending == "re":
		return []string{stem, "are"}
	case ending == "ll":
		return []string{stem, "will"}
	case ending == "ve":
		return []string{stem, "have"}
	case articles[stem+"'"]: // l'homme
		return expand(ending, articles)
	case elisions[stem]: // j'habite, n'aime
		return append([]string{stem + "'"}, expand(ending, articles)...)
	}
	return []string{w}
}
