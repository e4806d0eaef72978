// Package quote finds where words stand in a message of a user's, and whether they are the user's own: said in whole
// sentences, outside of what the user has pasted.
//
// Two texts are compared word for word. Words are separated by white space, in NFC, with their case folded. Punctuation
// around the whole is left out, except for a question mark: a question is not the statement with the same words.
package quote

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// minWords is how many words a text must have to be recognised.
const minWords = 3

// Found says where a text stands in a message, in bytes. Own says that it is one or more whole sentences of the user's
// own words; Pasted that it contains pasted words. A part of a sentence is neither.
type Found struct {
	At, Length  int
	Own, Pasted bool
}

// Find looks for a text in the text of a user's message. It prefers a place where the text is Own. It returns false if
// the words are nowhere together in the message, or if they are fewer than three.
func Find(text, message string) (Found, bool) {
	asked := trimmed(words(text, nil))
	if counted(asked) < minWords {
		return Found{}, false
	}
	if long(message) { // it is pasted as a whole, so only where it stands is asked for
		at := strings.Index(message, strings.TrimSpace(text))
		return Found{At: at, Length: len(strings.TrimSpace(text)), Pasted: true}, at >= 0
	}
	said := words(message, pasted(message))
	begins := sentences(message, said)
	var out Found
	found := false
	for at := range said {
		n, ok := match(asked, said[at:])
		if !ok {
			continue
		}
		one := place(said[at : at+n])
		behind := skip(said, at+n)
		one.Own = !one.Pasted && begins[at] && (behind == len(said) || begins[behind])
		switch {
		case one.Own:
			return one, true
		case !found || one.Pasted && !out.Pasted:
			out, found = one, true
		}
	}
	return out, found
}

// Said reports whether the user says a text in a message word for word, in whole sentences of their own, and where.
func Said(text, message string) (at, length int, ok bool) {
	f, found := Find(text, message)
	return f.At, f.Length, found && f.Own
}

// AllPasted reports whether a message has no word of the user's own.
func AllPasted(message string) bool {
	if long(message) {
		return true
	}
	return !slices.ContainsFunc(words(message, pasted(message)), func(w word) bool { return !w.pasted && w.bare != "" })
}

// PastedAt reports whether some bytes of a message are in a pasted part.
func PastedAt(message string, at, length int) bool {
	if long(message) {
		return true
	}
	return slices.ContainsFunc(pasted(message), func(s span) bool { return s.from < at+length && at < s.to })
}

// word is a word of a text.
type word struct {
	from, to int    // its bytes
	said     string // folded
	bare     string // without punctuation at its ends; may be empty
	pasted   bool
}

// words returns the words of a text, and marks those that are in pasted parts.
func words(text string, parts []span) (out []word) {
	fold := cases.Fold()
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRuneInString(text[at:])
		if unicode.IsSpace(r) {
			at += n
			continue
		}
		end := at + strings.IndexFunc(text[at:], unicode.IsSpace)
		if end < at {
			end = len(text)
		}
		w := word{from: at, to: end, said: norm.NFC.String(fold.String(norm.NFC.String(text[at:end])))}
		w.bare = trimRight(trimLeft(w.said))
		w.pasted = slices.ContainsFunc(parts, func(s span) bool { return s.from < end && at < s.to })
		out = append(out, w)
		at = end
	}
	return out
}

// trimmed returns words without those at both ends that are only punctuation.
func trimmed(list []word) []word {
	for len(list) > 0 && list[0].bare == "" {
		list = list[1:]
	}
	for len(list) > 0 && list[len(list)-1].bare == "" && !asks(list[len(list)-1].said) {
		list = list[:len(list)-1]
	}
	return list
}

// counted returns the number of words. Each letter counts as one in scripts that do not separate words.
func counted(list []word) (n int) {
	for _, w := range list {
		letters, joined := false, 0
		for _, r := range w.bare {
			switch {
			case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
				joined++
			case unicode.IsLetter(r) || unicode.IsNumber(r):
				letters = true
			}
		}
		n += joined
		if letters {
			n++
		}
	}
	return n
}

// match reports whether a list of words begins with the asked ones, and how many words that are.
func match(asked, list []word) (n int, ok bool) {
	last := len(asked) - 1
	if len(list) <= last || list[0].bare == "" {
		return 0, false
	}
	for i, w := range asked {
		here := list[i]
		a, b := w.said, here.said
		if i == 0 {
			a, b = trimLeft(a), trimLeft(b)
		}
		if i == last {
			if asks(a) != asks(b) {
				return 0, false
			}
			a, b = trimRight(a), trimRight(b)
		}
		if a != b {
			return 0, false
		}
	}
	return last + 1, true
}

// skip returns the index of the first word from at that is not only punctuation.
func skip(list []word, at int) int {
	for at < len(list) && list[at].bare == "" && !asks(list[at].said) {
		at++
	}
	return at
}

// place returns where some words stand, without the punctuation around them.
func place(list []word) Found {
	last := list[len(list)-1]
	return Found{At: list[0].from, Length: last.to - list[0].from,
		Pasted: slices.ContainsFunc(list, func(w word) bool { return w.pasted })}
}

// outer is punctuation that may be around a sentence.
const outer = ".,;:!…。！，、；：'\"“”‘’«»„‚‹›「」『』()[]{}（）-–—*_#~>`¡¿•·|"

func trimLeft(s string) string {
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		next, _ := utf8.DecodeRuneInString(s[n:])
		if !strings.ContainsRune(outer, r) || unicode.IsDigit(next) && strings.ContainsRune(".,-–—", r) { // -5 is not 5
			break
		}
		s = s[n:]
	}
	return s
}

func trimRight(s string) string {
	return strings.TrimRightFunc(s, func(r rune) bool { return isAsk(r) || strings.ContainsRune(outer, r) })
}

// asks reports whether the punctuation at a word's end contains a question mark.
func asks(s string) bool { return strings.ContainsFunc(s[len(trimRight(s)):], isAsk) }

func isAsk(r rune) bool { return r == '?' || r == '？' || r == '؟' }
