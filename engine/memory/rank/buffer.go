package rank

import (
	"slices"
	"sync"
)

// keptPostings is the largest capacity, in postings, of a buffer that is kept for later queries: 8 MiB.
const keptPostings = 1 << 18

// Buffer is memory for the postings of one query at a time. It is reused for later queries of any tenant. It contains
// only numbers, and is overwritten before it is read.
type Buffer struct {
	all, free []Posting // the memory, and the part not used by any word yet
	aside     []Posting // used by Unite
}

var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// NewBuffer returns an empty buffer.
func NewBuffer() *Buffer { return buffers.Get().(*Buffer) }

// Reset frees the memory of all words. Their postings must not be read any more.
func (b *Buffer) Reset() { b.free = b.all[:0] }

// Release returns the buffer to the pool, unless it is large. Neither it nor its postings may be used any more.
func (b *Buffer) Release() {
	b.Reset()
	if cap(b.all) <= keptPostings && cap(b.aside) <= keptPostings {
		buffers.Put(b)
	}
}

// Room returns an empty list with capacity for n postings.
func (b *Buffer) Room(n int) []Posting {
	if cap(b.free) < n {
		b.all = make([]Posting, 0, max(n, 2*cap(b.all)))
		b.Reset()
	}
	return b.free
}

// Keep reserves the memory of a list that was begun with Room until the buffer is reset.
func (b *Buffer) Keep(list []Posting) []Posting {
	b.free = list[len(list):]
	return slices.Clip(list)
}

// Unite merges the two sorted parts of a list in place; the second begins at from. A document in both counts once, with
// all its occurrences.
func (b *Buffer) Unite(list []Posting, from int) []Posting {
	if from == 0 || from == len(list) {
		return list
	}
	b.aside = append(b.aside[:0], list[:from]...)
	first, second, n := b.aside, list[from:], 0 // n never passes the read position of the second part, so nothing unread is overwritten.
	for ; len(first) > 0 && len(second) > 0; n++ {
		switch c := first[0].Compare(second[0].Place); {
		case c < 0:
			list[n], first = first[0], first[1:]
		case c > 0:
			list[n], second = second[0], second[1:]
		default:
			count := first[0].Count + second[0].Count
			list[n], first, second = first[0], first[1:], second[1:]
			list[n].Count = count
		}
	}
	n += copy(list[n:], first)
	n += copy(list[n:], second)
	return list[:n]
}
