package chat

import (
	"strconv"
	"unicode/utf8"
)

// Truncate cuts a text to at most limit tokens, head and tail, and marks the cut; a text that fits stays as it is.
// What it costs grows with limit, not with the text. Where limit has no room for the marker, a lone … is left, or
// nothing.
func Truncate(text string, limit int, count func(string) int) string {
	fits := func(keep int) (string, bool) {
		s := cutMiddle(text, keep)
		return s, count(s) <= limit
	}
	best, ok := fits(0)
	if !ok {
		if count(text) <= limit {
			return text
		}
		if count(Placeholder) <= limit {
			return Placeholder
		}
		return ""
	}
	low, high := 0, 4*limit+4 // best keeps low bytes; high does not fit, or is not tried yet
	for high < len(text) {
		s, ok := fits(high)
		if !ok {
			break
		}
		best, low, high = s, high, 2*high
	}
	if high >= len(text) {
		if count(text) <= limit {
			return text
		}
		high = len(text)
	}
	for high-low > 1 {
		middle := low + (high-low)/2
		if s, ok := fits(middle); ok {
			best, low = s, middle
		} else {
			high = middle
		}
	}
	return best
}

// cutMiddle keeps about the given number of bytes, half of them from the end, and marks how many are gone.
func cutMiddle(text string, keep int) string {
	if keep >= len(text) {
		return text
	}
	head, tail := keep-keep/2, len(text)-keep/2
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + "[… " + strconv.Itoa(tail-head) + " bytes left out …]" + text[tail:]
}
