package tokens

// This part of the package cuts texts to a number of tokens, head and tail, and counts no more of a text than it keeps.

import (
	"sort"
	"strconv"
	"unicode/utf8"
)

// ellipsis stands for a text where there is no room for more.
const ellipsis = "…"

// Middle cuts a text to at most limit tokens, head and tail, and marks the cut; a text that fits stays as it is.
// What it costs grows with limit, not with the text. Where limit has no room for the marker, a lone … is left, or
// nothing.
func Middle(text string, limit int, count func(string) int) string {
	out, _ := Known(text, Uncounted, limit, "", count)
	return out
}

// Uncounted is given to Known where the tokens of a text are not known.
const Uncounted = -1

// Known is Middle of a text that is known to have so many tokens, which saves counting. It gives the tokens of the
// result too. Note is added to the words of the marker.
func Known(text string, tokens, limit int, note string, count func(string) int) (string, int) {
	m := middles{text: text, note: note, count: count, heads: []counted{{at: 0}}, tails: []counted{{at: len(text)}}}
	known := tokens != Uncounted
	fits := func(keep int) bool { return m.tokens(keep) <= limit }
	whole := func() bool {
		if tokens == Uncounted {
			tokens = count(text)
		}
		return tokens <= limit
	}
	if known && whole() {
		return text, tokens
	}
	if !fits(0) {
		if whole() {
			return text, tokens
		}
		if n := count(ellipsis); n <= limit {
			return ellipsis, n
		}
		return "", 0
	}
	low, high := 0, 4*limit+4 // low bytes fit; high does not, or is not tried yet
	if known {
		high = len(text)*limit/tokens + 64
	}
	for high < len(text) && fits(high) {
		if low, high = high, 2*high; known {
			high = low + low/8 + 64
		}
	}
	if high >= len(text) {
		if whole() {
			return text, tokens
		}
		high = len(text)
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	head, mark, tail := cutMiddle(text, low, note)
	return head + mark + tail, m.tokens(low)
}

// cutMiddle keeps about the given number of bytes, half of them from the end, and marks how many are gone.
func cutMiddle(text string, keep int, note string) (head, mark, tail string) {
	if keep >= len(text) {
		return text, "", ""
	}
	from, to := keep-keep/2, len(text)-keep/2
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	return text[:from], "[… " + strconv.Itoa(to-from) + " bytes left out" + note + " …]", text[to:]
}

// middles counts one text with cuts of different sizes. It remembers the tokens of the head up to some seams and of the
// tail behind others, so that each further cut costs what lies between a seam and the mark.
type middles struct {
	text, note   string
	count        func(string) int
	heads, tails []counted // outermost first
}

// counted is a place and the tokens before it, or behind it in a tail.
type counted struct{ at, tokens int }

// seamsApart is how far apart, in bytes, the seams are at least whose counts are remembered.
const seamsApart = 64

// tokens counts the text with all but keep bytes cut from its middle.
func (m *middles) tokens(keep int) int {
	head, mark, tail := cutMiddle(m.text, keep, m.note)
	from, to := len(head), len(m.text)-len(tail)
	for {
		last := m.heads[len(m.heads)-1]
		at := firstSeam(m.text, last.at+seamsApart, from-1)
		if at < 0 {
			break
		}
		m.heads = append(m.heads, counted{at, last.tokens + m.count(m.text[last.at:at])})
	}
	for {
		last := m.tails[len(m.tails)-1]
		at := lastSeam(m.text, to+1, last.at-seamsApart)
		if at < 0 {
			break
		}
		m.tails = append(m.tails, counted{at, last.tokens + m.count(m.text[at:last.at])})
	}
	first := m.heads[sort.Search(len(m.heads), func(i int) bool { return m.heads[i].at >= from && i > 0 })-1]
	second := m.tails[sort.Search(len(m.tails), func(i int) bool { return m.tails[i].at <= to && i > 0 })-1]
	return first.tokens + m.count(m.text[first.at:from]+mark+m.text[to:second.at]) + second.tokens
}
