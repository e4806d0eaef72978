package tokens

// This file truncates texts to a number of tokens, keeping head and tail, and counts no more of a text than it keeps.

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"unicode/utf8"
)

// ellipsis replaces a text if there is no room for more.
const ellipsis = "…"

// Middle shortens a text to at most limit tokens by cutting out its middle, and marks the cut. A text that fits is not
// changed. The cost depends on limit, not on the length of the text. If the marker does not fit, the result is a single
// … or empty.
func Middle(text string, limit int, count func(string) int) string {
	out, _ := Known(text, Uncounted, limit, "", count)
	return out
}

// Uncounted is passed to Known if the tokens of a text are not known.
const Uncounted = -1

// Known is Middle for a text whose tokens are known, which saves counting. It also returns the tokens of the result.
// note is added to the marker.
func Known(text string, tokens, limit int, note string, count func(string) int) (string, int) {
	cut := func(text string, keep int) (head, mark, tail string) { return cutMiddle(text, keep, note) }
	return known(text, tokens, limit, cut, count)
}

// Short shortens a text to at most limit tokens: about two thirds from its beginning, " … ", and one third from its
// end. A text that fits is not changed.
func Short(text string, limit int, count func(string) int) string {
	out, _ := known(text, Uncounted, limit, cutShort, count)
	return out
}

// cutter keeps about keep bytes of a text, from its beginning and its end, and returns the mark between them.
type cutter func(text string, keep int) (head, mark, tail string)

func known(text string, tokens, limit int, cut cutter, count func(string) int) (string, int) {
	m := middles{text: text, cut: cut, count: count, heads: []counted{{at: 0}}, tails: []counted{{at: len(text)}}}
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
	low, high := 0, 4*limit+4 // low bytes fit; high does not fit or was not tried yet
	if known {
		high = len(text)*limit/tokens + 64
	}
	for high < len(text) && fits(high) {
		low, high = high, 2*high
		if known {
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
	head, mark, tail := cut(text, low)
	return head + mark + tail, m.tokens(low)
}

// cutMiddle keeps about keep bytes, half of them from the end, and marks how many were removed.
func cutMiddle(text string, keep int, note string) (head, mark, tail string) {
	if keep >= len(text) {
		return text, "", ""
	}
	from, to := between(text, keep-keep/2, len(text)-keep/2)
	return text[:from], "[… " + strconv.Itoa(to-from) + " bytes left out" + note + " …]", text[to:]
}

// cutShort keeps about keep bytes, a third of them from the end.
func cutShort(text string, keep int) (head, mark, tail string) {
	if keep >= len(text) {
		return text, "", ""
	}
	from, to := between(text, keep-keep/3, len(text)-keep/3)
	return text[:from], " … ", text[to:]
}

// between moves the two ends of a cut apart so that no character is divided.
func between(text string, from, to int) (int, int) {
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	return from, to
}

// middles counts one text with cuts of different sizes. It remembers the tokens of the head up to some seams, and of
// the tail after others, so that each further cut counts only the text between a seam and the marker.
type middles struct {
	text         string
	cut          cutter
	count        func(string) int
	heads, tails []counted // outermost first
}

// counted is a position and the tokens before it, or after it in a tail.
type counted struct{ at, tokens int }

// seamsApart is the minimum distance, in bytes, between seams whose counts are remembered.
const seamsApart = 64

// tokens counts the text with all but keep bytes cut from its middle.
func (m *middles) tokens(keep int) int {
	head, mark, tail := m.cut(m.text, keep)
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

// Shares divides limit tokens among texts. A text that needs less than its equal share gets what it needs, and the others
// divide the rest. Of a long text, only as much is counted as limit tokens could need.
func Shares(texts []string, limit int, count func(string) int) []int {
	const bytesPerToken = 8 // more than most languages need
	shares, order := make([]int, len(texts)), make([]int, len(texts))
	for i, text := range texts {
		_, to := between(text, 0, min(len(text), limit*bytesPerToken))
		shares[i], order[i] = count(text[:to]), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(shares[a], shares[b]) })
	for left, i := limit, 0; i < len(order); i++ {
		at := order[i]
		shares[at] = min(shares[at], left/(len(order)-i))
		left -= shares[at]
	}
	return shares
}
