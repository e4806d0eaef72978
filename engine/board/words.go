package board

import (
	"strings"
	"unicode"
)

// maxWord is how many bytes of a word are significant.
const maxWord = 64

// firstUnspaced is the first character of the scripts below. It saves most texts a lookup in their tables.
const firstUnspaced = 0x0e00

// unspaced are the scripts that are written without spaces between words.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
	unicode.Khmer, unicode.Myanmar}

// Words returns the distinct words of a text, at most limit, in the order in which they first occur. A word is a run of
// letters, marks and digits in lower case; only the first 64 bytes are significant. In scripts without spaces, each
// character is a word.
func Words(text string, limit int) []string {
	var out []string
	seen := map[string]bool{}
	add := func(word string) {
		if len(word) > maxWord {
			word = strings.ToValidUTF8(word[:maxWord], "")
		}
		if word != "" && !seen[word] {
			seen[word] = true
			out = append(out, word)
		}
	}
	var word strings.Builder
	end := func() { add(word.String()); word.Reset() }
	for _, r := range text {
		if len(out) >= limit {
			return out
		}
		switch {
		case r >= firstUnspaced && unicode.In(r, unspaced...):
			end()
			add(string(r))
		case unicode.IsLetter(r), unicode.IsMark(r), unicode.IsDigit(r), unicode.IsNumber(r):
			word.WriteRune(unicode.ToLower(r))
		default:
			end()
		}
	}
	if len(out) < limit {
		end()
	}
	return out
}
