package quote

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// The limits of what counts as typed: a longer message, or a longer text between quotation marks, is pasted. In
// characters.
const (
	maxTyped  = 2000
	maxQuoted = 40
)

func long(message string) bool {
	return len(message) > maxTyped && utf8.RuneCountInString(message) > maxTyped
}

// span is a part of a text, in bytes.
type span struct{ from, to int }

// pasted returns the parts of a message that are no user's own words: fenced code, quoted lines, long quotations, and
// what is between tags. A part that is not closed ends with the message.
func pasted(text string) (out []span) {
	out = append(fences(text), tags(text)...)
	for at := 0; at < len(text); {
		end := at + strings.IndexByte(text[at:], '\n')
		if end < at {
			end = len(text)
		}
		if strings.HasPrefix(strings.TrimLeft(text[at:end], " \t"), ">") {
			out = append(out, span{at, end})
		}
		at = end + 1
	}
	return append(out, quotations(text)...)
}

// fences returns the blocks of fenced code, as in CommonMark.
func fences(text string) (out []span) {
	open, mark := -1, ""
	for at := 0; at < len(text); {
		end := at + strings.IndexByte(text[at:], '\n')
		if end < at {
			end = len(text)
		}
		line := strings.TrimLeft(text[at:end], " \t")
		switch fence := fenceOf(line); {
		case open < 0 && fence != "":
			open, mark = at, fence
		case open >= 0 && len(fence) >= len(mark) && fence[0] == mark[0] && strings.TrimSpace(line) == fence:
			out, open = append(out, span{open, end}), -1
		}
		at = end + 1
	}
	if open >= 0 {
		out = append(out, span{open, len(text)})
	}
	return out
}

// fenceOf returns the marks that begin a line of fenced code; "" if there are none.
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}

var openingTag = regexp.MustCompile(`<([A-Za-z][A-Za-z0-9_:.-]*)(\s[^<>]*)?>`)

// tags returns what is between tags, such as <system-reminder> and </system-reminder>, with the tags.
func tags(text string) (out []span) {
	lower := strings.ToLower(text)
	if len(lower) != len(text) { // some letters have another length in lower case
		lower = text
	}
	for at := 0; ; {
		m := openingTag.FindStringSubmatchIndex(text[at:])
		if m == nil {
			return out
		}
		from, end := at+m[0], at+m[1]
		closing := "</" + lower[at+m[2]:at+m[3]] + ">"
		to := len(text)
		if i := strings.LastIndex(lower[end:], closing); i >= 0 {
			to = end + i + len(closing)
		}
		out, at = append(out, span{from, to}), to
	}
}

// closingMarks are the quotation marks that close those that open a quotation.
var closingMarks = map[rune]string{'"': `"`, '“': "”\"", '„': "“”\"", '«': "»", '»': "«", '「': "」", '『': "』", '`': "`", '‘': "’"}

// quotations returns the long texts between quotation marks.
func quotations(text string) (out []span) {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRuneInString(text[at:])
		marks, ok := closingMarks[r]
		if !ok {
			at += n
			continue
		}
		to := len(text)
		if i := strings.IndexAny(text[at+n:], marks); i >= 0 {
			to = at + n + i
		}
		if utf8.RuneCountInString(text[at+n:to]) < maxQuoted {
			if to == len(text) { // a mark without a partner, such as the sign for inches
				at += n
				continue
			}
		} else {
			out = append(out, span{at, to})
		}
		_, closing := utf8.DecodeRuneInString(text[to:])
		at = to + closing
	}
	slices.SortFunc(out, func(a, b span) int { return a.from - b.from })
	return out
}
