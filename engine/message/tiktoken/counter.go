// Package tiktoken counts tokens like OpenAI's tokenizers, offline: the vocabularies are part of the binary. Its counts
// equal those of the library tiktoken-go, which its tests compare it with. It does not use the library, whose running
// time is quadratic in the length of a run of letters or blanks and which cannot be interrupted.
package tiktoken

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The supported encodings.
const (
	O200K  = "o200k_base"
	CL100K = "cl100k_base"
)

// chunk is how much of a text is counted between two calls of stop, in bytes.
const chunk = 64 << 10

// Counter counts tokens. It is safe for concurrent use.
type Counter struct {
	o200k, cl100k *encoding
}

// New loads both encodings.
func New() (*Counter, error) {
	o200k, err := loadVocabulary(O200K)
	if err != nil {
		return nil, err
	}
	cl100k, err := loadVocabulary(CL100K)
	if err != nil {
		return nil, err
	}
	return &Counter{&encoding{splitO200K, o200k}, &encoding{splitCL100K, cl100k}}, nil
}

// Count returns the number of tokens of a text. Special tokens in the text count as ordinary text, and a byte that is
// not UTF-8 as U+FFFD. Count panics if the name is not O200K or CL100K, because settings are checked long before.
func (c *Counter) Count(name, text string) int {
	n, _ := c.CountUntil(name, text, never)
	return n
}

// CountUntil counts like Count, and calls stop at most once per 64 KiB. If stop returns true, CountUntil returns at
// once with the count so far, and false.
func (c *Counter) CountUntil(name, text string, stop func() bool) (n int, whole bool) {
	w := watch{stop: stop}
	n = c.encoding(name).count(valid(text), &w)
	return n, !w.stopped
}

// CountBehind counts a text by itself, and together with a prefix before it, each in both encodings, O200K first. The
// two differ only in a few pieces at the seam, so this takes hardly longer than counting the text. If the context ends
// first, it returns the context's error.
func (c *Counter) CountBehind(ctx context.Context, prefix, text string) (alone, behind [2]uint32, err error) {
	prefix, text = valid(prefix), valid(text)
	w := watch{stop: func() bool { return ctx.Err() != nil }}
	for i, e := range [...]*encoding{c.o200k, c.cl100k} {
		a, b := e.countBehind(prefix, text, &w)
		if w.stopped {
			return alone, behind, ctx.Err()
		}
		alone[i], behind[i] = uint32(a), uint32(b)
	}
	return alone, behind, nil
}

func (c *Counter) encoding(name string) *encoding {
	switch name {
	case O200K:
		return c.o200k
	case CL100K:
		return c.cl100k
	}
	panic(fmt.Sprintf("tiktoken: unknown encoding %q", name))
}

func never() bool { return false }

// valid replaces every byte that is not UTF-8 by U+FFFD.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.Map(func(r rune) rune { return r }, text)
}

// watch calls stop while a text is counted. Once stopped, it stays stopped.
type watch struct {
	stop    func() bool
	passed  int // since the last call, in bytes
	stopped bool
}

// pass records that n more bytes were counted, and reports whether to stop.
func (w *watch) pass(n int) (stopped bool) {
	if w.passed += n; w.passed >= chunk && !w.stopped {
		w.passed, w.stopped = 0, w.stop()
	}
	return w.stopped
}

// encoding is one tokenizer.
type encoding struct {
	split splitter
	*vocabulary
}

// count counts the tokens of a valid UTF-8 text, piece by piece.
func (e *encoding) count(text string, w *watch) (n int) {
	for at := 0; at < len(text) && !w.stopped; {
		n, at = e.countPiece(n, text, at, w)
	}
	return n
}

// countPiece adds the tokens of the piece that begins at a position to n, and returns the end of the piece.
func (e *encoding) countPiece(n int, text string, at int, w *watch) (sum, end int) {
	end = e.split(text, at)
	return n + e.vocabulary.count(text[at:end], w), end
}

// countBehind counts a text by itself and after a prefix. From the first position at which a piece begins in both,
// their pieces are equal.
func (e *encoding) countBehind(prefix, text string, w *watch) (alone, behind int) {
	at, joinedAt := 0, 0 // in the text, and in the prefix with the text
	if prefix != "" {
		joined := prefix + text
		for joinedAt-len(prefix) != at && !w.stopped {
			if joinedAt-len(prefix) < at {
				behind, joinedAt = e.countPiece(behind, joined, joinedAt, w)
			} else {
				alone, at = e.countPiece(alone, text, at, w)
			}
		}
	}
	n := e.count(text[at:], w)
	return alone + n, behind + n
}
