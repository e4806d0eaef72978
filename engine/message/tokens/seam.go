package tokens

import (
	"unicode"
	"unicode/utf8"
)

// A seam is a position at which both tokenizers always begin a new piece: after a letter, and before a character that
// does not continue a word. If a text is cut at seams, its tokens are those of its parts.

// isSeam reports whether the position at is a seam. A position before an apostrophe is not, because it may begin
// a contraction, as in "it's".
func isSeam(text string, at int) bool {
	if at <= 0 || at >= len(text) {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[at:])
	return utf8.RuneStart(text[at]) && unicode.IsLetter(before) &&
		after != '\'' && !unicode.IsLetter(after) && !unicode.IsMark(after)
}

// firstSeam returns the first seam in text[low:high], or -1.
func firstSeam(text string, low, high int) int {
	for at := max(low, 1); at <= min(high, len(text)-1); at++ {
		if isSeam(text, at) {
			return at
		}
	}
	return -1
}

// lastSeam returns the last seam in text[low:high], or -1.
func lastSeam(text string, low, high int) int {
	for at := min(high, len(text)-1); at >= max(low, 1); at-- {
		if isSeam(text, at) {
			return at
		}
	}
	return -1
}
