package tiktoken

import "unicode"

// maxRun is the longest run of characters of one class, in bytes, that is encoded at once. On real documents no run is
// longer, and cutting leaves their counts as they are.
const maxRun = 1024

// class sorts characters the way the tokenizers' patterns do.
type class uint8

const (
	letter class = iota // with marks
	digit
	space
	other
)

func classOf(r rune) class {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		return letter
	case r == ' ', r == '\n':
		return space
	case unicode.IsLetter(r), unicode.IsMark(r):
		return letter
	case unicode.IsNumber(r):
		return digit
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// cut is where the first piece of a text ends: inside the first run that is too long, else at the text's end.
func cut(text string) int {
	start, current := 0, other
	for i, r := range text {
		if c := classOf(r); c != current {
			start, current = i, c
		} else if i-start >= maxRun {
			return i
		}
	}
	return len(text)
}
