// Package tiktoken counts tokens with tiktoken-go, offline: the vocabularies are part of the binary. A Counter
// remembers the counts of short texts, and cuts long runs of one class of characters, for which the library takes
// quadratic time.
package tiktoken

import (
	"fmt"
	"sync"
	"unicode"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// The encodings there are.
const (
	O200K  = "o200k_base"
	CL100K = "cl100k_base"
)

const (
	// maxShort is the length, in bytes, up to which counts are remembered: roles, markers, and the words before an
	// earlier question are counted for every window.
	maxShort = 64
	// maxRemembered bounds the texts that one encoding remembers.
	maxRemembered = 8192
	// parallelFrom is the length, in bytes, from which the second encoding is worth a goroutine.
	parallelFrom = 2048
)

// Counter counts tokens. It is safe for concurrent use.
type Counter struct {
	o200k, cl100k *encoding
}

// New loads both encodings.
func New() (*Counter, error) {
	tiktoken.SetBpeLoader(loader.NewOfflineLoader()) // else the library would fetch its vocabularies
	o200k, err := load(O200K)
	if err != nil {
		return nil, err
	}
	cl100k, err := load(CL100K)
	if err != nil {
		return nil, err
	}
	return &Counter{o200k, cl100k}, nil
}

// Count returns the number of tokens of a text. Special tokens that it spells out are ordinary text. It panics where
// the name is not O200K or CL100K, because settings are checked long before.
func (c *Counter) Count(name, text string) int {
	switch name {
	case O200K:
		return c.o200k.count(text)
	case CL100K:
		return c.cl100k.count(text)
	}
	panic("tiktoken: unknown encoding " + name)
}

// CountBoth counts a text in both encodings, O200K first.
func (c *Counter) CountBoth(text string) [2]uint32 {
	if len(text) < parallelFrom {
		return [2]uint32{uint32(c.o200k.count(text)), uint32(c.cl100k.count(text))}
	}
	second := make(chan uint32, 1)
	go func() { second <- uint32(c.cl100k.count(text)) }()
	return [2]uint32{uint32(c.o200k.count(text)), <-second}
}

// encoding is one tokenizer with the counts of short texts that it remembers.
type encoding struct {
	tokenizer *tiktoken.Tiktoken

	mu    sync.RWMutex
	short map[string]int
}

func load(name string) (*encoding, error) {
	t, err := tiktoken.GetEncoding(name)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", name, err)
	}
	return &encoding{tokenizer: t, short: map[string]int{}}, nil
}

// count counts a text, or remembers its count.
func (e *encoding) count(text string) int {
	if len(text) > maxShort {
		return e.encode(text)
	}
	e.mu.RLock()
	n, ok := e.short[text]
	e.mu.RUnlock()
	if ok {
		return n
	}
	n = e.encode(text)
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.short) >= maxRemembered {
		clear(e.short)
	}
	e.short[string([]byte(text))] = n // a copy: the text may be a piece of a long one
	return n
}

// encode counts piece by piece: see cut.
func (e *encoding) encode(text string) int {
	n := 0
	for len(text) > 0 {
		end := cut(text)
		n += len(e.tokenizer.EncodeOrdinary(text[:end]))
		text = text[end:]
	}
	return n
}

// maxRun is the longest run of characters of one class, in bytes, that is encoded at once. Real documents hold no
// longer run, so cutting does not change their counts.
const maxRun = 1024

// class is a class of characters as the tokenizers' patterns know them.
type class uint8

const (
	letter class = iota // or a mark
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
