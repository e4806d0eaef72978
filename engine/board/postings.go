package board

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode"
)

// Entries of a board are found by terms: that they are there at all, each of their tags, each of their words. For
// every block of blockSize numbers, a term has one record that says which of them have it.
const (
	blockSize = 1024
	termAll   = "a"
	termTag   = "t"
	termWord  = "w"
)

const (
	// maxWord is how much of a word counts, in bytes.
	maxWord = 64
	// maxWords bounds the words by which one entry is found: all are written in one commit.
	maxWords = 8000
	// firstUnspaced is where the scripts begin that are written without spaces.
	firstUnspaced = 0x0e00
)

// postings are the entries of one block that have a term, as bits.
type postings [blockSize / 64]uint64

func (p *postings) set(seq uint64)   { p[seq%blockSize/64] |= 1 << (seq % 64) }
func (p *postings) clear(seq uint64) { p[seq%blockSize/64] &^= 1 << (seq % 64) }

func (p *postings) count() (n int) {
	for _, word := range p {
		n += bits.OnesCount64(word)
	}
	return n
}

func (p *postings) and(other *postings) {
	for i := range p {
		p[i] &= other[i]
	}
}

func (p *postings) andNot(other *postings) {
	for i := range p {
		p[i] &^= other[i]
	}
}

// numbers appends the numbers in a block, ascending.
func (p *postings) numbers(dst []uint64, block uint64) []uint64 {
	for i, word := range p {
		for ; word != 0; word &= word - 1 {
			dst = append(dst, block*blockSize+uint64(i*64+bits.TrailingZeros64(word)))
		}
	}
	return dst
}

// between keeps the numbers of a block from first to last.
func (p *postings) between(block, first, last uint64) {
	for i := range p {
		low := block*blockSize + uint64(i*64)
		switch high := low + 63; {
		case high < first || low > last:
			p[i] = 0
		default:
			if first > low {
				p[i] &= ^uint64(0) << (first - low)
			}
			if last < high {
				p[i] &= ^uint64(0) >> (high - last)
			}
		}
	}
}

// listed is the most numbers that are written as a list: a longer list would take more room than all bits.
const listed = blockSize/8/2 - 1

// encode writes few numbers as a list of two bytes each, many as bits.
func (p *postings) encode() []byte {
	if p.count() <= listed {
		out := make([]byte, 0, 8)
		for _, seq := range p.numbers(nil, 0) {
			out = binary.BigEndian.AppendUint16(out, uint16(seq))
		}
		return out
	}
	out := make([]byte, 0, blockSize/8)
	for _, word := range p {
		out = binary.BigEndian.AppendUint64(out, word)
	}
	return out
}

func decodePostings(b []byte) (p postings, ok bool) {
	switch {
	case len(b) == blockSize/8:
		for i := range p {
			p[i] = binary.BigEndian.Uint64(b[8*i:])
		}
		return p, true
	case len(b) > 2*listed || len(b)%2 != 0:
		return p, false
	}
	for ; len(b) > 0; b = b[2:] {
		seq := binary.BigEndian.Uint16(b)
		if seq >= blockSize {
			return p, false
		}
		p.set(uint64(seq))
	}
	return p, true
}

// wordsOf gives the distinct words of a text, at most limit: runs of letters, marks and digits in lower case. A
// character of a script that is written without spaces is a word by itself.
func wordsOf(text string, limit int) []string {
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
		case r >= firstUnspaced && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer,
			unicode.Myanmar):
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
