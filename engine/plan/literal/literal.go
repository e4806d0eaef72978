// Package literal finds the literals of a message: the ids, codes, addresses, paths and numbers that a later step of an
// agent may have to copy exactly, each with the word that says what it is.
//
// A run is a longest sequence of the bytes A-Z, a-z, 0-9, _ # @ . / - and of bytes from 0x80 on. It is taken without
// the bytes . - / at its end and without . - at its beginning. A run is a literal if it has at most MaxBytes bytes, does
// not begin right behind a <, and
//
//   - has an @ and more than five bytes, or
//   - has a digit, an ASCII letter and at least four bytes, or
//   - has at least three digits, or
//   - is six ASCII capitals, or
//   - has a / and more than five bytes.
//
// Its label is the last run before it that is no literal, has at least four letters, and has at most MaxLabel bytes. In
// JSON, this is usually the key. Every character beyond ASCII counts as a letter of a label.
package literal

import (
	"iter"
	"slices"
	"strings"
)

// Limits. A List holds the last different literals of a message: at most Most of them, with at most MaxList bytes
// together with their labels. A label that is also that of the next literal counts once.
const (
	Most     = 16
	MaxList  = 384
	MaxBytes = 64
	MaxLabel = 24
)

// Literal is a literal and its label, which may be empty.
type Literal struct{ Text, Label string }

// List holds the last different literals of a message, packed. The zero value means that they are not known.
//
// A packed list is the number of literals in one byte, and then the literals, last first: the length of the label, or
// sameLabel, and the label; the length of the literal, and the literal.
type List string

// sameLabel in place of a label's length means that the label is the previous one.
const sameLabel = 0xff

// MaxPacked is the maximum length of a List.
const MaxPacked = 1 + 2*Most + MaxList

// Of returns the literals of a message: of its text and of the arguments of its calls, in this order.
func Of(text string, arguments ...string) List {
	var s scanner
	s.scan(text, false)
	for _, a := range arguments {
		s.scan(a, true)
	}
	return s.pack()
}

// Known reports whether the literals of the message are known. A message without literals has a known List, too.
func (l List) Known() bool { return l != "" }

// Len returns the number of literals.
func (l List) Len() int {
	if l == "" {
		return 0
	}
	return int(l[0])
}

// LastFirst yields the literals, the last of the message first.
func (l List) LastFirst() iter.Seq[Literal] {
	return func(yield func(Literal) bool) {
		if l == "" {
			return
		}
		var is Literal
		for rest := string(l[1:]); rest != ""; {
			if n := rest[0]; n == sameLabel {
				rest = rest[1:]
			} else {
				is.Label, rest = rest[1:1+n], rest[1+n:]
			}
			n := rest[0]
			is.Text, rest = rest[1:1+n], rest[1+n:]
			if !yield(is) {
				return
			}
		}
	}
}

// Parse reads a List that Of made, and returns the remaining bytes. It returns false if b does not begin with one.
func Parse(b []byte) (l List, rest []byte, ok bool) {
	if len(b) == 0 || b[0] > Most {
		return "", b, false
	}
	at := 1
	span := func(most byte) bool {
		if at >= len(b) || b[at] > most || at+1+int(b[at]) > len(b) {
			return false
		}
		at += 1 + int(b[at])
		return true
	}
	for i := range b[0] {
		if i > 0 && at < len(b) && b[at] == sameLabel {
			at++
		} else if !span(MaxLabel) {
			return "", b, false
		}
		if !span(MaxBytes) {
			return "", b, false
		}
	}
	return List(b[:at]), b[at:], true
}

// The class of a byte, as bits.
const (
	ofRun  = 1 << iota // may be part of a run
	digit              // 0-9
	lower              // a-z
	upper              // A-Z
	beyond             // begins a character beyond ASCII
	at                 // @
	slash              // /
)

