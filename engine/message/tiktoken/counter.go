// Package tiktoken counts tokens as OpenAI's tokenizers do, offline: the vocabularies are part of the binary. Its counts
// are those of the library tiktoken-go, which its tests hold it against. It does not use the library, because that
// takes time that grows with the square of a long run of letters or blanks, and cannot be stopped.
package tiktoken

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The encodings there are.
const (
	O200K  = "o200k_base"
	CL100K = "cl100k_base"
)

// chunk is how much of a text is counted between two looks at whether to stop, in bytes.
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

// Count returns the number of tokens of a text. Special tokens that it spells out are ordinary text, and a byte that is
// not UTF-8 counts as U+FFFD. Count panics where the name is not O200K or CL100K, because settings are checked long
// before.
func (c *Counter) Count(name, text string) int {
	n, _ := c.CountUntil(name, text, never)
	return n
}

// CountUntil counts as Count does, and asks stop once for each 64 KiB at most. Where stop says true, CountUntil
// returns at once with the count of what it has seen, and false.
func (c *Counter) CountUntil(name, text string, stop func() bool) (n int, whole bool) {
	w := watch{stop: stop}
	n = c.encoding(name).count(valid(text), &w)
	return n, !w.stopped
}

// CountBehind counts a text alone, and together with a prefix in front of it, each in both encodings, O200K first. The
// two differ in a few pieces at the seam, so it takes hardly longer than counting the text. Where the context ends
// before, it returns the context's error.
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

// valid puts U+FFFD in the place of every byte that is not UTF-8.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.Map(func(r rune) rune { return r }, text)
}

// watch asks whether to stop while a text is counted. Once it was told to, it stays stopped.
type watch struct {
	stop    func() bool
	passed  int // since it asked, in bytes
	stopped bool
}

// pass notes that so many bytes are counted, and tells whether to stop.
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

// count counts the tokens of a text, which is valid UTF-8, piece by piece.
func (e *encoding) count(text string, w *watch) (n int) {
	for at := 0; at < len(text) && !w.stopped; {
		n, at = e.countPiece(n, text, at, w)
	}
	return n
}

// countPiece adds the tokens of the piece that begins at a place to n, and gives where the piece ends.
func (e *encoding) countPiece(n int, text string, at int, w *watch) (sum, end int) {
	end = e.split(text, at)
	return n + e.vocabulary.count(text[at:end], w), end
}

// countBehind counts a text alone and behind a prefix. From the first place on where a piece begins in both, their
// pieces are the same.
func (e *encoding) countBehind(prefix, text string, w *watch) (alone, behind int) {
	at, joinedAt := 0, 0 // of the text, and of the prefix with the text
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
