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

// vocabulary is the tokens of an encoding. They lie one behind the other in the order of their ranks, so the place of a
// token stands for its rank.
type vocabulary struct {
	tokens string
	// slots is a hash table of the tokens with open addressing. A slot is half the token's hash, its length in eight
	// bits and its place in 24; an empty slot is zero.
	slots []uint64
	seed  maphash.Seed
	// pairs are the ranks of tokens of two bytes, which are looked for most often.
	pairs [1 << 16]uint32
	cache [cacheSlots]atomic.Pointer[cached]
}

// cached is how many tokens a piece has. Pieces up to maxCached bytes that are no token are remembered, one in each
// slot, so a vocabulary remembers at most cacheSlots*maxCached bytes of text.
type cached struct {
	piece  string
	tokens int
}

const (
	cacheSlots = 1 << 13
	maxCached  = 32
)

const (
	// none is the rank of what is no token.
	none = math.MaxUint32
	// maxToken is the length of the longest token of both vocabularies.
	maxToken = 128
	// window is how much of a long piece is merged at once, in bytes, while its tokens are short.
	window = 64
)

// loadVocabulary reads a vocabulary from the file that tiktoken-go-loader has of it: a line for each token, in the order
// of ranks from 0, with the token in base64 and its rank.
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

// newVocabulary makes a vocabulary of tokens in the order of their ranks, which end where ends says.
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

// rank gives the rank of a token, or none, from its hash.
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

// count gives how many tokens a piece has. Where it is stopped, the count is not whole.
func (v *vocabulary) count(piece string, w *watch) int {
	if len(piece) > maxToken {
		return v.countLong(piece, window, w)
	}
	w.pass(len(piece))
	if len(piece) == 1 {
		return 1 // All bytes are tokens.
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
	slot.Store(&cached{strings.Clone(piece), n}) // A copy, because the piece is part of a long text.
	return n
}

// part is where a token begins while a text is merged, and the rank that it has together with the next token.
type part struct{ at, rank uint32 }

// merge encodes a text that is not looked for as a whole: it joins the two neighbours of the lowest rank, the first of
// several, until no two are a token. It gives where the tokens begin, and the text's end. Its time grows with the square
// of the text's length.
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

// mergeAll joins neighbours of the lowest rank from left to right, up to where a join makes neighbours that come first.
func (v *vocabulary) mergeAll(text string, parts []part, least uint32) []part {
	to := 0
	for from := 0; from < len(parts); from++ {
		parts[to] = parts[from]
		if parts[from].rank != least {
			to++
			continue
		}
		from++ // The token from here to the next is joined to the one before.
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

// joined gives the rank of what lies between two places of a text.
func (v *vocabulary) joined(text string, from, to uint32) uint32 {
	if to-from > maxToken {
		return none
	}
	both := text[from:to]
	return v.rank(both, maphash.String(v.seed, both))
}

// countLong counts a long piece in time that grows with its length: it merges windows that overlap. The tokens of a
// window are the piece's but for some at its end, which depend on what follows. So the next window begins within this
// one, where a token ends, and the place is right if that token and the next window's first stay apart when the two
// are encoded together: a row of tokens is an encoding if and only if each two neighbours in it are one.
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
				return v.countLong(piece, 2*size, w) // A wider window has other tokens at its end.
			}
			at := from + int(parts[i].at)
			next = v.merge(piece[at:min(at+size, len(piece))], next[:0])
			if v.apart(piece[from+int(parts[i-1].at):at], piece[at:at+int(next[1].at)]) {
				n, from = n+i, at
				break
			}
		}
		parts, next = next, parts
	}
	return n + len(parts) - 1
}

// apart tells whether two tokens stay two when they are encoded together.
func (v *vocabulary) apart(left, right string) bool {
	var space [2*maxToken + 1]part
	parts := v.merge(left+right, space[:0])
	return len(parts) == 3 && int(parts[1].at) == len(left)
}
