package tiktoken

import (
	"unicode"
	"unicode/utf8"
)

// class is the property by which the patterns distinguish characters. Classes are bits, so a set of them is one number.
type class uint8

const (
	upper   class = 1 << iota // an upper or title case letter: \p{Lu}, \p{Lt}
	lower                     // \p{Ll}
	letter                    // a letter without case, which o200k_base counts as both: \p{Lm}, \p{Lo}
	mark                      // \p{M}
	number                    // \p{N}
	newline                   // \r, \n
	blank                     // the rest of \s
	other                     // everything else

	letters = upper | lower | letter
	spaces  = newline | blank
)

// blockBits is the number of low bits of a character that are its index in a block of classes.
const blockBits = 7

var (
	// blocks holds the classes of all characters. Equal blocks are stored once.
	blocks [][1 << blockBits]class
	// blockOf is the block of a character, by its high bits.
	blockOf [(unicode.MaxRune + 1) >> blockBits]uint16
	// ascii holds the classes of the ASCII characters, which most texts consist of.
	ascii [utf8.RuneSelf]class
)

// The tables are made from those of package unicode, which tiktoken-go's regular expressions also use.
func init() {
	all := make([]class, unicode.MaxRune+1)
	for i := range all {
		all[i] = other
	}
	for _, set := range []struct {
		class  class
		tables []*unicode.RangeTable
	}{
		{upper, []*unicode.RangeTable{unicode.Lu, unicode.Lt}},
		{lower, []*unicode.RangeTable{unicode.Ll}},
		{letter, []*unicode.RangeTable{unicode.Lm, unicode.Lo}},
		{mark, []*unicode.RangeTable{unicode.M}},
		{number, []*unicode.RangeTable{unicode.N}},
		{blank, []*unicode.RangeTable{unicode.White_Space}},
	} {
		for _, table := range set.tables {
			for _, r := range table.R16 {
				fill(all, rune(r.Lo), rune(r.Hi), rune(r.Stride), set.class)
			}
			for _, r := range table.R32 {
				fill(all, rune(r.Lo), rune(r.Hi), rune(r.Stride), set.class)
			}
		}
	}
	all['\r'], all['\n'] = newline, newline
	copy(ascii[:], all)
	seen := map[[1 << blockBits]class]uint16{}
	for i := range blockOf {
		block := [1 << blockBits]class(all[i<<blockBits:])
		n, ok := seen[block]
		if !ok {
			n = uint16(len(blocks))
			seen[block], blocks = n, append(blocks, block)
		}
		blockOf[i] = n
	}
}

func fill(all []class, from, to, stride rune, c class) {
	for r := from; r <= to; r += stride {
		all[r] = c
	}
}

// classAt returns the class of the character at a position of a valid UTF-8 text, and the position of the next one. At
// the end of the text it returns no class.
func classAt(text string, at int) (c class, next int) {
	if at >= len(text) {
		return 0, at
	}
	if b := text[at]; b < utf8.RuneSelf {
		return ascii[b], at + 1
	}
	r, width := utf8.DecodeRuneInString(text[at:])
	return blocks[blockOf[r>>blockBits]][r&(1<<blockBits-1)], at + width
}

// run returns the end of the run of characters in a set that begins at a position of a text.
func run(text string, at int, set class) int {
	for {
		c, next := classAt(text, at)
		if c&set == 0 {
			return at
		}
		at = next
	}
}
