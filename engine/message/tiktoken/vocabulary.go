package tiktoken

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"sync/atomic"

	"github.com/pkoukk/tiktoken-go-loader/assets"
)

// vocabulary holds the tokens of an encoding. They are concatenated in the order of their ranks, so the position of a
// token represents its rank.
type vocabulary struct {
	tokens string
	// slots is a hash table of the tokens with open addressing. A slot holds half the token's hash, its length in eight
	// bits, and its position in 24 bits; an empty slot is zero.
	slots []uint64
	seed  maphash.Seed
	// pairs are the ranks of tokens of two bytes, which are looked up most often.
	pairs [1 << 16]uint32
	cache [cacheSlots]atomic.Pointer[cached]
}

// cached is the number of tokens of a piece. Pieces of up to maxCached bytes that are not tokens are cached, one per
// slot, so a vocabulary caches at most cacheSlots*maxCached bytes of text.
type cached struct {
	piece  string
	tokens int
}

const (
	cacheSlots = 1 << 13
	maxCached  = 32
)

const (
	// none is the rank of a text that is not a token.
	none = math.MaxUint32
	// maxToken is the length of the longest token of both vocabularies.
	maxToken = 128
	// window is how much of a long piece is merged at a time, in bytes, while its tokens are short.
	window = 64
)

// loadVocabulary reads a vocabulary from the file in tiktoken-go-loader. It has one line per token, in the order of
// ranks from 0, with the token in base64 and its rank.
func loadVocabulary(name string) (*vocabulary, error) {
	file, err := assets.Assets.ReadFile(name + ".tiktoken")
	if err != nil {
		return nil, err
	}
	lines := bytes.Count(file, []byte{'\n'})
	tokens := make([]byte, 0, len(file)/2)
	ends := make([]uint32, 0, lines)
	for line := range bytes.Lines(file) {
		word, rank, _ := bytes.Cut(bytes.TrimSpace(line), []byte{' '})
		if string(rank) != fmt.Sprint(len(ends)) {
			return nil, fmt.Errorf("vocabulary %s: line %d has rank %q", name, len(ends)+1, rank)
		}
		before := len(tokens)
		if tokens, err = base64.StdEncoding.AppendDecode(tokens, word); err != nil {
			return nil, fmt.Errorf("vocabulary %s: line %d: %w", name, len(ends)+1, err)
		}
		if n := len(tokens) - before; n < 1 || n > maxToken {
			return nil, fmt.Errorf("vocabulary %s: line %d has %d bytes", name, len(ends)+1, n)
		}
		ends = append(ends, uint32(len(tokens)))
	}
	return newVocabulary(string(tokens), ends), nil
}

// newVocabulary returns a vocabulary of tokens in the order of their ranks. ends are their ends.
func newVocabulary(tokens string, ends []uint32) *vocabulary {
	size := 1
	for size < 2*len(ends) {
		size *= 2
	}
	v := &vocabulary{tokens: tokens, slots: make([]uint64, size), seed: maphash.MakeSeed()}
	for i := range v.pairs {
		v.pairs[i] = none
	}
	at := uint32(0)
	for _, end := range ends {
		v.add(at, tokens[at:end])
		at = end
	}
	return v
}

func (v *vocabulary) add(rank uint32, token string) {
	if len(token) == 2 {
		v.pairs[uint16(token[0])<<8|uint16(token[1])] = rank
	}
	hash := maphash.String(v.seed, token)
	i := hash & uint64(len(v.slots)-1)
	for v.slots[i] != 0 {
		i = (i + 1) & uint64(len(v.slots)-1)
	}
	v.slots[i] = hash>>32<<32 | uint64(len(token))<<24 | uint64(rank)
}

// rank returns the rank of a token with the given hash, or none.
func (v *vocabulary) rank(token string, hash uint64) uint32 {
	want := hash>>32<<32 | uint64(len(token))<<24
	for i := hash; ; i++ {
		slot := v.slots[i&uint64(len(v.slots)-1)]
		if slot == 0 {
			return none
		}
		if slot&^(1<<24-1) == want {
			at := uint32(slot & (1<<24 - 1))
			if v.tokens[at:at+uint32(len(token))] == token {
				return at
			}
		}
	}
}