var classes = func() (c [256]uint8) {
	for b := range c {
		switch {
		case '0' <= b && b <= '9':
			c[b] = ofRun | digit
		case 'a' <= b && b <= 'z':
			c[b] = ofRun | lower
		case 'A' <= b && b <= 'Z':
			c[b] = ofRun | upper
		case b == '@':
			c[b] = ofRun | at
		case b == '/':
			c[b] = ofRun | slash
		case strings.IndexByte("_#.-", byte(b)) >= 0:
			c[b] = ofRun
		case b >= 0xc0:
			c[b] = ofRun | beyond
		case b >= 0x80:
			c[b] = ofRun
		}
	}
	return c
}()

// scanner holds the last different literals found so far, oldest first, and the word that would be the next one's label.
type scanner struct {
	found [Most]Literal
	n     int
	label string
}

// scan finds the literals of a text. In JSON, an escape is not part of a run: \nA12 has the literal A12.
func (s *scanner) scan(text string, isJSON bool) {
	for i := 0; i < len(text); {
		if classes[text[i]] == 0 {
			if isJSON && text[i] == '\\' {
				i = min(i+escape(text[i:]), len(text))
			} else {
				i++
			}
			continue
		}
		start := i
		seen, digits, letters := uint8(0), 0, 0
		for ; i < len(text) && classes[text[i]] != 0; i++ {
			c := classes[text[i]]
			seen |= c
			digits += int(c >> 1 & 1)
			letters += int((c>>2 | c>>3 | c>>4) & 1)
		}
		if seen&(digit|upper|at|slash) == 0 && letters < minLetters {
			continue
		}
		run := strings.TrimRight(strings.TrimLeft(text[start:i], ".-"), ".-/")
		tag := start > 0 && text[start-1] == '<'
		if !tag && isLiteral(run, seen, digits) {
			s.add(run)
		} else if letters >= minLetters && len(run) <= MaxLabel {
			s.label = run
		}
	}
}

// minLetters is the minimum number of letters of a label.
const minLetters = 4

// escape returns the length of the JSON escape at the beginning of a text.
func escape(text string) int {
	switch {
	case len(text) > 1 && text[1] == 'u':
		return len(`\u0000`)
	case len(text) > 1 && text[1] == '/': // which begins a run
		return len(`\`)
	}
	return len(`\n`)
}

// isLiteral reports whether a run is a literal. seen are the classes of its bytes, and digits is the number of its
// digits, both counted before it was trimmed.
func isLiteral(run string, seen uint8, digits int) bool {
	n := len(run)
	switch {
	case n > MaxBytes:
		return false
	case digits >= 3:
		return true
	case digits > 0 && seen&(lower|upper) != 0 && n >= 4:
		return true
	case seen&at != 0 && n > 5:
		return true
	case n == 6 && seen&upper != 0 && isUpper(run):
		return true
	case seen&slash != 0 && n > 5:
		return strings.IndexByte(run, '/') >= 0
	}
	return false
}

// isUpper reports whether a run consists of capitals.
func isUpper(run string) bool {
	for i := range len(run) {
		if classes[run[i]]&upper == 0 {
			return false
		}
	}
	return true
}

// add adds a literal with the current label. One that was found before is now the last.
func (s *scanner) add(text string) {
	at := slices.IndexFunc(s.found[:s.n], func(l Literal) bool { return l.Text == text })
	switch {
	case at >= 0:
		copy(s.found[at:s.n-1], s.found[at+1:s.n])
	case s.n == Most:
		copy(s.found[:], s.found[1:])
	default:
		s.n++
	}
	s.found[s.n-1] = Literal{text, s.label}
}

// pack returns the List of the literals that were found.
func (s *scanner) pack() List {
	size, first := 0, s.n
	for first > 0 {
		l := &s.found[first-1]
		size += len(l.Text)
		if first == s.n || l.Label != s.found[first].Label {
			size += len(l.Label)
		}
		if size > MaxList {
			break
		}
		first--
	}
	packed := make([]byte, 1, 1+2*(s.n-first)+min(size, MaxList))
	packed[0] = byte(s.n - first)
	for i := s.n - 1; i >= first; i-- {
		l := &s.found[i]
		if i < s.n-1 && l.Label == s.found[i+1].Label {
			packed = append(packed, sameLabel)
		} else {
			packed = append(append(packed, byte(len(l.Label))), l.Label...)
		}
		packed = append(append(packed, byte(len(l.Text))), l.Text...)
	}
	return List(packed)
}
