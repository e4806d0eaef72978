package tokens

import (
	"unicode"
	"unicode/utf8"
)

// A seam is a place where both tokenizers always begin a new piece: behind a letter, and before something that
// continues no word. The tokens of a text are those of its parts, where it is cut at seams.

// isSeam reports whether a cut before text[at] is a seam. An apostrophe is none, because it may begin the end of a
// word, as in "it's".
func isSeam(text string, at int) bool {
	if at <= 0 || at >= len(text) {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[at:])
	return utf8.RuneStart(text[at]) && unicode.IsLetter(before) &&
		after != '\'' && !unicode.IsLetter(after) && !unicode.IsMark(after)
}

// firstSeam is the first seam in text[low:high], or -1.
func firstSeam(text string, low, high int) int {
	for at := max(low, 1); at <= min(high, len(text)-1); at++ {
		if isSeam(text, at) {
			return at
		}
	}
	return -1
}

// lastSeam is the last seam in text[low:high], or -1.
func lastSeam(text string, low, high int) int {
	for at := min(high, len(text)-1); at >= max(low, 1); at-- {
		if isSeam(text, at) {
			return at
		}
	}
	return -1
}
