package quote

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// abbreviations are words whose full stop ends no sentence, folded. Single letters are others.
var abbreviations = map[string]bool{"mr": true, "mrs": true, "ms": true, "dr": true, "prof": true, "st": true, "vs": true,
	"etc": true, "eg": true, "ie": true, "ca": true, "approx": true, "dept": true, "inc": true, "ltd": true, "jr": true,
	"sr": true, "nr": true, "bzw": true, "usw": true, "ggf": true, "evtl": true, "inkl": true, "str": true, "hr": true,
	"fr": true, "mme": true, "mlle": true, "sra": true, "srta": true, "ud": true, "uds": true, "al": true, "fig": true}

// sentences says of each word whether a sentence begins with it. It errs by finding too few: what is cut from the
// middle of a thought may say the opposite of it. A line break alone begins nothing, because lines are wrapped. What
// stands under a line that ends with a colon belongs to that line, with all items of a list.
func sentences(text string, list []word) []bool {
	out := make([]bool, len(list))
	led := false // the words belong to a line that ended with a colon
	for i := range list {
		if i == 0 {
			out[0] = true
			continue
		}
		lines := strings.Count(text[list[i-1].to:list[i].from], "\n")
		if list[i-1].pasted != list[i].pasted && lines > 0 { // the end of a quotation or a block of code
			led, out[i] = false, true
			continue
		}
		lead, item := strings.HasSuffix(list[i-1].said, ":"), isMarker(list[i].said)
		switch {
		case lead:
			led = led || lines > 0
		case led && lines > 1 && !item:
			led, out[i] = false, true
		case led:
		case lines > 1, lines == 1 && item:
			out[i] = true
		default:
			out[i] = ends(list[i-1].said, text[list[i].from:])
		}
		// The text of a list's item begins behind its marker.
		if marked := isMarker(list[i-1].said) && out[i-1]; marked {
			out[i] = true
		}
	}
	return out
}

// isMarker reports whether a word begins an item of a list, as in "- this" or "2. that".
func isMarker(w string) bool {
	switch w {
	case "-", "*", "+", "•", "–", "—", "·":
		return true
	}
	digits := strings.TrimRight(w, ".)")
	return digits != w && digits != "" && len(digits) <= 3 && strings.Trim(digits, "0123456789") == ""
}

// ends reports whether a word ends a sentence, given the text behind it.
func ends(w, behind string) bool {
	w = strings.TrimRight(w, `"'”’»)]}*_`+"`")
	last, n := utf8.DecodeLastRuneInString(w)
	switch last {
	case '!', '?', '。', '！', '？', '؟':
		return true
	case '.', '…':
		bare := strings.TrimLeft(w[:len(w)-n], outer)
		next, _ := utf8.DecodeRuneInString(behind)
		if unicode.IsLower(next) || strings.HasSuffix(bare, ".") { // an ellipsis, or more of the same thought
			return false
		}
		letters := strings.ReplaceAll(bare, ".", "")
		short := utf8.RuneCountInString(letters) == 1 && unicode.IsLetter([]rune(letters)[0]) ||
			strings.Contains(bare, ".") && strings.Trim(letters, "0123456789") != ""
		return !short && !abbreviations[letters]
	}
	return false
}