// count returns the number of tokens of a piece. If it is stopped, the count is incomplete.
func (v *vocabulary) count(piece string, w *watch) int {
	if len(piece) > maxToken {
		return v.countLong(piece, window, w)
	}
	w.pass(len(piece))
	if len(piece) == 1 {
		return 1 // all bytes are tokens
	}
	hash := maphash.String(v.seed, piece)
	if v.rank(piece, hash) != none {
		return 1
	}
	var space [maxToken + 1]part
	if len(piece) > maxCached {
		return len(v.merge(piece, space[:0])) - 1
	}
	slot := &v.cache[hash>>32%cacheSlots]
	if c := slot.Load(); c != nil && c.piece == piece {
		return c.tokens
	}
	n := len(v.merge(piece, space[:0])) - 1
	slot.Store(&cached{strings.Clone(piece), n}) // a copy, because the piece is part of a long text
	return n
}

// part is the start of a token while a text is merged, and the rank of the token joined with the next one.
type part struct{ at, rank uint32 }

// merge encodes a text by joining the two neighbours of the lowest rank, the first of several, until no two neighbours
// form a token. It returns where the tokens begin, and the end of the text. Its running time is quadratic in the length
// of the text.
func (v *vocabulary) merge(text string, parts []part) []part {
	for i := range len(text) - 1 {
		parts = append(parts, part{uint32(i), v.pairs[uint16(text[i])<<8|uint16(text[i+1])]})
	}
	parts = append(parts, part{uint32(len(text) - 1), none}, part{uint32(len(text)), none})
	for {
		least := uint32(none)
		for i := range parts {
			least = min(least, parts[i].rank)
		}
		if least == none {
			return parts
		}
		parts = v.mergeAll(text, parts, least)
	}
}

// mergeAll joins neighbours of the lowest rank from left to right, until a join creates neighbours of a lower rank.
func (v *vocabulary) mergeAll(text string, parts []part, least uint32) []part {
	to := 0
	for from := 0; from < len(parts); from++ {
		parts[to] = parts[from]
		if parts[from].rank != least {
			to++
			continue
		}
		from++ // the token from here to the next one is joined with the previous one
		behind := uint32(none)
		if from+2 < len(parts) {
			behind = v.joined(text, parts[to].at, parts[from+2].at)
		}
		parts[to].rank = behind
		before := uint32(none)
		if to > 0 {
			before = v.joined(text, parts[to-1].at, parts[from+1].at)
			parts[to-1].rank = before
		}
		to++
		if before <= least || behind <= least {
			to += copy(parts[to:], parts[from+1:])
			break
		}
	}
	return parts[:to]
}

// joined returns the rank of the text between two positions.
func (v *vocabulary) joined(text string, from, to uint32) uint32 {
	if to-from > maxToken {
		return none
	}
	both := text[from:to]
	return v.rank(both, maphash.String(v.seed, both))
}

// countLong counts a long piece in linear time by merging overlapping windows. The tokens of a window are those of the
// piece, except for some at its end, which depend on what follows. The next window therefore begins inside this one, at
// the end of a token. The position is right if that token and the first token of the next window stay separate when
// they are encoded together: a row of tokens is an encoding if and only if every two neighbours in it are one.
func (v *vocabulary) countLong(piece string, size int, w *watch) int {
	n := 0
	parts, next := v.merge(piece[:min(size, len(piece))], nil), []part(nil)
	for from := 0; from+size < len(piece); {
		if w.pass(size) {
			return n
		}
		i := len(parts) - 2
		for int(parts[i].at) > size-size/8 {
			i--
		}
		for tries := 8; ; i, tries = i-1, tries-1 {
			if i <= 0 || tries == 0 {
				return v.countLong(piece, 2*size, w) // a wider window has other tokens at its end
			}
			at := from + int(parts[i].at)
			next = v.merge(piece[at:min(at+size, len(piece))], next[:0])
			if v.staySeparate(piece[from+int(parts[i-1].at):at], piece[at:at+int(next[1].at)]) {
				n, from = n+i, at
				break
			}
		}
		parts, next = next, parts
	}
	return n + len(parts) - 1
}

// staySeparate reports whether two tokens stay separate when they are encoded together.
func (v *vocabulary) staySeparate(left, right string) bool {
	var space [2*maxToken + 1]part
	parts := v.merge(left+right, space[:0])
	return len(parts) == 3 && int(parts[1].at) == len(left)
}
